"""What a call of a model can reach: named, copied with its layout and its sharing, held, and handed over.

It knows how tensors, containers and objects hang together. It does not know what a call does to them.
"""
