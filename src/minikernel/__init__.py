"""The lab's softmax kernels.

from minikernel import softmax, kernels

softmax(x, dim=-1)        the best kernel for the tensor's device and dtype
kernels["fused"](x)       one kernel by name, over the last axis
linear_softmax(h, weight) the LM head, softmax(h weight^T + bias), in one kernel
"""

import importlib
from typing import TYPE_CHECKING

from minikernel.registry import kernels, load_user_kernel

if TYPE_CHECKING:
    import torch

__all__ = ["kernels", "linear_softmax", "load_user_kernel", "softmax"]


def softmax(x: "torch.Tensor", dim: int = -1) -> "torch.Tensor":
    """Softmax of `x` along `dim`, by the best kernel for its device and dtype.

    On CUDA the `fused` kernel takes float32, bfloat16 and float16. It has no backward pass: a tensor that
    asks for a gradient goes to `F.softmax`, as do other dtypes and everything on a CPU. Where `dim` is not
    the last axis, or the tensor is not contiguous, it is copied once.

    Args:
        x: floating-point tensor of any rank and strides.
        dim: the axis that sums to one.

    Returns:
        A tensor of the shape and dtype of `x`.

    Raises:
        IndexError: `dim` is no axis of `x`, as torch raises it.
    """
    import torch
    import torch.nn.functional as F

    differentiated = x.requires_grad and torch.is_grad_enabled()
    if not x.is_cuda or differentiated or str(x.dtype).removeprefix("torch.") not in kernels.spec("fused").dtypes:
        return F.softmax(x, dim=dim)
    if dim == -1 or dim == x.dim() - 1:
        return kernels["fused"](x)
    return kernels["fused"](x.movedim(dim, -1)).movedim(-1, dim)


def linear_softmax(
    h: "torch.Tensor", weight: "torch.Tensor", bias: "torch.Tensor | None" = None, precision: str = "float32"
) -> "torch.Tensor":
    """softmax(h weight^T + bias) over the last axis in one kernel; see `minikernel.lm_head.linear_softmax`."""
    # named by a string, as the registry does: who imports this package does not depend on that kernel
    lm_head = importlib.import_module("minikernel.lm_head")
    return lm_head.linear_softmax(h, weight, bias, precision)
