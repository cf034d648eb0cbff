"""`minikernel::softmax`, a PyTorch operator with a backward pass, for whatever torch does with operators.

Importing this module registers two operators with `torch.library`: `minikernel::softmax(x, dim)` and
`minikernel::softmax_backward(dy, y, dim)`. On CUDA, in float32, bfloat16 and float16, they launch the lab's
`fused` and `fused_backward` kernels; everything else, float64 and the CPU among it, goes to torch's own softmax.
Both have a fake kernel (torch.compile, torch.export), a gradient (the backward operator's too: gradients of
gradients), a rule for vmap, and F.softmax's rule for autocast on CUDA, float32 out of 16 bits.

They are defined on a bare `torch.library.Library`, whose dispatch costs the host less than `custom_op`'s.
"""

import torch
from torch.autograd import forward_ad

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
    """The forward operator where there is no kernel of the lab's: torch's, contiguous."""
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


def gradient_of_probabilities(grad: torch.Tensor, dy: torch.Tensor, y: torch.Tensor, dim: int) -> torch.Tensor:
    """d/dy of (dy - sum(dy y)) y, times `grad`, in differentiable torch."""
    inner, outer = (dy * y).sum(dim, keepdim=True), (grad * y).sum(dim, keepdim=True)
    return grad * (dy - inner) - dy * outer


def gradient_of_softmax_backward(ctx, grad: torch.Tensor):
    """d/d(dy), the same operator again for a symmetric Jacobian, and d/dy."""
    dy, y = ctx.saved_tensors
    grad_dy = softmax_backward_op(grad, y, ctx.dim) if ctx.needs_input_grad[0] else None
    grad_y = gradient_of_probabilities(grad, dy, y, ctx.dim) if ctx.needs_input_grad[1] else None
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


class EagerSoftmax(torch.autograd.Function):
    """Plain eager training on CUDA: no dispatcher between autograd and the kernels, half its cost on the host."""

    @staticmethod
    def forward(ctx, x, dim):
        y = cuda_softmax(x, dim)
        ctx.save_for_backward(y)
        ctx.dim = dim
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        # With create_graph the gradient is differentiated in its turn; the operator knows how.
        gradient = softmax_backward_op if torch.is_grad_enabled() else cuda_softmax_backward
        return gradient(dy, y, ctx.dim), None


def softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Softmax of `x` along `dim`: torch's own where the lab has no kernel, else by the cheapest way there is.

    A plain eager call goes to the kernel at once; dispatching an operator written in Python costs the host
    several microseconds. `minikernel.softmax` documents arguments and errors.
    """
    if not x.is_cuda or x.dtype not in softmax_cuda.C_TYPES:
        return torch.softmax(x, dim)
    if torch.compiler.is_compiling():
        return softmax_op(x, dim)
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return Softmax.apply(x, dim)
    plain = type(x) is torch.Tensor and not torch._C._len_torch_dispatch_stack()
    if not plain or torch.is_autocast_enabled("cuda"):
        return softmax_op(x, dim)
    if x.requires_grad and torch.is_grad_enabled():
        return EagerSoftmax.apply(x, dim)
    return cuda_softmax(x, dim)
