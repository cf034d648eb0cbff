"""Linear and cross-entropy in one: who can be had, and who of them is right, against float64.

It knows the contenders, the cases and the error that a dtype must have. It does not know how fast any of them is.
"""
