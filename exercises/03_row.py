"""Exercise 3, row: one Triton program a row, the row in one masked tile.

exercises/README.md has a frame to start from. A tile's length is a power of two; what of it lies outside the row
must not be loaded, must not count, and must not be stored. Without a GPU Triton's interpreter runs it, which shows
whether it is right and what it moves.

Predict, write, then have it marked:

    snakemake --cores 2 exercise --config exercise=row

and read results/exercise/row/REPORT.md.
"""

import torch
import triton
import triton.language as tl

# Your prediction, before you write: a number each, or arithmetic such as 2 / 8. None is no answer yet.
# Counted are the elements that all programs load and store.
READS = None  # how often an element is loaded
WRITES = None  # how often an element is stored
MEGABYTES = None  # so many megabytes, read and written, where x is 4096 x 600 float32
SHARE_OF_COPY = None  # at most so much of a copy's speed: the bytes of x and of the result, divided by all bytes moved


def softmax(x: torch.Tensor) -> torch.Tensor:
    """The softmax of a float32 tensor over its last axis, in a new tensor of the same shape."""
    raise NotImplementedError("softmax in exercises/03_row.py is not filled in yet")
