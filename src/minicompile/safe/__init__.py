"""Compiles a model with torch.compile and proves it against eager, or leaves it eager and says why.

It knows what may go wrong with a compile, and how it shows. It does not know what the compiler made of the model.
"""
