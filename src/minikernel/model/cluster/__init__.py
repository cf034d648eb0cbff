"""A cluster of blocks has a sequence: the forward pass for few short ones, heads and columns divided among blocks."""
