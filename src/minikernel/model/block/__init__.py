"""A block has whole sequences: the forward pass for many of them, weights streamed from L2 through shared memory.

It knows one division of the work, for many sequences. It does not know when another would be faster.
"""
