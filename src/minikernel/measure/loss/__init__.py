"""Linear and cross-entropy timed: every contender in one process, with the memory that it takes and its errors.

It knows how long each takes and how much it holds meanwhile. It draws nothing, and does not decide who is right.
"""
