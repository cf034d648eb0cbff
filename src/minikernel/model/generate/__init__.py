"""A whole text in one launch: token by token, the weights in the registers of a cluster of blocks."""
