"""What one imports: the softmax kernels (CUDA C, Triton, references), the operator, its dispatch, the fused LM head."""
