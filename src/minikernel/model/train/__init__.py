"""MiniGPT trained in one launch: every step of the schedule, and the held-out loss in between, in one kernel.

It knows how a step is divided among a GPU's blocks, and what fits. It does not know how long a step takes elsewhere.
"""
