"""Launches the kernels of "recomputed": how rows and classes are cut up, and what is kept for backward."""

from functools import cache
from typing import Any, NamedTuple

import torch

from minikernel.ops.linear_cross_entropy import recomputed_kernels as kernels
from minikernel.ops.linear_cross_entropy.launch import Launch, multiprocessors, on_device_of
from minikernel.ops.linear_cross_entropy.options import Inputs, Options, Wanted, parts_of, spread_of

PARTIAL_BYTES = 32 << 20  # of a weight's gradient over some rows each, beside the gradients
# Programs of the weight's gradient for each multiprocessor; with many classes the splits' sums cost little beside.
PROGRAMS, MANY, MANY_CLASSES = 2, 8, 4096
# The last kernel's: elements that a program adds up at once, of how many splits at most, and of h's gradient.
GATHERED, AT_ONCE, FINISHED = 2048, 16, 2048


class Tiles(NamedTuple):
    """How a kernel cuts rows and classes up, and how it is compiled."""

    rows: int
    columns: int
    warps: int
    stages: int
    upright: bool = False  # of the weight's gradient alone

    def options(self, features: int) -> dict[str, Any]:
        """As the kernels take it, for rows of so many features."""
        width = width_of(features)
        sizes = {"ROWS": self.rows, "COLUMNS": self.columns, "WIDTH": width, "EVEN": width == features}
        return {**sizes, "STAGES": self.stages, "num_warps": self.warps, "num_stages": self.stages}


# By bytes of an element and the power of two that features are filled up to: forward, then the weight's gradient.
TILES = {
    2: {
        64: (Tiles(64, 32, 4, 2), Tiles(64, 128, 4, 3, True)),
        128: (Tiles(64, 64, 4, 2), Tiles(64, 64, 4, 3, True)),
        256: (Tiles(128, 64, 8, 2), Tiles(64, 128, 8, 2)),
    },
    4: {
        64: (Tiles(128, 32, 8, 2), Tiles(32, 128, 8, 3)),
        128: (Tiles(64, 32, 4, 2), Tiles(32, 64, 4, 2)),
    },
}


def width_of(features: int) -> int:
    """The power of two that features are filled up to; a product of tensor cores takes 16 at least."""
    return max(1 << (features - 1).bit_length(), 16)


def tiles_of(features: int, itemsize: int) -> tuple[Tiles, Tiles]:
    """The tiles of the forward kernel and of the weight's gradient."""
    return TILES[itemsize][max(width_of(features), 64)]


class Flags(NamedTuple):
    """What is compiled into the kernels besides the tiles."""

    bias: bool
    class_weight: bool
    smooth: bool
    softcap: bool


@cache
def forward_launch(features: int, dtype: torch.dtype, flags: Flags, gradient: bool) -> tuple[Launch, int]:
    """The forward kernel, and the rows of one program."""
    tiles, _ = tiles_of(features, dtype.itemsize)
    launch = Launch(
        kernels.forward_kernel,
        HAS_BIAS=flags.bias,
        HAS_CLASS_WEIGHT=flags.class_weight,
        SMOOTH=flags.smooth,
        SOFTCAP=flags.softcap,
        GRADIENT=gradient,
        # an exponent that may be large costs a digit, which only float32 has
        GUESS=dtype != torch.float32,
        **arithmetic(dtype),
        **tiles.options(features),
    )
    return launch, tiles.rows


@cache
def finish_launch(mean: bool) -> Launch:
    """The kernel that adds up the losses."""
    return Launch(kernels.finish_kernel, MEAN=mean, BLOCK=1024)


@cache
def weight_launch(features: int, dtype: torch.dtype, flags: Flags, bias_gradient: bool) -> tuple[Launch, Tiles]:
    """The kernel of the weight's gradient."""
    _, tiles = tiles_of(features, dtype.itemsize)
    launch = Launch(
        kernels.weight_kernel,
        HAS_BIAS=flags.bias,
        BIAS_GRADIENT=bias_gradient,
        SOFTCAP=flags.softcap,
        UPRIGHT=tiles.upright,
        **arithmetic(dtype),
        **tiles.options(features),
    )
    return launch, tiles


