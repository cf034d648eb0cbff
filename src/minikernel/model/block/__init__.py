"""A block has whole sequences: the forward pass for many of them, weights streamed from L2 through shared memory."""
