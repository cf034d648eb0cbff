"""Exercise 2, blocks: the same, a block of rows at a time, so that the passes find their rows in the cache.

In PyTorch. Allocate the result once; then go through the rows in blocks, each small enough for a cache of 512 KiB,
and let every operation write into the result's own block (`out=`, `exp_`, `div_`). The number of rows need not be a
multiple of your block. It must be faster than exercise 1.

Predict, write, then have it marked:

    snakemake --cores 2 exercise --config exercise=blocks

and read results/exercise/blocks/REPORT.md.
"""

import torch

# Your prediction, before you write: a number each, or arithmetic such as 2 / 8. None is no answer yet.
# Counted between the memory and a cache of 512 KiB, which reads a line before a part of it is overwritten.
READS = None  # how often an element is read from memory: of x, and of the result before it is written
WRITES = None  # how often an element is written to memory
MEGABYTES = None  # so many megabytes, read and written, where x is 4096 x 600 float32
SHARE_OF_COPY = None  # at most so much of a copy's speed: the bytes of x and of the result, divided by all bytes moved


def softmax(x: torch.Tensor) -> torch.Tensor:
    """The softmax of a float32 tensor over its last axis, in a new tensor of the same shape."""
    raise NotImplementedError("softmax in exercises/02_blocks.py is not filled in yet")
