"""What one imports: the softmax kernels (CUDA C, Triton, references), the operator, its dispatch, the fused LM head.

It knows how each computes and how it is launched. It does not know whether it is right or how fast it is; others say
so.
"""
