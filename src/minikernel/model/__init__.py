"""MiniGPT as one kernel, a room for each way to do it; here is which of them runs, and what they share.

It knows the model's shapes and weights, and the GPUs that each way needs. It does not know how the model was trained,
and measures nothing.
"""
