"""Launches the kernels of "recomputed": how rows and classes are cut up, and what is kept for backward."""

from typing import Any, NamedTuple

import torch

from minikernel.ops import softmax_cuda
from minikernel.ops.linear_cross_entropy import recomputed_kernels as kernels
from minikernel.ops.linear_cross_entropy.options import Options, Wanted, parts_of, spread_of
from minikernel.ops.softmax_triton_rows import FUSION, on_device_of

PARTIAL_BYTES = 32 << 20  # of a weight's gradient over some rows each, beside the gradients
GATHERED = 1024  # numbers that one program of the last kernel adds up


class Tiles(NamedTuple):
    """How a kernel cuts rows and classes up, and how it is compiled."""

    rows: int
    columns: int
    warps: int
    stages: int

    def options(self, features: int) -> dict[str, Any]:
        """As the kernels take it, for rows of so many features."""
        width = width_of(features)
        sizes = {"ROWS": self.rows, "COLUMNS": self.columns, "WIDTH": width, "EVEN": width == features}
        return {**sizes, "STAGES": self.stages, "num_warps": self.warps, "num_stages": self.stages}


# By bytes of an element and the power of two that features are filled up to: forward, then the weight's gradient.
TILES = {
    2: {
        64: (Tiles(128, 64, 4, 3), Tiles(64, 128, 4, 3)),
        128: (Tiles(128, 64, 8, 3), Tiles(64, 128, 8, 3)),
        256: (Tiles(128, 64, 8, 2), Tiles(64, 128, 8, 2)),
    },
    4: {
        64: (Tiles(128, 32, 8, 2), Tiles(32, 128, 8, 2)),
        128: (Tiles(64, 32, 4, 2), Tiles(32, 64, 4, 2)),
    },
}


def width_of(features: int) -> int:
    """The power of two that features are filled up to; a product of tensor cores takes 16 at least."""
    return max(1 << (features - 1).bit_length(), 16)


def tiles_of(features: int, itemsize: int) -> tuple[Tiles, Tiles]:
    """The tiles of the forward kernel and of the weight's gradient."""
    return TILES[itemsize][max(width_of(features), 64)]


def arithmetic(dtype: torch.dtype) -> dict[str, str]:
    """How products are computed: float32's by three of TF32; by one where a factor is too small for float16."""
    precision = "tf32x3" if dtype == torch.float32 else "tf32"
    return {"PRECISION": precision, "FACTOR": "wide" if dtype == torch.float16 else "same"}


def forward(
    h: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    bias: torch.Tensor | None,
    class_weight: torch.Tensor | None,
    options: Options,
    gradient: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """As `operator.forward`; the core of h's gradient is made with the loss, in float32, and stands in place of it."""
    h, weight, target = h.contiguous(), weight.contiguous(), target.contiguous()
    rows, features = h.shape
    classes = weight.shape[0]
    tiles, _ = tiles_of(features, h.element_size())
    programs = max(parts_of(rows, tiles.rows), 1)
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
        kernels.forward_kernel[(programs,)](
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
            HAS_BIAS=bias is not None,
            HAS_CLASS_WEIGHT=class_weight is not None,
            SMOOTH=spread is not None,
            SOFTCAP=bool(options.softcap),
            GRADIENT=gradient,
            **arithmetic(h.dtype),
            **tiles.options(features),
            **FUSION,
        )
        if options.reduction == "none":
            return losses, torch.ones(1, **float32), known, made, h.new_empty(0), h.new_empty(0)
        loss, scale = torch.empty((), **float32), torch.empty(1, **float32)
        mean = options.reduction == "mean"
        kernels.finish_kernel[(1,)](loss, scale, parts, programs, MEAN=mean, BLOCK=1024, **FUSION)
    return loss, scale, known, made, h.new_empty(0), h.new_empty(0)


def backward(
    grad: torch.Tensor,
    h: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    bias: torch.Tensor | None,
    class_weight: torch.Tensor | None,
    scale: torch.Tensor,
    known: torch.Tensor,
    made: torch.Tensor,
    options: Options,
    wanted: Wanted,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As `operator.backward`, from the core of h's gradient and what is known of each row."""
    h, weight, target = h.contiguous(), weight.contiguous(), target.contiguous()
    rows, features = h.shape
    classes = weight.shape[0]
    upstream = grad if options.reduction == "none" else grad * scale
    step = upstream.stride(0) if options.reduction == "none" else 0
    dh = torch.empty_like(h) if wanted.h else h.new_empty(0)
    dweight = torch.empty_like(weight) if wanted.weight else h.new_empty(0)
    dbias = h.new_empty(0)
    float32: dict[str, Any] = {"dtype": torch.float32, "device": h.device}
    partial, splits = dh, 1
    spread = spread_of(options, weight, class_weight)
    pull = spread
    with on_device_of(h):
        if wanted.weight or wanted.bias:
            _, tiles = tiles_of(features, h.element_size())
            splits, split_rows = splits_of(rows, classes, features, tiles, h)
            partial = torch.empty(splits, classes, features, **float32)
            partial_bias = torch.empty(splits, classes, **float32) if wanted.bias else partial
            kernels.weight_kernel[(parts_of(classes, tiles.columns), splits)](
                partial,
                partial_bias,
                h,
                weight,
                target,
                weight if bias is None else bias.contiguous(),
                known,
                upstream,
                step,
                rows,
                classes,
                features,
                options.softcap,
                split_rows,
                HAS_BIAS=bias is not None,
                BIAS_GRADIENT=wanted.bias,
                SOFTCAP=bool(options.softcap),
                **arithmetic(h.dtype),
                **tiles.options(features),
                **FUSION,
            )
            if spread is not None:
                factor = torch.where(target == options.ignore_index, 0, upstream)
                pull = torch.mv(h.T.float(), factor)
            if wanted.bias and bias is not None:
                sums = partial_bias.sum(0)
                dbias = (sums if spread is None else sums - spread * factor.sum()).to(bias.dtype)
        programs = parts_of(weight.numel(), GATHERED) if wanted.weight else 0
        others = parts_of(h.numel(), GATHERED) if wanted.h else 0
        if programs + others:
            kernels.gather_kernel[(programs + others,)](
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
                upstream,
                step,
                weight.numel(),
                h.numel(),
                rows,
                classes,
                features,
                options.ignore_index,
                splits,
                programs,
                SMOOTH=spread is not None,
                WEIGHT=wanted.weight,
                TOKENS=wanted.h,
                BLOCK=GATHERED,
                **FUSION,
            )
    return dh, dweight, dbias


def splits_of(rows: int, classes: int, features: int, tiles: Tiles, like: torch.Tensor) -> tuple[int, int]:
    """How many parts the rows of the weight's gradient are cut into, and how many rows each has.

    As many as give every multiprocessor two programs, as far as their sums fit in `PARTIAL_BYTES`.
    """
    programs = parts_of(classes, tiles.columns)
    wanted = max(2 * multiprocessors(like) // programs, 1)
    fit = max(PARTIAL_BYTES // (4 * classes * features), 1)
    blocks = max(parts_of(rows, tiles.rows), 1)
    each = parts_of(blocks, min(wanted, fit, blocks))
    return parts_of(blocks, each), each * tiles.rows


def multiprocessors(like: torch.Tensor) -> int:
    """Of the device of a tensor; of an H100 and an H200, where Triton is interpreted."""
    return softmax_cuda.multiprocessors(like.get_device()) if like.is_cuda else 132
