"""Exercise 4, online: a row too long for one tile, its maximum and its sum in one pass.

In Triton, tiles of at most 1,024 elements. Go through the row once and keep a running maximum and a running sum;
when the maximum grows, what was summed so far shrinks by exp(old - new). Go through it a second time to write the
result.

Predict, write, then have it marked:

    snakemake --cores 2 exercise --config exercise=online

and read results/exercise/online/REPORT.md.
"""

import torch
import triton
import triton.language as tl

# Your prediction, before you write: a number each, or arithmetic such as 2 / 8. None is no answer yet.
# Counted are the elements that all programs load and store; a tile is not kept for the second pass.
READS = None  # how often an element is loaded
WRITES = None  # how often an element is stored
MEGABYTES = None  # so many megabytes, read and written, where x is 4096 x 600 float32
SHARE_OF_COPY = None  # at most so much of a copy's speed: the bytes of x and of the result, divided by all bytes moved


def softmax(x: torch.Tensor) -> torch.Tensor:
    """The softmax of a float32 tensor over its last axis, in a new tensor of the same shape."""
    raise NotImplementedError("softmax in exercises/04_online.py is not filled in yet")
