"""What compilers make of the kernels: Triton's stages and machine code, and a C++ compiler's instructions.

It knows how Triton and Inductor call their assemblers, and not which of the texts is shown.
"""
