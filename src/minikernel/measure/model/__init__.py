"""The whole model timed, as one kernel and as many: forward passes, whole texts, and where their time goes.

It knows the rungs from eager to one kernel, and times them in turn. It does not know how a rung computes.
"""
