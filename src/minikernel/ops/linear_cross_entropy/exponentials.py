"""Launches "exponentials": of four passes over a chunk's logits in "rows", one is left, and it moves 16 bits of each.

A kernel multiplies h by the weight and writes exponentials below the target's logit; what they have to be multiplied by
is known once a row's are summed, and goes into h, and into h's gradient. The target's own part, which is large where
the others are many and small, is added in float32: rounded with h it would show in a rare word's row.
"""

from functools import cache
from typing import Any, NamedTuple

import torch

from minikernel.ops.linear_cross_entropy import exponentials_kernels as kernels
from minikernel.ops.linear_cross_entropy.chunked import Result, chunks
from minikernel.ops.linear_cross_entropy.launch import Launch, on_device_of
from minikernel.ops.linear_cross_entropy.options import Inputs, Options, Wanted, parts_of
from minikernel.ops.linear_cross_entropy.rows import STEP, add_product, filled_up, product_in_float32

# Beside the gradients: a chunk, what float32 takes more for the weight's gradient, and a filled-up weight.
BYTES = 256 << 20
LEAST_ROWS = 1024
MOST_ROWS = 1 << 14  # of a chunk that writes nothing
SUMMED = 16  # rows of a program of the small kernels
SPREAD = 8  # programs of a block of rows that is made again
WIDEST_TARGETS = 1024  # features of a program that adds tokens to their targets' rows: most classes have one or two


class Tiles(NamedTuple):
    """What a program of the large kernel takes in at once."""

    rows: int = 128
    columns: int = 128
    depth: int = 64  # features
    warps: int = 4
    stages: int = 3


TILES = Tiles()


class Launches(NamedTuple):
    """The kernels of one width and kind of call, in their order."""

    reference: Launch
    exponentials: Launch
    sums: Launch
    again: Launch
    sums_again: Launch
    tokens: Launch
    targets: Launch


@cache
def launches_of(
    features: int, itemsize: int, bias: bool, class_weight: bool, scaled: bool, wanted: Wanted, tiles: Tiles
) -> Launches:
    """What is launched where h has so many features; a launch is made for one width (see `Launch`)."""
    width, wide = (min(most, 1 << (features - 1).bit_length()) for most in (128, WIDEST_TARGETS))
    flags = {"HAS_BIAS": bias, "WRITTEN": any(wanted), "PRECISION": "ieee" if itemsize == 4 else "tf32"}
    tile = {"ROWS": tiles.rows, "COLUMNS": tiles.columns, "DEPTH": tiles.depth, "EVEN": features % tiles.depth == 0}
    product = flags | tile | {"STAGES": tiles.stages, "num_warps": tiles.warps}
    summed = {"HAS_CLASS_WEIGHT": class_weight, "SCALED": scaled, "WRITTEN": any(wanted), "BLOCK": tiles.rows}
    summed |= {"ROWS": SUMMED, "TILES": 64, "COLUMNS": tiles.columns, "num_warps": 4}
    return Launches(
        Launch(kernels.reference_kernel, HAS_BIAS=bias, ROWS=SUMMED, WIDTH=width, num_warps=4),
        Launch(kernels.exponentials_kernel, **product),
        Launch(kernels.sums_kernel, AGAIN=False, **summed),
        Launch(kernels.again_kernel, **product),
        Launch(kernels.sums_kernel, AGAIN=True, **summed),
        Launch(kernels.tokens_kernel, TOKENS=wanted.h, ROWS=SUMMED, WIDTH=width, num_warps=4),
        Launch(kernels.targets_kernel, BIAS_GRADIENT=wanted.bias, ROWS=4, WIDTH=wide, num_warps=4),
    )


