"""The training of MiniGPT, timed: a step on every rung, and the whole schedule in one launch.

It knows what a rung costs a step and where a training ends. It does not know how a step is computed.
"""
