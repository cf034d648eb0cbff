"""The LM head's part of the contest: softmax(h weight^T), fused into one kernel, against torch's two."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F

from minikernel import linear_softmax
from minikernel.measure import cost
from minikernel.measure.eligibility import find_eligible
from minikernel.measure.noise import DUPLICATE, measure_with_duplicate, own_samples
from minikernel.measure.rows import HeadFigures, HeadRow
from minikernel.measure.timing import Timing, rotating_inputs
from minikernel.ops.lm_head import COLUMNS, FEATURES, fuses
from minikernel.proof.accuracy import ROWS_AT_ONCE, exact_softmax, relative_error
from minikernel.proof.proof import REFERENCE_TOLERANCE
from minikernel.reasons import Reason, wrong

EAGER, FUSED, FUSED_TF32 = "eager", "linear_softmax", "linear_softmax-tf32"
TF32_TOLERANCE = 1e-2  # TF32 keeps 11 significant bits of a factor


def eager(h: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """softmax(h weight^T) as two operators."""
    return F.softmax(F.linear(h, weight), dim=-1)


def head_providers(weight: torch.Tensor) -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    """Name -> the probabilities of hidden states (rows, features)."""
    return {
        EAGER: partial(eager, weight=weight),
        FUSED: partial(linear_softmax, weight=weight),
        FUSED_TF32: partial(linear_softmax, weight=weight, precision="tf32"),
        "compile": partial(torch.compile(eager, dynamic=False, fullgraph=True), weight=weight),
    }


def head_weight(device: torch.device, seed: int) -> torch.Tensor:
    """A random (columns, features) float32 weight, of variance one over the features: logits of N(0, 1)."""
    generator = torch.Generator(device).manual_seed(seed + 1)
    return torch.randn((COLUMNS, FEATURES), generator=generator, device=device) / FEATURES**0.5


def head_error(result: torch.Tensor, h: torch.Tensor, weight: torch.Tensor) -> float:
    """Largest relative error of the probabilities against float64, `ROWS_AT_ONCE` rows at a time."""
    # Logits in float64 are made piece by piece: a million rows of them at once would be 5 GB.
    exact_weight = weight.double().T
    starts = range(0, h.shape[0], ROWS_AT_ONCE)
    pieces = [slice(start, start + ROWS_AT_ONCE) for start in starts]
    return max(relative_error(result[p], exact_softmax(h[p].double() @ exact_weight)) for p in pieces)


def contest_head(
    providers: dict[str, Callable],
    weight: torch.Tensor,
    rows: int,
    params: dict,
    device: torch.device,
    ceiling: float,
) -> tuple[list[HeadRow], dict[str, Reason]]:
    """Time every LM head at one number of rows, in turn, in this process.

    Args:
        providers: name -> the probabilities of h (rows, features), `eager` among them.
        weight: (columns, features), float32.
        rows: how many hidden states.
        params: launches, warmup, seed.
        ceiling: a large copy's bandwidth in this process, GB/s.

    Returns:
        One row a head, and name -> why it was left out. A head that keeps the logits to itself reads h and the
        weight and writes the probabilities; the others write and read the logits besides.
    """
    # The hidden states rotate; the weight, 150 KB, is in the cache for all alike, as it is in a model.
    inputs = rotating_inputs(rows, FEATURES, torch.float32, device, params["seed"])
    # TF32 is held to what it promises, so that it can be timed, and stands in rows of its own name.
    tolerances = dict.fromkeys(providers, REFERENCE_TOLERANCE["float32"]) | {FUSED_TF32: TF32_TOLERANCE}
    first, last = inputs[0], inputs[-1]
    # TF32 and float32 have bounds of their own; who is right by them takes part.
    able = find_eligible(providers, first, lambda y: head_error(y, first, weight), tolerances, EAGER)
    eligible, reasons = able.eligible, able.reasons
    twice = FUSED if FUSED in eligible else EAGER
    timings, launched = measure_with_duplicate(eligible, twice, EAGER, inputs, params["warmup"], params["launches"])
    found: list[HeadRow] = []
    for name, provider in eligible.items():
        error = max(able.errors[name], head_error(provider(last), last, weight))
        if not error <= tolerances[name]:
            reasons[name] = wrong(error, tolerances[name], "wrong_after_timing")
            continue
        # asked of the kernel and not assumed: below `LEAST_ROWS` the same name launches torch's two
        fused = name in (FUSED, FUSED_TF32) and fuses(first, weight)
        samples = own_samples(name, timings, () if found else (DUPLICATE,))
        figures = row_of(name, fused, rows, timings[name], ceiling)
        found.append({**figures, "max_rel_err": error, "duplicated": twice, **launched, **samples})
    return found, reasons


def row_of(name: str, fused: bool, rows: int, timing: Timing, ceiling: float) -> HeadFigures:
    """The part of a head's row that follows from its timing; `fused`: the logits never reached memory."""
    moved = cost.linear_softmax_bytes(rows, FEATURES, COLUMNS, torch.float32.itemsize, fused)
    flop = cost.linear_softmax_flop(rows, FEATURES, COLUMNS)
    gb_per_s = moved / timing.median_us / 1e3
    return {
        "kernel": name,
        "fused": fused,
        "rows": rows,
        "features": FEATURES,
        "cols": COLUMNS,
        "dtype": "float32",
        "median_us": timing.median_us,
        "p20_us": timing.percentile(20),
        "p80_us": timing.percentile(80),
        "graph_us": timing.graph_us,
        "bytes": moved,
        "flop": flop,
        "flop_per_byte": flop / moved,
        "tflop_per_s": flop / timing.median_us / 1e6,
        "gb_per_s": gb_per_s,
        "fraction_of_copy": gb_per_s / ceiling,
    }
