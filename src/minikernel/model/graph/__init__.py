"""The rung `graph`: fused kernels of the lab, in a CUDA graph; what the one kernel has to beat."""