def rows_of_a_chunk(rows: int, classes: int, features: int, itemsize: int, written: bool) -> int:
    """How many rows have their exponentials in memory at once."""
    if not written:
        return max(min(rows, MOST_ROWS), 1)
    wide = padded(classes)
    # beside each exponential a tile's sum and highest logit; of each token its h in 16 bits and in float32
    one = itemsize * wide + 8 * (wide // TILES.columns) + 8 * features
    rest = (4 - itemsize) * classes * features + (itemsize * wide * features if wide != classes else 0)
    fit = max((BYTES - rest) // one // STEP * STEP, LEAST_ROWS)
    # chunks of one length
    each = parts_of(rows, max(parts_of(rows, fit), 1))
    return max(min(parts_of(each, STEP) * STEP, rows), 1)


def padded(classes: int) -> int:
    """Classes, filled up to whole tiles."""
    return parts_of(classes, TILES.columns) * TILES.columns


class Work(NamedTuple):
    """What one call's chunks share; the memory that they take in turn has room for `step` rows."""

    inputs: Inputs
    options: Options
    launches: Launches
    step: int
    wide: torch.Tensor  # (V, D): the weight, filled up
    known: torch.Tensor  # (3, M), as the kernels have it
    exponentials: torch.Tensor  # (step, V)
    sums: torch.Tensor  # (tiles of a row, step), like `tops`
    tops: torch.Tensor
    far: torch.Tensor  # (step,)
    scaled: torch.Tensor  # (step, D): h times what its row's exponentials are multiplied by


def run(
    inputs: Inputs,
    options: Options,
    wanted: Wanted = Wanted(),  # noqa: B008
    upstream: torch.Tensor | None = None,
) -> Result:
    """As `chunked.run`, without label smoothing; h's gradient is in its dtype."""
    work = begun(inputs, options, wanted, upstream is not None)
    h, weight, target = work.inputs[:3]
    rows, features = h.shape
    classes = weight.shape[0]
    losses, weights = h.new_empty(2, rows, dtype=torch.float32)
    dh = torch.empty_like(h) if wanted.h else None
    dweight, dbias = None, h.new_zeros(classes, dtype=torch.float32) if wanted.bias else None
    for part in chunks(rows, work.step):
        count = part.stop - part.start
        written, scaled = work.exponentials[:count], work.scaled[:count]
        exponentials_of(work, part, losses[part], weights[part], None if upstream is None else upstream[part])
        if not any(wanted):
            continue
        core = product_in_float32(written, work.wide) if wanted.h else losses
        chunk = h[part]
        with on_device_of(h):
            width = work.launches.tokens.options["WIDTH"]
            work.launches.tokens(
                (parts_of(count, SUMMED), parts_of(features, width), 1),
                chunk if dh is None else dh[part], scaled, core, work.known[:, part], chunk, weight, target[part],
                count, classes, features, rows,
            )  # fmt: skip
        if wanted.weight:
            if dweight is None:
                dweight = product_in_float32(written.T, scaled)
            else:
                add_product(dweight, written.T, scaled)
        if dbias is not None:
            dbias += product_in_float32(written.T, digits(work.known[1, part], h.dtype)).sum(1)[:classes]
    if wanted.weight or wanted.bias:
        # half the digits to sort by; what 32 bits cannot hold is no class
        ordered, order = torch.sort(target.clamp(-1, classes).to(torch.int32), stable=True)
        if dweight is None:  # a bias alone wants one, or there is no token
            dweight = h.new_zeros(classes, features, dtype=torch.float32)
        with on_device_of(h):
            work.launches.targets(
                (rows, parts_of(features, work.launches.targets.options["WIDTH"]), 1),
                dweight, losses if dbias is None else dbias, work.known[2], h, order, ordered, rows, classes,
                features,
            )  # fmt: skip
    made = dweight[:classes] if dweight is not None and wanted.weight else None
    return Result(losses, weights, dh, made, dbias)


def begun(inputs: Inputs, options: Options, wanted: Wanted, has_upstream: bool) -> Work:
    """Memory for a call's chunks, and each target's logit."""
    h, weight, target = (tensor.contiguous() for tensor in inputs[:3])
    # what a kernel is not to read has to be some tensor
    bias, class_weight = (weight if one is None else one.contiguous() for one in inputs[3:])
    rows, features = h.shape
    classes = weight.shape[0]
    step = rows_of_a_chunk(rows, classes, features, h.itemsize, any(wanted))
    wide = filled_up(weight, padded(classes))
    float32: dict[str, Any] = {"dtype": torch.float32, "device": h.device}
    known = torch.empty(3, rows, **float32)
    sums, tops = torch.empty(2, wide.shape[0] // TILES.columns, step, **float32)
    has = inputs.bias is not None, inputs.class_weight is not None, has_upstream
    launches = launches_of(features, h.itemsize, *has, wanted, TILES)
    with on_device_of(h):
        launches.reference(
            (parts_of(rows, SUMMED), 1, 1), known, h, weight, target, bias, rows, classes, features,
            options.ignore_index,
        )  # fmt: skip
    return Work(
        Inputs(h, weight, target, bias, class_weight), options, launches, step, wide, known,
        h.new_empty((step, wide.shape[0]) if any(wanted) else (1, 1)), sums, tops, torch.empty(step, **float32),
        h.new_empty((step, features) if any(wanted) else (1, 1)),
    )  # fmt: skip


def exponentials_of(
    work: Work, part: slice, losses: torch.Tensor, weights: torch.Tensor, upstream: torch.Tensor | None
) -> None:
    """A chunk's exponentials, its losses, and the rest of what is `known` of it."""
    h, weight, target, bias, class_weight = work.inputs
    count, classes, features = part.stop - part.start, weight.shape[0], h.shape[1]
    written, tiles, stride = work.exponentials, work.sums.shape[0], work.wide.shape[0]
    known, ignored = work.known[:, part], work.options.ignore_index
    blocks = parts_of(count, TILES.rows)
    of_tile = (
        known, h[part], work.wide, target[part], bias, count, classes, features, stride, work.step, ignored
    )  # fmt: skip
    of_rows = (
        losses, weights, work.far, known, written, work.sums, work.tops, target[part], class_weight,
        losses if upstream is None else upstream, 0 if upstream is None else upstream.stride(0), count, classes, tiles,
        stride, work.step, h.shape[0], ignored, work.options.z_loss,
    )  # fmt: skip
    groups = (parts_of(count, SUMMED), 1, 1)
    with on_device_of(h):
        work.launches.exponentials((blocks * tiles, 1, 1), written, work.sums, *of_tile)
        work.launches.sums(groups, *of_rows)
        work.launches.again((blocks, SPREAD, 1), written, work.sums, work.tops, work.far, *of_tile)
        work.launches.sums_again(groups, *of_rows)


def digits(numbers: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """(M, 8): (M,) float32 numbers as three of a dtype that add up to all their digits; cuBLAS wants eight columns."""
    parts = torch.zeros(len(numbers), 8, dtype=dtype, device=numbers.device)
    rest = numbers
    for column in range(3):
        parts[:, column] = rest
        rest = rest - parts[:, column].float()
    return parts
