"""Trains the PyTorch port on the grammar, eager and compiled in turn, to try the safety net on a real run."""