def gather_options(features: int, splits: int) -> dict[str, int]:
    """How the last kernel cuts up what it adds up and finishes."""
    width = width_of(features)
    parts = min(1 << (splits - 1).bit_length(), AT_ONCE)
    return {"WIDTH": width, "ROWS": max(FINISHED // width, 1), "BLOCK": GATHERED // parts, "PARTS": parts}


class Last(NamedTuple):
    """The last kernel, and how many elements of the weight's gradient and rows of h's a program ends."""

    launch: Launch
    elements: int
    rows: int


@cache
def gather_launch(features: int, parts: int, smooth: bool, weight: bool, tokens: bool) -> Last:
    """The last kernel; `features` is compiled in where 16 divides it."""
    options = gather_options(features, parts)
    launch = Launch(kernels.gather_kernel, SMOOTH=smooth, WEIGHT=weight, TOKENS=tokens, **options)
    return Last(launch, options["BLOCK"], options["ROWS"])


def arithmetic(dtype: torch.dtype) -> dict[str, str]:
    """How products are computed: float32's by three of TF32; by one where a factor is too small for float16."""
    precision = "tf32x3" if dtype == torch.float32 else "tf32"
    return {"PRECISION": precision, "FACTOR": "wide" if dtype == torch.float16 else "same"}


def forward(
    inputs: Inputs,
    options: Options,
    gradient: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """As `operator.forward`; the core of h's gradient is made with the loss, in float32, and stands in place of it."""
    h, weight, target = (tensor.contiguous() for tensor in inputs[:3])
    bias, class_weight = inputs.bias, inputs.class_weight
    rows, features = h.shape
    classes = weight.shape[0]
    flags = Flags(bias is not None, class_weight is not None, bool(options.label_smoothing), bool(options.softcap))
    launch, each = forward_launch(features, h.dtype, flags, gradient)
    programs = max(parts_of(rows, each), 1)
    float32: dict[str, Any] = {"dtype": torch.float32, "device": h.device}
    losses = torch.empty(rows, **float32)
    known = torch.empty(3, rows if gradient else 0, **float32)
    made = torch.empty(h.shape, **float32) if gradient else h.new_empty(0)
    parts = torch.empty(2, programs, **float32)
    spread = spread_of(options, weight, class_weight)
    drift, mass, drift_bias = losses, 0.0, 0.0
    if spread is not None:
        # the spread's sums over classes are a vector's product, whatever h is
        drift = torch.mv(weight.T.float(), spread)
        mass = options.label_smoothing if class_weight is None else float(spread.sum())
        drift_bias = 0.0 if bias is None else float(torch.dot(spread, bias.float()))
    with on_device_of(h):
        launch(
            (programs, 1, 1),
            losses,
            known,
            made,
            parts,
            h,
            weight,
            target,
            weight if bias is None else bias.contiguous(),
            weight if class_weight is None else class_weight.contiguous(),
            drift,
            rows,
            classes,
            features,
            options.ignore_index,
            options.softcap,
            options.z_loss,
            1.0 - options.label_smoothing,
            mass,
            drift_bias,
        )
        if options.reduction == "none":
            return losses, torch.ones(1, **float32), known, made, h.new_empty(0), h.new_empty(0)
        loss, scale = torch.empty((), **float32), torch.empty(1, **float32)
        finish_launch(options.reduction == "mean")((1, 1, 1), loss, scale, parts, programs)
    return loss, scale, known, made, h.new_empty(0), h.new_empty(0)


def backward(
    grad: torch.Tensor,
    inputs: Inputs,
    scale: torch.Tensor,
    known: torch.Tensor,
    made: torch.Tensor,
    options: Options,
    wanted: Wanted,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As `operator.backward`, from the core of h's gradient and what is known of each row."""
    h, weight, target = (tensor.contiguous() for tensor in inputs[:3])
    bias, class_weight = inputs.bias, inputs.class_weight
    rows, features = h.shape
    classes = weight.shape[0]
    step = grad.stride(0) if options.reduction == "none" else 0
    flags = Flags(bias is not None, False, bool(options.label_smoothing), bool(options.softcap))
    dh = torch.empty_like(h) if wanted.h else h.new_empty(0)
    dweight = torch.empty_like(weight) if wanted.weight else h.new_empty(0)
    dbias = h.new_empty(0)
    float32: dict[str, Any] = {"dtype": torch.float32, "device": h.device}
    partial, splits = dh, 1
    spread = spread_of(options, weight, class_weight)
    pull = spread
    with on_device_of(h):
        if wanted.weight or wanted.bias:
            launch, tiles = weight_launch(features, h.dtype, flags, wanted.bias)
            splits, split_rows = splits_of(rows, classes, features, tiles, h)
            partial = torch.empty(splits, classes, features, **float32)
            partial_bias = torch.empty(splits, classes, **float32) if wanted.bias else partial
            launch(
                (parts_of(classes, tiles.columns), splits, 1),
                partial,
                partial_bias,
                h,
                weight,
                target,
                weight if bias is None else bias.contiguous(),
                known,
                grad,
                step,
                scale,
                rows,
                classes,
                features,
                options.softcap,
                split_rows,
            )
            if spread is not None:
                factor = torch.where(target == options.ignore_index, 0, grad * scale)
                pull = torch.mv(h.T.float(), factor)
            if wanted.bias and bias is not None:
                sums = partial_bias.sum(0)
                dbias = (sums if spread is None else sums - spread * factor.sum()).to(bias.dtype)
        last = gather_launch(features, min(splits, AT_ONCE), spread is not None, wanted.weight, wanted.h)
        programs = parts_of(weight.numel(), last.elements) if wanted.weight else 0
        others = parts_of(rows, last.rows) if wanted.h else 0
        if programs + others:
            last.launch(
                (programs + others, 1, 1),
                dweight,
                dh,
                partial,
                made,
                made if spread is None else spread,
                made if pull is None else pull,
                made if spread is None else torch.mv(weight.T.float(), spread),
                weight,
                target,
                known,
                grad,
                step,
                scale,
                weight.numel(),
                rows,
                classes,
                features,
                options.ignore_index,
                splits,
                programs,
            )
    return dh, dweight, dbias


def splits_of(rows: int, classes: int, features: int, tiles: Tiles, like: torch.Tensor) -> tuple[int, int]:
    """How many parts the rows of the weight's gradient are cut into, and how many rows each has.

    As many as give every multiprocessor `PROGRAMS` or `MANY`, as far as their sums fit in `PARTIAL_BYTES`.
    """
    programs = parts_of(classes, tiles.columns)
    each = MANY if classes >= MANY_CLASSES else PROGRAMS
    wanted = max(each * multiprocessors(like) // programs, 1)
    fit = max(PARTIAL_BYTES // (4 * classes * features), 1)
    blocks = max(parts_of(rows, tiles.rows), 1)
    each = parts_of(blocks, min(wanted, fit, blocks))
    return parts_of(blocks, each), each * tiles.rows
