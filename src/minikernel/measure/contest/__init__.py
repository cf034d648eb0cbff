"""The contest on a GPU: our kernels and every installed peer in one process; the LM head; what a call costs."""
