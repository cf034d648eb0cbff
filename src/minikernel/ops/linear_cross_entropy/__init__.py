"""The head that trains: cross_entropy(linear(h, weight), target) without the logits in memory, and its gradients.

It knows which way of computing it a device, a dtype and a width get. It does not know which of them is fast elsewhere.
"""
