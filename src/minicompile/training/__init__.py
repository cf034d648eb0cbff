"""The PyTorch port trained on the grammar, eager and compiled in turn: the safety net's proof on a real run."""
