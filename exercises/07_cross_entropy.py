"""Exercise 7, cross_entropy: the loss of a language model, without its probabilities in memory.

For each row log(sum(exp(x))) - x[target], one Triton program a row. A softmax first would write every probability
and read one of each row back. Subtract the maximum, and take the target's logit minus the maximum before the
logarithm is added: two large numbers leave little of a small difference.

Predict, write, then have it marked:

    snakemake --cores 2 exercise --config exercise=cross_entropy

and read results/exercise/cross_entropy/REPORT.md.
"""

import torch
import triton
import triton.language as tl

# Your prediction, before you write: a number each, or arithmetic such as 2 / 8. None is no answer yet.
# Counted are the elements of x and of the result, in multiples of x; targets do not count.
READS = None  # how often an element of x is loaded
WRITES = None  # how many elements are stored for each of x: is it nearer to 1 or to 0?
MEGABYTES = None  # so many megabytes, read and written, where x is 4096 x 600 float32
SHARE_OF_COPY = None  # at most so much of a copy's speed: the bytes of x, divided by all bytes moved


def cross_entropy(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The loss of each row of logits, float32, of the shape of target.

    Args:
        x: (..., cols) float32, of any strides.
        target: (...) int64, the column of the word that came.
    """
    raise NotImplementedError("cross_entropy in exercises/07_cross_entropy.py is not filled in yet")
