"""A cluster of blocks has a sequence: the forward pass for few short ones, heads and columns divided among blocks.

It knows one division of the work, for few sequences. It does not know when another would be faster.
"""
