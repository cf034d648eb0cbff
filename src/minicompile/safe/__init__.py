"""Compiles a model with torch.compile and proves it against eager, or leaves it eager and says why."""
