"""`minikernel::softmax`, a PyTorch operator with a backward pass, for whatever torch does with operators.

Importing this module registers two operators with `torch.library`: `minikernel::softmax(x, dim)` and
`minikernel::softmax_backward(dy, y, dim)`. On CUDA, in float32, bfloat16 and float16, they launch the lab's
kernels, forward the one that `dispatch` names; everything else, float64 and the CPU among it, goes to torch's
own softmax. Both have a fake kernel (torch.compile, torch.export), a gradient (the backward operator's too:
gradients of gradients), a rule for vmap, and F.softmax's rule for autocast on CUDA, float32 out of 16 bits.

They are defined on a bare `torch.library.Library`, whose dispatch costs the host less than `custom_op`'s. A plain
eager call does not come here at all: `native.cpp` goes to the kernels at once.
"""

import torch
from torch.autograd import forward_ad

from minikernel.ops import (
    native,
    softmax_cuda,
    softmax_fused,
    softmax_triton,
    softmax_triton_backward,
    triton_operator,
)
from minikernel.ops import softmax_cuda_backward as cuda_backward
from minikernel.ops.dispatch import dispatch

NAMESPACE = "minikernel"
LIBRARY = torch.library.Library(NAMESPACE, "DEF")  # registrations last as long as this object
LIBRARY.define("softmax(Tensor x, int dim) -> Tensor")
# The backward pass is an operator too, so that a compiler sees one node
# and not its arithmetic, and so that a gradient of it can be registered.
LIBRARY.define("softmax_backward(Tensor dy, Tensor y, int dim) -> Tensor")
softmax_op = torch.ops.minikernel.softmax.default
softmax_backward_op = torch.ops.minikernel.softmax_backward.default


def is_last(dim: int, rank: int) -> bool:
    """Whether `dim` names the last axis of a tensor of `rank`; a scalar has one, 0 or -1."""
    return dim in (-1, max(rank, 1) - 1)


def torch_softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
    """The forward operator where there is no kernel of the lab's: torch's, contiguous."""
    # torch gives the result the strides of `x`; the fake kernel below promises a contiguous one.
    return torch.softmax(x, dim).contiguous()


def torch_softmax_backward(dy: torch.Tensor, y: torch.Tensor, dim: int) -> torch.Tensor:
    """The backward operator where there is no kernel of the lab's."""
    return torch._softmax_backward_data(dy, y, dim, y.dtype).contiguous()


def cuda_rows_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis by the kernel that `dispatch` names."""
    # a scalar is a row of one, as torch has it
    cols = x.shape[-1] if x.dim() else 1
    chosen = dispatch.choice(x.dtype, x.numel() // max(cols, 1), cols, x.get_device())
    if chosen.kernel == "fused":
        return softmax_fused.fused(x)
    return softmax_triton.softmax(x, chosen.config or softmax_triton.default_config(cols))


def cuda_rows_softmax_backward(dy: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The gradient over the last axis, by CUDA C, or by Triton where CuPy is missing."""
    if dispatch.HAS_CUDA_C:
        return cuda_backward.softmax_backward(dy, y)
    return softmax_triton_backward.softmax_backward(dy, y)


def cuda_softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
    """The forward operator on CUDA; `dim` is checked as torch checks it."""
    if x.dtype not in softmax_cuda.C_TYPES:
        return torch_softmax(x, dim)
    if is_last(dim, x.dim()):
        return cuda_rows_softmax(x)
    # The kernels know rows along the last axis only: one copy brings the axis there, one the result back.
    return cuda_rows_softmax(x.movedim(dim, -1)).movedim(-1, dim).contiguous()


def cuda_softmax_backward(dy: torch.Tensor, y: torch.Tensor, dim: int) -> torch.Tensor:
    """The backward operator on CUDA."""
    if y.dtype not in softmax_cuda.C_TYPES:
        return torch_softmax_backward(dy, y, dim)
    if is_last(dim, y.dim()):
        return cuda_rows_softmax_backward(dy, y)
    dx = cuda_rows_softmax_backward(dy.movedim(dim, -1), y.movedim(dim, -1))
    return dx.movedim(-1, dim).contiguous()


