"""`minikernel.linear_cross_entropy`: the loss of a language model's head, and the module of the same.

Two operators of `torch.library`, forward and backward, have a fake kernel and a gradient, so torch.compile,
torch.export and autocast take them. A plain eager call goes past them, to the same functions. A derivative of the
gradient is refused.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from minikernel.ops.linear_cross_entropy import chunked, paths
from minikernel.ops.linear_cross_entropy.options import (
    Inputs,
    Options,
    Wanted,
    check_options,
    check_targets,
    check_tensors,
    sum_dtype,
)
from minilab import LabError

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def forward(inputs: Inputs, options: Options, wanted: Wanted) -> Tensors:
    """The loss, and what backward starts from.

    Returns:
        loss: () or (M,), float32 or float64.
        scale: (1,) what the gradients of the sum are multiplied by: 1 over the sum of weights for a mean, else 1.
        rows: (3, M) what is known of each row, where logits are computed again; else empty.
        dh, dweight, dbias: gradients of the sum, as far as they are made already; else empty.
    """
    h, weight, target, bias, class_weight = inputs
    if not h.is_cuda:
        check_targets(target, weight.shape[0], options.ignore_index)
    path = paths.choose(h, options).name
    if path == "recomputed":
        from minikernel.ops.linear_cross_entropy import recomputed

        return recomputed.forward(inputs, options, any(wanted))
    # A factor for each token cannot be taken out of a sum over tokens: then nothing is made before it is known.
    early = wanted if options.reduction != "none" else Wanted()
    # where a gradient is rounded to 16 bits by its product, it is scaled before
    before = mean_scale(target, class_weight, options) if path in paths.WIDE and options.reduction == "mean" else None
    upstream = None if before is None else before.expand(h.shape[0])
    result = run_of(path)(inputs, options, early, upstream)
    loss, scale = reduced(result.losses, result.weights, options.reduction)
    if path in paths.WIDE:
        # they are rounded, as far as they are not, when all that they are multiplied by is known
        made = [nothing(h) if g is None else g for g in result[2:]]
    else:
        likes = (h, weight, bias)
        made = [nothing(h) if g is None else scaled(g, scale, like) for g, like in zip(result[2:], likes, strict=True)]
    return loss, torch.ones_like(scale), loss.new_empty((3, 0)), *made  # type: ignore[return-value]


def run_of(path: str) -> Callable[..., chunked.Result]:
    """What computes chunk after chunk."""
    if path == "exponentials":
        from minikernel.ops.linear_cross_entropy import exponentials

        return exponentials.run
    if path == "rows":
        from minikernel.ops.linear_cross_entropy import rows

        return rows.run
    return chunked.run


def nothing(like: torch.Tensor) -> torch.Tensor:
    """Stands for a gradient that is not made: an operator returns no None, and no tensor twice."""
    return like.new_empty(0)


def scaled(gradient: torch.Tensor, scale: torch.Tensor, like: torch.Tensor | None) -> torch.Tensor:
    """A gradient times a factor, in the dtype in which it waits for another, rounded once; the gradient is used up."""
    return gradient.mul_(scale).to(gradient.dtype if like is None else kept_dtype(like.dtype))


def kept_dtype(dtype: torch.dtype) -> torch.dtype:
    """In what a gradient waits for its factor: a GradScaler's may be no float16, and lifts what none could hold."""
    return torch.float32 if dtype == torch.float16 else dtype


