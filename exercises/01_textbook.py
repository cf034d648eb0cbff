"""Exercise 1, textbook: a softmax as its formula reads, right on every row.

In PyTorch. exp overflows float32 above 88.7, and the rows that it is tried on go far beyond that: subtract each
row's maximum first. Torch's own softmax does not count.

Predict, write, then have it marked:

    snakemake --cores 2 exercise --config exercise=textbook

and read results/exercise/textbook/REPORT.md.
"""

import torch

# Your prediction, before you write: a number each, or arithmetic such as 2 / 8. None is no answer yet.
# Each operation of PyTorch reads its operands from memory and writes its result there, whole tensors each time.
READS = None  # how often all operations together read a tensor as large as x
WRITES = None  # and how often they write one
MEGABYTES = None  # so many megabytes, read and written, where x is 4096 x 600 float32
SHARE_OF_COPY = None  # at most so much of a copy's speed: the bytes of x and of the result, divided by all bytes moved


def softmax(x: torch.Tensor) -> torch.Tensor:
    """The softmax of a float32 tensor over its last axis, in a new tensor of the same shape."""
    raise NotImplementedError("softmax in exercises/01_textbook.py is not filled in yet")