# This key serves every backend that has no kernel below. It stands under autograd, so that the gradient that is
# registered here is used, and not that of the operations inside.
LIBRARY.impl("softmax", torch_softmax, "CompositeExplicitAutograd")
LIBRARY.impl("softmax_backward", torch_softmax_backward, "CompositeExplicitAutograd")
LIBRARY.impl("softmax", cuda_softmax, "CUDA")
LIBRARY.impl("softmax_backward", cuda_softmax_backward, "CUDA")


@torch.library.register_fake(softmax_op, lib=LIBRARY)
def fake_softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Shape, dtype and strides of the result, always contiguous; a bad `dim` is refused as torch refuses it."""
    # torch's own softmax of the fake tensor computes nothing; it is there to refuse a bad `dim` in torch's words
    return torch.empty_like(torch.softmax(x, dim), memory_format=torch.contiguous_format)


@torch.library.register_fake(softmax_backward_op, lib=LIBRARY)
def fake_softmax_backward(dy: torch.Tensor, y: torch.Tensor, dim: int) -> torch.Tensor:
    """Shape, dtype and strides of the gradient: those of `y`, contiguous."""
    return torch.empty_like(y, memory_format=torch.contiguous_format)


def keep_result(ctx, inputs: tuple, output: torch.Tensor) -> None:
    """What the gradient of a softmax needs: its result."""
    # The result and not the input: dx = (dy - sum(dy y)) y needs nothing else, and the logits can be freed.
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


def gradient_of_probabilities(grad: torch.Tensor, dy: torch.Tensor, y: torch.Tensor, dim: int) -> torch.Tensor:
    """d/dy of (dy - sum(dy y)) y, times `grad`, in differentiable torch."""
    # The loss holds sum_i G_i (dy_i - s) y_i with s = sum(dy y). y_j is in its own term, which gives G_j (dy_j - s),
    # and in s, which takes dy_j sum(G y) away.
    inner, outer = (dy * y).sum(dim, keepdim=True), (grad * y).sum(dim, keepdim=True)
    return grad * (dy - inner) - dy * outer


def gradient_of_softmax_backward(ctx, grad: torch.Tensor):
    """d/d(dy), the same operator again for a symmetric Jacobian, and d/dy."""
    dy, y = ctx.saved_tensors
    # Linear in dy, and its matrix diag(y) - y y^T is symmetric: the gradient is the operator itself, of `grad`.
    grad_dy = softmax_backward_op(grad, y, ctx.dim) if ctx.needs_input_grad[0] else None
    grad_y = gradient_of_probabilities(grad, dy, y, ctx.dim) if ctx.needs_input_grad[1] else None
    return grad_dy, grad_y, None


torch.library.register_autograd(softmax_op, gradient_of_softmax, setup_context=keep_result, lib=LIBRARY)
torch.library.register_autograd(
    softmax_backward_op, gradient_of_softmax_backward, setup_context=keep_operands, lib=LIBRARY
)
# As F.softmax: sums of exponentials in 16 bits are too coarse, so autocast widens the input.
torch.library.register_autocast("minikernel::softmax", "cuda", torch.float32, lib=LIBRARY)


def batch_first(x: torch.Tensor, batch_dim: int | None, batch_size: int) -> torch.Tensor:
    """`x` with vmap's axis first; a tensor that has none is expanded."""
    return x.expand(batch_size, *x.shape) if batch_dim is None else x.movedim(batch_dim, 0)


def batched(operator, batch_size: int, tensors: tuple, batch_dims: tuple, dim: int):
    """Run an operator on tensors of one rank with vmap's axis in front; `dim` counts without that axis."""
    # Only a dim that counts from the front moves by one; one that counts from the end names the same axis as before.
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


