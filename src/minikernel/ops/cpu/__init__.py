"""The softmax in C++ for this machine's processor: four rungs, how they are built, and the memory of their results.

It knows the compiler and the processor's vectors. It does not know PyTorch's own kernel, which it is held against.
"""
