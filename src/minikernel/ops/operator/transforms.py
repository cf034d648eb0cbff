"""What torch's transforms ask of a softmax operator and of its backward pass: derivatives, batches, types, shards.

`register` gives a pair of operators the kernels of the dispatcher that stand above any device's: gradients of any
order and forward-mode derivatives, eager and traced, in and out of torch.func; vmap; F.softmax's rule for autocast on
CUDA, float32 out of 16 bits; DTensor's rules of sharding. Any other subclass of a tensor, a jagged one or a masked one
among them, is left to torch's own softmax, as only that class knows what it holds.

`torch.library.register_autograd` would be shorter. What it registers has no forward mode, where it gives tangents of
zero without a word, and torch.func refuses it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch._prims_common import canonicalize_dim
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.autograd import forward_ad

AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)
# `Autograd` one by one: at that key itself stands what `triton_op` puts there, which knows no derivatives
EACH_AUTOGRAD = ("AutogradCUDA", "AutogradCPU", "AutogradMeta", "AutogradNestedTensor", "AutogradOther")
# whose memory the kernels read, and what stands for one such while a graph is traced
TENSORS: tuple[type, ...] = (torch.Tensor, torch.nn.Parameter, FakeTensor, FunctionalTensor)
if torch.distributed.is_available():
    from torch.distributed.tensor import DTensor, Replicate
    from torch.distributed.tensor.experimental import register_sharding

    TENSORS = (*TENSORS, DTensor)


def known(x: torch.Tensor) -> bool:
    """Whether the lab's operators take such a tensor; of any other kind torch's own softmax knows what it holds."""
    return type(x) in TENSORS and not x.is_nested


def torch_softmax(x: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    """The forward operator by torch's own, contiguous."""
    # torch gives the result the strides of `x`; the fake kernels promise a contiguous one
    return torch.softmax(x, dim, dtype=dtype).contiguous()