class SoftmaxBackward(torch.autograd.Function):
    """The backward operator under torch.func's transforms and forward-mode differentiation."""

    @staticmethod
    def forward(dy, y, dim):
        return softmax_backward_op(dy, y, dim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        keep_operands(ctx, inputs, output)
        ctx.save_for_forward(*inputs[:2])

    @staticmethod
    def backward(ctx, grad):
        dy, y = ctx.saved_tensors
        return SoftmaxBackward.apply(grad, y, ctx.dim), gradient_of_probabilities(grad, dy, y, ctx.dim), None

    @staticmethod
    def jvp(ctx, dy_tangent, y_tangent, _):
        dy, y = ctx.saved_tensors
        # d[(dy - s) y] = (dy' - sum(dy' y)) y + (dy - s) y' - y sum(dy y'): the first is the operator again.
        tangent = SoftmaxBackward.apply(dy_tangent, y, ctx.dim)
        inner = (dy * y).sum(ctx.dim, keepdim=True)
        return tangent + (dy - inner) * y_tangent - y * (dy * y_tangent).sum(ctx.dim, keepdim=True)

    @staticmethod
    def vmap(info, in_dims, dy, y, dim):
        return batched(SoftmaxBackward.apply, info.batch_size, (dy, y), in_dims[:2], dim)


class Softmax(torch.autograd.Function):
    """The forward operator under torch.func's transforms, which refuse `register_autograd`, and forward mode.

    A softmax's Jacobian is symmetric: one operator multiplies by it from either side.
    """

    @staticmethod
    def forward(x, dim):
        return softmax_op(x, dim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        keep_result(ctx, inputs, output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, dy):
        return SoftmaxBackward.apply(dy, ctx.saved_tensors[0], ctx.dim), None

    @staticmethod
    def jvp(ctx, x_tangent, _):
        return SoftmaxBackward.apply(x_tangent, ctx.saved_tensors[0], ctx.dim)

    @staticmethod
    def vmap(info, in_dims, x, dim):
        return batched(Softmax.apply, info.batch_size, (x,), in_dims[:1], dim)


def seen_through(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Softmax for torch.compile where Triton does it: traced down to the kernel's launch."""
    if is_last(dim, x.dim()):
        return triton_operator.softmax(x)
    return triton_operator.softmax(x.movedim(dim, -1)).movedim(-1, dim).contiguous()


def softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Softmax of `x` along `dim`, by the best kernel for its device and dtype, differentiable.

    On CUDA in float32, bfloat16 and float16 the lab's kernels do it, forward the one that `dispatch` names;
    torch's own softmax does the rest: other dtypes and the CPU. A plain eager call goes to the kernel by
    the shortest way there is on the host (`minikernel.ops.native`); torch.compile, torch.export, torch.func and
    autocast get the operator `minikernel::softmax`, torch.compile `minikernel::softmax_triton` where CuPy is
    missing. The result is contiguous. A tensor is copied, once, only where `dim` is not its last axis or it
    is not contiguous.

    Args:
        x: floating-point tensor of any rank and strides.
        dim: the axis that sums to one.

    Returns:
        A tensor of the shape and dtype of `x`; under autocast, float32.

    Raises:
        IndexError: `dim` is no axis of `x`, as torch raises it.
    """
    # The shortest way first: it asks for itself whether the call is plain. Dynamo cannot trace into it.
    if not torch.compiler.is_dynamo_compiling() and x.is_cuda:
        y = native.softmax()(x, dim)
        if y is not None:
            return y
    compiling = torch.compiler.is_compiling()
    if not x.is_cuda or x.dtype not in softmax_cuda.C_TYPES:
        return torch.softmax(x, dim)
    if compiling:
        return softmax_op(x, dim) if dispatch.HAS_CUDA_C else seen_through(x, dim)
    # `register_autograd` has no forward mode, and torch.func refuses what it registers: they get the Function.
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return Softmax.apply(x, dim)
    return softmax_op(x, dim)
