"""What the kernels are held against: float64 NumPy for correctness, NumPy and torch for speed."""

import functools

import numpy as np
import torch
import torch.nn.functional as F

from minilab import LabError

# A compiled function is specialised to each shape; Dynamo's own limit of 8 would end a bench of ten.
SHAPES_COMPILED = 256


def softmax_float64(x: np.ndarray) -> np.ndarray:
    """Softmax over the last axis, computed in float64. `x`: (..., cols), any real dtype.

    Rows of -infinity alone, and rows that hold NaN or +infinity, are NaN throughout, as torch gives them.
    """
    x = np.asarray(x, dtype=np.float64)
    if not x.size:
        return x
    # inf - inf is meant to be NaN here, as torch has it
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        numerator = np.exp(x - x.max(axis=-1, keepdims=True))
        return numerator / numerator.sum(axis=-1, keepdims=True)


def numpy_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis of a float32 CPU tensor in plain NumPy, on the tensor's own memory.

    Raises:
        LabError: `x` is not a float32 tensor on the CPU.
    """
    if x.is_cuda or x.dtype != torch.float32:
        raise LabError(f"the NumPy kernel takes float32 tensors on the CPU, not {x.dtype} on {x.device}.")
    if not x.numel():
        return torch.empty_like(x)
    # One new array, overwritten in place: fresh pages for a second would cost more than the arithmetic.
    logits = x.reshape(x.shape or (1,)).numpy(force=True)
    with np.errstate(invalid="ignore"):
        numerator = logits - logits.max(axis=-1, keepdims=True)
        np.exp(numerator, out=numerator)
        numerator /= numerator.sum(axis=-1, keepdims=True)
    return torch.from_numpy(numerator).view(x.shape)


def torch_softmax(x: torch.Tensor) -> torch.Tensor:
    """`torch.nn.functional.softmax` over the last axis."""
    return F.softmax(x, dim=-1)


@functools.cache
def compiled(mode: str):
    """`torch_softmax` compiled by `torch.compile` in the given mode, one kernel a shape."""
    torch._dynamo.config.recompile_limit = SHAPES_COMPILED
    # `fullgraph`: a graph break would time Python beside the kernel without a word.
    return torch.compile(torch_softmax, mode=mode, dynamic=False, fullgraph=True)


def compile_default(x: torch.Tensor) -> torch.Tensor:
    """`torch.compile(F.softmax)` over the last axis, default mode, static shapes."""
    return compiled("default")(x)


def compile_max_autotune(x: torch.Tensor) -> torch.Tensor:
    """`torch.compile(F.softmax)` over the last axis, mode max-autotune, without CUDA graphs."""
    return compiled("max-autotune-no-cudagraphs")(x)