def torch_softmax_backward(
    dy: torch.Tensor, y: torch.Tensor, dim: int, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """The backward operator by torch's own."""
    return torch._softmax_backward_data(dy, y, dim, y.dtype).to(dtype or y.dtype).contiguous()


def gradient_of_probabilities(grad: torch.Tensor, dy: torch.Tensor, y: torch.Tensor, dim: int) -> torch.Tensor:
    """d/dy of (dy - sum(dy y)) y, times `grad`, in differentiable torch."""
    # The loss holds sum_i G_i (dy_i - s) y_i with s = sum(dy y). y_j is in its own term, which gives G_j (dy_j - s),
    # and in s, which takes dy_j sum(G y) away.
    inner, outer = (dy * y).sum(dim, keepdim=True), (grad * y).sum(dim, keepdim=True)
    return grad * (dy - inner) - dy * outer


@contextmanager
def outer_levels_differentiate() -> Iterator[None]:
    """Within a `Function`'s own code torch turns differentiation off, and that for the transforms around it as well."""
    with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
        yield


def register(library: torch.library.Library, forward_op, backward_op, keys: tuple[str, ...] = ("Autograd",)) -> None:
    """Register everything of this page for a pair of operators.

    Args:
        library: of the operators' namespace; the registrations last as long as it does.
        forward_op: (x, dim, dtype) -> softmax(x) in `dtype`, where that is None in the dtype of `x`.
        backward_op: (dy, y, dim, dtype) -> (dy - sum(dy y)) y in `dtype`, where that is None in the dtype of `y`.
        keys: of the dispatcher, at which the derivatives stand.
    """
    _derivatives(library, forward_op, backward_op, keys)
    _batches(library, forward_op, backward_op)

    def autocast(x, dim=-1, dtype=None):
        # As F.softmax: sums of exponentials in 16 bits are too coarse, unless somebody asks for just that.
        if dtype is None and x.is_cuda and x.is_floating_point() and x.dtype != torch.float64:
            dtype = torch.float32
        with torch._C._ExcludeDispatchKeyGuard(AUTOCAST):
            return forward_op(x, dim, dtype)

    library.impl(forward_op, autocast, "AutocastCUDA")
    if torch.distributed.is_available():
        _shards(forward_op, backward_op)


def _derivatives(library: torch.library.Library, forward_op, backward_op, keys: tuple[str, ...]) -> None:
    below = torch._C._after_autograd_keyset

    def at_this_level(function):
        """A `Function`'s `apply` as it is without torch.func."""
        # Of the transforms around a call the dispatcher peels off one at a time, and comes here for each: what is
        # wanted is the derivative at that level alone. `apply` would begin at the outermost again.
        return super(torch.autograd.Function, function).apply

    class Softmax(torch.autograd.Function):
        """The softmax. Its Jacobian is symmetric: one operator multiplies by it from either side."""

        @staticmethod
        def forward(ctx, keyset, x, dim, dtype):
            with torch._C._AutoDispatchBelowAutograd(), outer_levels_differentiate():
                y = forward_op.redispatch(keyset & below, x, dim, dtype)
            ctx.dim, ctx.dtype = dim, x.dtype
            # The result and not the input: dx = (dy - sum(dy y)) y needs nothing else, and the logits can be freed.
            ctx.save_for_backward(y)
            ctx.save_for_forward(y)
            return y

        @staticmethod
        def backward(ctx, dy):
            return None, backward_op(dy, *ctx.saved_tensors, ctx.dim, ctx.dtype), None, None

        @staticmethod
        def jvp(ctx, _keyset, x_tangent, _dim, _dtype):
            (y,) = ctx.saved_tensors
            with outer_levels_differentiate():
                return backward_op(x_tangent.to(y.dtype), y, ctx.dim, None)

    class SoftmaxBackward(torch.autograd.Function):
        """The backward pass, (dy - sum(dy y)) y, in both of its operands."""

        @staticmethod
        def forward(ctx, keyset, dy, y, dim, dtype):
            with torch._C._AutoDispatchBelowAutograd(), outer_levels_differentiate():
                dx = backward_op.redispatch(keyset & below, dy, y, dim, dtype)
            ctx.dim, ctx.dtype = dim, dx.dtype
            ctx.save_for_backward(dy, y)
            ctx.save_for_forward(dy, y)
            return dx

        @staticmethod
        def backward(ctx, grad):
            dy, y = ctx.saved_tensors
            grad = grad.to(y.dtype)
            # Linear in dy, and its matrix diag(y) - y y^T is symmetric: the gradient is the operator itself, of `grad`.
            grad_dy = backward_op(grad, y, ctx.dim, None) if ctx.needs_input_grad[1] else None
            grad_y = gradient_of_probabilities(grad, dy, y, ctx.dim) if ctx.needs_input_grad[2] else None
            return None, grad_dy, grad_y, None, None

        @staticmethod
        def jvp(ctx, _keyset, dy_tangent, y_tangent, _dim, _dtype):
            # without the tangents of this level, or the result would have one in its turn
            dy, y = (forward_ad.unpack_dual(saved, level=0).primal for saved in ctx.saved_tensors)
            with outer_levels_differentiate():
                # d[(dy - s) y] = (dy' - sum(dy' y)) y + (dy - s) y' - y sum(dy y'): the first is the operator again.
                inner, outer = ((dy * each).sum(ctx.dim, keepdim=True) for each in (y, y_tangent))
                tangent = backward_op(dy_tangent, y, ctx.dim, None) + (dy - inner) * y_tangent - y * outer
                return tangent.to(ctx.dtype)

    def differentiable(keyset, x, dim=-1, dtype=None):
        if not known(x):
            return torch.softmax(x, dim, dtype=dtype)
        with enable_single_level_autograd_function():
            return at_this_level(Softmax)(keyset, x, dim, dtype)

    def differentiable_backward(keyset, dy, y, dim=-1, dtype=None):
        if not (known(dy) and known(y)):
            return torch._softmax_backward_data(dy, y, dim, y.dtype).to(dtype or y.dtype)
        with enable_single_level_autograd_function():
            return at_this_level(SoftmaxBackward)(keyset, dy, y, dim, dtype)

    for key in keys:
        library.impl(forward_op, differentiable, key, with_keyset=True)
        library.impl(backward_op, differentiable_backward, key, with_keyset=True)


def _batches(library: torch.library.Library, forward_op, backward_op) -> None:
    def batch_first(x: torch.Tensor, batch_dim: int | None, batch_size: int) -> torch.Tensor:
        return x.expand(batch_size, *x.shape) if batch_dim is None else x.movedim(batch_dim, 0)

    def batched(operator, info, in_dims: tuple, tensors: tuple, dim: int, dtype: torch.dtype | None):
        """One call over all of the batch, with vmap's axis in front; `dim` counts without that axis."""
        operands = [batch_first(x, at, info.batch_size) for x, at in zip(tensors, in_dims, strict=False)]
        # refused as torch refuses it, or one axis too far would be vmap's own
        dim = 1 + canonicalize_dim(operands[0].dim() - 1, dim)
        if operands[0].dim() == 1:  # scalars: rows of one
            return operator(*(x.unsqueeze(1) for x in operands), dim, dtype).squeeze(1), 0
        return operator(*operands, dim, dtype), 0

    @torch.library.register_vmap(forward_op, lib=library)
    def _(info, in_dims, x, dim=-1, dtype=None):
        return batched(forward_op, info, in_dims, (x,), dim, dtype)

    @torch.library.register_vmap(backward_op, lib=library)
    def _(info, in_dims, dy, y, dim=-1, dtype=None):
        return batched(backward_op, info, in_dims, (dy, y), dim, dtype)


def _shards(forward_op, backward_op) -> None:
    def acceptable(x, dim: int, tensors: int) -> list:
        """As torch's softmax: in the shards that there are of `x`, but along the axis of the rows, or else whole."""
        shards = dict.fromkeys(p for p in x.placements if not (p.is_replicate() or p.is_partial()))
        kept = (p for p in shards if p.dim % x.ndim != dim % x.ndim)
        # of what costs alike, on one rank all of it, the first is taken
        return [([p], [p] * tensors + [None, None]) for p in (*kept, Replicate())]

    @register_sharding(forward_op)
    def _(x, dim=-1, dtype=None):
        return acceptable(x, dim, 1)

    @register_sharding(backward_op)
    def _(dy, y, dim=-1, dtype=None):
        return acceptable(dy if dy.num_shards >= y.num_shards else y, dim, 2)
