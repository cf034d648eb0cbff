"""The pages on what changes in Inductor: over versions of torch, and with each of its switches.

Both quote what `minicompile over-time` and `minicompile switches` found where they were run; `models` has two models
beside the lab's own, each of which shows one change.
"""
