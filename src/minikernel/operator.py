"""`minikernel::softmax`, a PyTorch operator with a backward pass, for whatever torch does with operators.

Importing this module registers two operators with `torch.library`: `minikernel::softmax(x, dim)` and
`minikernel::softmax_backward(dy, y, dim)`. On CUDA, in float32, bfloat16 and float16, they launch the lab's
`fused` and `fused_backward` kernels; everything else, float64 and the CPU among it, goes to torch's own softmax.
Both have a fake kernel (torch.compile, torch.export), a gradient (the backward operator's too: gradients of
gradients), a rule for vmap, and F.softmax's rule for autocast on CUDA, float32 out of 16 bits.

They are defined on a bare `torch.library.Library`, whose dispatch costs the host less than `custom_op`'s.
"""

import torch

from minikernel import softmax_backward as cuda_backward
from minikernel import softmax_cuda

NAMESPACE = "minikernel"
LIBRARY = torch.library.Library(NAMESPACE, "DEF")  # registrations last as long as this object
LIBRARY.define("softmax(Tensor x, int dim) -> Tensor")
LIBRARY.define("softmax_backward(Tensor dy, Tensor y, int dim) -> Tensor")
softmax_op = torch.ops.minikernel.softmax.default
softmax_backward_op = torch.ops.minikernel.softmax_backward.default


def is_last(dim: int, rank: int) -> bool:
    """Whether `dim` names the last axis of a tensor of `rank`; a scalar has one, 0 or -1."""
    return dim in (-1, max(rank, 1) - 1)


def torch_softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
    """The forward operator where there is no kernel of the lab's: torch's, as contiguous as `like` says."""
    return torch.softmax(x, dim).contiguous()


def torch_softmax_backward(dy: torch.Tensor, y: torch.Tensor, dim: int) -> torch.Tensor:
    """The backward operator where there is no kernel of the lab's."""
    return torch._softmax_backward_data(dy, y, dim, y.dtype).contiguous()


def cuda_softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
    """The forward operator on CUDA; `dim` is checked as torch checks it."""
    if x.dtype not in softmax_cuda.C_TYPES:
        return torch_softmax(x, dim)
    if is_last(dim, x.dim()):
        return softmax_cuda.fused(x)
    return softmax_cuda.fused(x.movedim(dim, -1)).movedim(-1, dim).contiguous()


def cuda_softmax_backward(dy: torch.Tensor, y: torch.Tensor, dim: int) -> torch.Tensor:
    """The backward operator on CUDA."""
    if y.dtype not in softmax_cuda.C_TYPES:
        return torch_softmax_backward(dy, y, dim)
    if is_last(dim, y.dim()):
        return cuda_backward.softmax_backward(dy, y)
    dx = cuda_backward.softmax_backward(dy.movedim(dim, -1), y.movedim(dim, -1))
    return dx.movedim(-1, dim).contiguous()


LIBRARY.impl("softmax", torch_softmax, "CompositeExplicitAutograd")
LIBRARY.impl("softmax_backward", torch_softmax_backward, "CompositeExplicitAutograd")
LIBRARY.impl("softmax", cuda_softmax, "CUDA")
LIBRARY.impl("softmax_backward", cuda_softmax_backward, "CUDA")


@torch.library.register_fake(softmax_op, lib=LIBRARY)
def fake_softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Shape, dtype and strides of the result, always contiguous; a bad `dim` is refused as torch refuses it."""
    return torch.empty_like(torch.softmax(x, dim), memory_format=torch.contiguous_format)


@torch.library.register_fake(softmax_backward_op, lib=LIBRARY)
def fake_softmax_backward(dy: torch.Tensor, y: torch.Tensor, dim: int) -> torch.Tensor:
    """Shape, dtype and strides of the gradient: those of `y`, contiguous."""
    return torch.empty_like(y, memory_format=torch.contiguous_format)


def keep_result(ctx, inputs: tuple, output: torch.Tensor) -> None:
    """What the gradient of a softmax needs: its result."""
    ctx.dim = inputs[1]
    ctx.save_for_backward(output)


def gradient_of_softmax(ctx, dy: torch.Tensor):
    """d/dx of the softmax."""
    (y,) = ctx.saved_tensors
    return softmax_backward_op(dy, y, ctx.dim), None


def keep_operands(ctx, inputs: tuple, output: torch.Tensor) -> None:
    """What the gradient of the backward operator needs: both operands."""
    dy, y, ctx.dim = inputs
    ctx.save_for_backward(dy, y)


def gradient_of_softmax_backward(ctx, grad: torch.Tensor):
    """d/d(dy) and d/dy of (dy - sum(dy y)) y: the first is the same operator, the second differentiable torch."""
    dy, y = ctx.saved_tensors
    grad_dy = softmax_backward_op(grad, y, ctx.dim) if ctx.needs_input_grad[0] else None
    grad_y = None
    if ctx.needs_input_grad[1]:
        inner, outer = (dy * y).sum(ctx.dim, keepdim=True), (grad * y).sum(ctx.dim, keepdim=True)
        grad_y = grad * (dy - inner) - dy * outer
    return grad_dy, grad_y, None


torch.library.register_autograd(softmax_op, gradient_of_softmax, setup_context=keep_result, lib=LIBRARY)
torch.library.register_autograd(
    softmax_backward_op, gradient_of_softmax_backward, setup_context=keep_operands, lib=LIBRARY
)
torch.library.register_autocast("minikernel::softmax", "cuda", torch.float32, lib=LIBRARY)


def batch_first(x: torch.Tensor, batch_dim: int | None, batch_size: int) -> torch.Tensor:
    """`x` with vmap's axis first; a tensor that has none is expanded."""
    return x.expand(batch_size, *x.shape) if batch_dim is None else x.movedim(batch_dim, 0)


def batched(operator, batch_size: int, tensors: tuple, batch_dims: tuple, dim: int):
    """Run an operator on tensors of one rank with vmap's axis in front; `dim` counts without that axis."""
    operands = [batch_first(x, at, batch_size) for x, at in zip(tensors, batch_dims, strict=True)]
    if operands[0].dim() == 1:  # scalars: rows of one
        return operator(*(x.unsqueeze(1) for x in operands), dim - (dim >= 0)).squeeze(1), 0
    return operator(*operands, dim + (dim >= 0)), 0


@torch.library.register_vmap(softmax_op, lib=LIBRARY)
def vmap_softmax(info, in_dims: tuple, x: torch.Tensor, dim: int):
    """vmap of the forward operator: one call over all of the batch."""
    return batched(softmax_op, info.batch_size, (x,), in_dims[:1], dim)


@torch.library.register_vmap(softmax_backward_op, lib=LIBRARY)
def vmap_softmax_backward(info, in_dims: tuple, dy: torch.Tensor, y: torch.Tensor, dim: int):
    """vmap of the backward operator: one call over all of the batch."""
    return batched(softmax_backward_op, info.batch_size, (dy, y), in_dims[:2], dim)


def softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """`minikernel::softmax` by a Python name. Any shape and strides; raises IndexError for a bad `dim`."""
    return softmax_op(x, dim)
