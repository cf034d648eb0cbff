"""The rung `graph`: fused kernels of the lab, in a CUDA graph; what the one kernel has to beat.

It knows which operations make one kernel, and in which order they are launched. It does not know when another rung
would be faster.
"""
