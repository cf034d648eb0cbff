"""Exercise 8, head: the loss of a language model from its last hidden rows, without the logits in memory.

In PyTorch. The logits are x @ weight.t(): for 4,096 rows of 64 numbers and 600 words, nine times as many numbers as x
has. Make those of a few rows at a time, in memory that is allocated once and that a cache of 512 KiB holds beside the
weight; take the loss of these rows, and overwrite them with the next. The number of rows need not be a multiple of your
block.

Predict, write, then have it marked:

    snakemake --cores 2 exercise --config exercise=head

and read results/exercise/head/REPORT.md.
"""

import torch

# Your prediction, before you write: a number each, or arithmetic such as 2 / 8. None is no answer yet.
# Counted between the memory and a cache of 512 KiB, in multiples of x, at 4096 x 64: the weight has 600 x 64 numbers.
READS = None  # how often an element is read from memory: of x, of the weight, and of what is overwritten
WRITES = None  # how many elements are written to memory for each of x
MEGABYTES = None  # so many megabytes, read and written, if an x of 4096 x 600 float32 were read and written as often
SHARE_OF_COPY = None  # at most so much of a copy's speed: the bytes of x, divided by all bytes moved


def head_loss(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The loss of each row, float32, of the shape of target.

    Args:
        x: (..., cols) float32, of any strides.
        weight: (words, cols) float32.
        target: (...) int64, the word that came.
    """
    raise NotImplementedError("head_loss in exercises/08_head.py is not filled in yet")
