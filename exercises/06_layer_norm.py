"""Exercise 6, layer_norm: LayerNorm in one pass over memory, one Triton program a row.

(x - mean) / sqrt(variance + 1e-5) * weight + bias, mean and variance of each row; the variance is the mean of the
squared differences from the mean. The mean of the squares minus the square of the mean is not the same in float32.
Lanes outside the row hold what you load there: they must not count in either.

Predict, write, then have it marked:

    snakemake --cores 2 exercise --config exercise=layer_norm

and read results/exercise/layer_norm/REPORT.md.
"""

import torch
import triton
import triton.language as tl

# Your prediction, before you write: a number each, or arithmetic such as 2 / 8. None is no answer yet.
# Counted are the elements of x and of the result; weight and bias are shared by all rows and do not count.
READS = None  # how often an element is loaded
WRITES = None  # how often an element is stored
MEGABYTES = None  # so many megabytes, read and written, where x is 4096 x 600 float32
SHARE_OF_COPY = None  # at most so much of a copy's speed: the bytes of x and of the result, divided by all bytes moved


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """LayerNorm of a float32 tensor over its last axis, in a new tensor of the same shape.

    Args:
        x: (..., cols), of any strides.
        weight, bias: (cols,).
    """
    raise NotImplementedError("layer_norm in exercises/06_layer_norm.py is not filled in yet")