def times(gradient: torch.Tensor, factor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A new tensor of this dtype: the gradient times a factor."""
    return (gradient * factor.to(gradient.dtype)).to(dtype)


def reduced(losses: torch.Tensor, weights: torch.Tensor, reduction: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss, and the factor of the sum's gradients; where all is ignored the mean is NaN and the factor 0."""
    one = losses.new_ones(1)
    if reduction == "none":
        return losses, one
    total = losses.sum()
    if reduction == "sum":
        return total, one
    count = weights.sum()
    return total / count, torch.where(count == 0, 0, 1 / count).reshape(1)


def backward(
    grad: torch.Tensor,
    inputs: Inputs,
    scale: torch.Tensor,
    rows_known: torch.Tensor,
    made: Three,
    options: Options,
    wanted: Wanted,
) -> Three:
    """The gradients that are wanted, each a tensor of its own; an empty one for any other."""
    h, weight, target, bias, class_weight = inputs
    if rows_known.shape[1]:
        from minikernel.ops.linear_cross_entropy import recomputed

        return recomputed.backward(grad, inputs, scale, rows_known, made[0], options, wanted)
    likes = (h, weight, bias)
    if all(not asked or g.numel() for asked, g in zip(wanted, made, strict=True)) and options.reduction != "none":
        # a new tensor each time: a graph that is kept is gone through again
        product = times
        if paths.choose(h, options).name in paths.WIDE:
            from minikernel.ops.linear_cross_entropy import rows

            product = rows.times
        return tuple(  # type: ignore[return-value]
            product(g, grad, (h if like is None else like).dtype) if asked else nothing(h)
            for asked, g, like in zip(wanted, made, likes, strict=True)
        )
    if options.reduction == "none":
        upstream = grad
    elif options.reduction == "sum":
        upstream = grad.expand(h.shape[0])
    else:
        upstream = (grad * mean_scale(target, class_weight, options).to(grad.dtype)).expand(h.shape[0])
    path = paths.choose(h, options).name
    result = run_of(path)(inputs, options, wanted, upstream)
    return tuple(  # type: ignore[return-value]
        nothing(h) if g is None else g.to(h.dtype if like is None else like.dtype)
        for g, like in zip(result[2:], likes, strict=True)
    )


def mean_scale(target: torch.Tensor, class_weight: torch.Tensor | None, options: Options) -> torch.Tensor:
    """One over the sum of weights of what is not ignored; 0 where all is."""
    kept = target != options.ignore_index
    if class_weight is None:
        count = kept.sum()
    else:
        inside = kept & (target >= 0) & (target < class_weight.shape[0])
        count = torch.where(inside, class_weight.double()[torch.where(inside, target, 0).long()], 0).sum()
    return torch.where(count == 0, 0, 1 / count)


@torch.library.custom_op("minikernel::linear_cross_entropy", mutates_args=())
def forward_op(
    h: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    bias: torch.Tensor | None,
    class_weight: torch.Tensor | None,
    ignore_index: int,
    label_smoothing: float,
    z_loss: float,
    softcap: float,
    reduction: str,
    want_h: bool,
    want_weight: bool,
    want_bias: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """`forward` as an operator."""
    options = Options(ignore_index, label_smoothing, z_loss, softcap, reduction)
    inputs = Inputs(h, weight, target, bias, class_weight)
    return forward(inputs, options, Wanted(want_h, want_weight, want_bias))


@forward_op.register_fake
def fake_forward(
    h,
    weight,
    target,
    bias,
    class_weight,
    ignore_index,
    label_smoothing,
    z_loss,
    softcap,
    reduction,
    want_h,
    want_weight,
    want_bias,
):
    """Shapes and dtypes of what `forward` returns."""
    options = Options(ignore_index, label_smoothing, z_loss, softcap, reduction)
    dtype, tokens = sum_dtype(h.dtype), h.shape[0]
    loss = h.new_empty((tokens,) if reduction == "none" else (), dtype=dtype)
    scale = h.new_empty(1, dtype=dtype)
    if paths.choose(h, options).name == "recomputed":
        wanted = want_h or want_weight or want_bias
        rows_known = h.new_empty((3, tokens if wanted else 0), dtype=dtype)
        dh = h.new_empty(h.shape if wanted else (0,), dtype=dtype if wanted else h.dtype)
        return loss, scale, rows_known, dh, h.new_empty(0), h.new_empty(0)
    early = reduction != "none"
    dtypes = [None if like is None else kept_dtype(like.dtype) for like in (h, weight, bias)]
    path = paths.choose(h, options).name
    if path in paths.WIDE:
        from minikernel.ops.linear_cross_entropy import rows

        of_weight = rows.weight_dtype(tokens, *weight.shape, h.dtype) if path == "rows" else dtype
        dtypes = [h.dtype, of_weight, dtype]
    made = [
        like.new_empty(like.shape, dtype=kind) if asked and early and like is not None else h.new_empty(0)
        for asked, like, kind in zip((want_h, want_weight, want_bias), (h, weight, bias), dtypes, strict=True)
    ]
    return loss, scale, h.new_empty((3, 0), dtype=dtype), *made


@torch.library.custom_op("minikernel::linear_cross_entropy_backward", mutates_args=())
def backward_op(
    grad: torch.Tensor,
    h: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    bias: torch.Tensor | None,
    class_weight: torch.Tensor | None,
    scale: torch.Tensor,
    rows_known: torch.Tensor,
    made_h: torch.Tensor,
    made_weight: torch.Tensor,
    made_bias: torch.Tensor,
    ignore_index: int,
    label_smoothing: float,
    z_loss: float,
    softcap: float,
    reduction: str,
    want_h: bool,
    want_weight: bool,
    want_bias: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """`backward` as an operator."""
    options = Options(ignore_index, label_smoothing, z_loss, softcap, reduction)
    made = (made_h, made_weight, made_bias)
    wanted = Wanted(want_h, want_weight, want_bias)
    inputs = Inputs(h, weight, target, bias, class_weight)
    return backward(grad, inputs, scale, rows_known, made, options, wanted)


@backward_op.register_fake
def fake_backward(grad, h, weight, target, bias, *rest):
    """Shapes and dtypes of what `backward` returns."""
    asked = rest[-3:]
    return tuple(
        like.new_empty(like.shape) if want and like is not None else h.new_empty(0)
        for want, like in zip(asked, (h, weight, bias), strict=True)
    )


def refuse(ctx: Any, *grads: torch.Tensor | None) -> Any:
    """The derivative of the gradient."""
    raise LabError(
        "linear_cross_entropy has a gradient and no second one: differentiate F.cross_entropy(F.linear(h, weight), "
        "target) where a gradient of the gradient is needed."
    )


backward_op.register_autograd(refuse)


def keep(ctx: Any, inputs: tuple, output: Tensors) -> None:
    """What backward needs of a forward call of the operator."""
    h, weight, target, bias, class_weight, *settings = inputs
    ctx.save_for_backward(h, weight, target, bias, class_weight, *output[1:])
    ctx.settings = settings


def gradient_of_op(ctx: Any, grad: torch.Tensor, *unused: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
    """The gradient of the operator, itself an operator."""
    h, weight, target, bias, class_weight, *known = ctx.saved_tensors
    needs = (ctx.needs_input_grad[0], ctx.needs_input_grad[1], bias is not None and ctx.needs_input_grad[3])
    found = backward_op(grad, h, weight, target, bias, class_weight, *known, *ctx.settings[:5], *needs)
    dh, dweight, dbias = (g if want else None for g, want in zip(found, needs, strict=True))
    return dh, dweight, None, dbias, *[None] * 9


forward_op.register_autograd(gradient_of_op, setup_context=keep)


class Refusing(torch.autograd.Function):
    """Hands gradients on, and refuses to differentiate them."""

    @staticmethod
    def forward(ctx: Any, grad: torch.Tensor, *found: torch.Tensor | None) -> Any:
        return tuple(None if g is None else g.view_as(g) for g in found)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return refuse(ctx, *grads)


class Eager(torch.autograd.Function):
    """A plain eager call: what the operator does, without the dispatcher's cost on the host."""

    @staticmethod
    def forward(
        ctx: Any,
        h: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        target: torch.Tensor,
        class_weight: torch.Tensor | None,
        options: Options,
    ) -> torch.Tensor:
        inputs = Inputs(h, weight, target, bias, class_weight)
        loss, *known = forward(inputs, options, Wanted(*ctx.needs_input_grad[:3]))
        ctx.save_for_backward(*inputs, *known)
        ctx.options = options
        return loss

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        inputs, (scale, rows_known, *made) = Inputs(*ctx.saved_tensors[:5]), ctx.saved_tensors[5:]
        wanted = Wanted(*ctx.needs_input_grad[:3])
        arguments = (grad, inputs, scale, rows_known, tuple(made), ctx.options, wanted)
        graphed = torch.is_grad_enabled()
        if graphed:
            with torch.no_grad():
                found = backward(*arguments)
        else:
            found = backward(*arguments)
        grads: tuple[torch.Tensor | None, ...]
        grads = tuple(g if asked else None for g, asked in zip(found, wanted, strict=True))
        # only a graph of the gradients is differentiated again
        if graphed:
            grads = Refusing.apply(grad if grad.requires_grad else grad.clone().requires_grad_(), *grads)
        return *grads, None, None, None


def linear_cross_entropy(
    h: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    *,
    bias: torch.Tensor | None = None,
    class_weight: torch.Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float | None = None,
) -> torch.Tensor:
    """`F.cross_entropy(F.linear(h, weight, bias), target)` whose logits are never in memory at once; differentiable.

    `which` says how a call is computed; in torch.func's transforms it is torch's own, with all logits. Tensors of
    different dtypes count as if they were cast to the widest; under autocast they are cast to its dtype.

    Args:
        h: (..., D) hidden states, float32, bfloat16, float16 or float64.
        weight: (V, D); `nn.Linear`'s layout.
        target: (...) integers below V. One that is none is refused on a CPU; on a GPU, which would have to be waited
            for, its loss and every gradient are NaN.
        bias: (V,) or None; -inf masks a class.
        class_weight: (V,) or None, F.cross_entropy's `weight`. It has no gradient.
        reduction: "mean" divides by the sum of the weights of what is not ignored, "sum", or "none".
        ignore_index: a target whose token counts nothing and gets no gradient.
        label_smoothing: share of the target that all classes get, as F.cross_entropy has it.
        z_loss: adds `z_loss` times the square of each token's logsumexp.
        softcap: the logits are softcap tanh(logits / softcap); None for none.

    Returns:
        The loss, in float32 (in float64 of float64): a scalar, or the shape of `target` for "none". Where every token
        is ignored the mean is NaN and the gradients are 0, as F.cross_entropy has it.

    Raises:
        LabError: an argument fits no loss; or a gradient of a gradient is asked for.
    """
    if softcap is not None and not softcap > 0:
        raise LabError(f"softcap is a bound above 0, or None, and is {softcap}.")
    options = Options(ignore_index, float(label_smoothing), float(z_loss), float(softcap or 0.0), reduction)
    check_options(options)
    check_tensors(Inputs(h, weight, target, bias, class_weight))
    h, weight, bias = cast_together(h, weight, bias)
    if in_transform():
        return plain(Inputs(h, weight, target, bias, class_weight), options)
    rows = h.reshape(-1, h.shape[-1])
    # an unsigned number would be compared with a negative `ignore_index` as if that were another
    classes = target.reshape(-1).to(torch.int64)
    if paths.is_plain_call(h, weight, target, bias, class_weight):
        loss = Eager.apply(rows, weight, bias, classes, class_weight, options)
    else:
        graded = torch.is_grad_enabled()
        wants = [graded and t is not None and t.requires_grad for t in (h, weight, bias)]
        loss = forward_op(rows, weight, classes, bias, class_weight, *options, *wants)[0]
    return loss.reshape(target.shape) if reduction == "none" else loss


def in_transform() -> bool:
    """Whether torch.func is at work, which takes no operator apart that is not torch's own."""
    return not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None


def plain(inputs: Inputs, options: Options) -> torch.Tensor:
    """The same loss with all logits at once, by torch's own operations: what torch.func can follow. h is (..., D)."""
    h, weight, target, bias, class_weight = inputs
    dtype = sum_dtype(h.dtype)
    logits = F.linear(h, weight, bias).to(dtype).reshape(-1, weight.shape[0])
    if options.softcap:
        logits = options.softcap * torch.tanh(logits / options.softcap)
    classes = target.reshape(-1).long()
    weights = (classes != options.ignore_index).to(dtype)
    given = None if class_weight is None else class_weight.to(dtype)
    losses = F.cross_entropy(
        logits, classes, given, None, options.ignore_index, None, "none", options.label_smoothing
    )  # the two None are arguments that torch has given up
    if options.z_loss:
        losses = losses + options.z_loss * torch.logsumexp(logits, 1).square() * weights
    if given is not None:
        weights = weights * given[torch.where(classes == options.ignore_index, 0, classes)]
    loss, _ = reduced(losses, weights, options.reduction)
    return loss.reshape(target.shape) if options.reduction == "none" else loss


def cast_together(
    h: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """The factors in one dtype: autocast's, else the widest of theirs."""
    if torch.is_autocast_enabled(h.device.type) and h.dtype != torch.float64:
        dtype = torch.get_autocast_dtype(h.device.type)
    else:
        dtype = torch.promote_types(h.dtype, weight.dtype)
        dtype = dtype if bias is None else torch.promote_types(dtype, bias.dtype)
    return h.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)


class LinearCrossEntropyLoss(torch.nn.Module):
    """`nn.CrossEntropyLoss` of a linear layer: the head's weight is an argument, so that it may be tied to another.

    loss = LinearCrossEntropyLoss(label_smoothing=0.1)
    loss(h, head.weight, target, bias=head.bias)
    """

    class_weight: torch.Tensor | None

    def __init__(
        self,
        class_weight: torch.Tensor | None = None,
        reduction: str = "mean",
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        z_loss: float = 0.0,
        softcap: float | None = None,
    ) -> None:
        super().__init__()
        self.register_buffer("class_weight", class_weight)
        self.reduction = reduction
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.z_loss = z_loss
        self.softcap = softcap
        check_options(Options(ignore_index, label_smoothing, z_loss, softcap or 0.0, reduction))

    def forward(
        self, h: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The loss of hidden states `h` (..., D) against `target` (...) under the head `weight` (V, D)."""
        return linear_cross_entropy(
            h,
            weight,
            target,
            bias=bias,
            class_weight=self.class_weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            z_loss=self.z_loss,
            softcap=self.softcap,
        )

    def extra_repr(self) -> str:
        """Its settings, as `repr` shows them."""
        return f"reduction={self.reduction!r}, label_smoothing={self.label_smoothing}, softcap={self.softcap}"
