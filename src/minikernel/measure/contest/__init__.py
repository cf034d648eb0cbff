"""The contest on a GPU: our kernels and every installed peer in one process; the LM head; what a call costs.

It knows who takes part and how each is called. It does not know how time is taken, which is the same for all.
"""
