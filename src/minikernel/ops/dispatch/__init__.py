"""Which kernel `softmax` launches on a GPU: the choice, and a table for each device that was tuned."""
