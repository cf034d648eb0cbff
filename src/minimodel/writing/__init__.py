"""The model writes: next tokens one after the other with a key-value cache, and how each is chosen.

It knows the model and how to sample from its logits. It does not train, and knows no GPU.
"""
