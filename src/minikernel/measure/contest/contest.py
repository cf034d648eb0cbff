"""The contest: every softmax of ours and every installed peer, interleaved in one process, at every shape.

It is the only place from which the lab says "faster than". Its parts: what a call costs the host, the LM head,
the softmax forward and backward. A provider that refuses a shape, is wrong there, or is so slow that the others
would wait for it, is left out at that shape, and the reason is kept.
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import product

import torch

from minikernel import softmax
from minikernel.measure.bench import REFERENCE, row_of
from minikernel.measure.ceilings import large_copy
from minikernel.measure.contest import peers
from minikernel.measure.contest.head_contest import contest_head, head_providers, head_weight
from minikernel.measure.contest.host_cost import host_cost, host_providers
from minikernel.measure.contest.standards import LEFT_OUT_ALL, OURS, standards
from minikernel.measure.eligibility import find_eligible
from minikernel.measure.noise import DUPLICATE, measure_with_duplicate, own_samples
from minikernel.measure.rows import ContestRow, HeadRow, HostRow
from minikernel.measure.timing import last_level_cache_bytes, rotating_inputs
from minikernel.ops.lm_head import COLUMNS
from minikernel.ops.registry import kernels
from minikernel.proof.accuracy import softmax_error
from minikernel.proof.gradient_accuracy import GRADIENT_TOLERANCE, gradient_error
from minikernel.proof.proof import REFERENCE_TOLERANCE
from minikernel.reasons import Reason, in_words, of_exception, wrong
from minilab import LabError

Pair = tuple[torch.Tensor, torch.Tensor]
Rows = Sequence[ContestRow | HeadRow | HostRow]
MAX_AUTOTUNE = "compile-max-autotune"
LEAKED_BYTES = 1 << 28  # between cases: a peer's exception may hold on to tensors until garbage is collected
ELEMENTS_AT_ONCE = 1 << 26  # of a gradient that is checked in float64
PARTS = {"softmax": "rows", "head": "head", "host": "host"}  # part -> where its rows lie in contest.json


def forward_providers(config: dict) -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    """Name -> softmax of a (rows, cols) tensor: ours, what a user calls, torch's, and the peers that are installed.

    Args:
        config: the Triton kernel's at this shape.
    """
    ours = {name: kernels[name] for name in ("naive", "smem", "fused")}
    # torch's own three: eager, compiled, and compiled with autotuning
    torch_s = {name: kernels[name] for name in (REFERENCE, "compile", MAX_AUTOTUNE)}
    triton = partial(kernels["triton"], config=config)
    return {**ours, "triton": triton, "softmax": partial(softmax, dim=-1), **torch_s, **peers.contestants("forward")}


def backward_providers(config: dict) -> dict[str, Callable[[Pair], torch.Tensor]]:
    """Name -> gradient of the logits from a pair (dy, y); `config` is the Triton kernel's at this shape."""
    from minikernel.ops import softmax_triton_backward
    from minikernel.ops.softmax_cuda_backward import softmax_backward

    # The gradient as somebody would write it in torch, for Inductor to fuse.
    def formula(dy: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (dy - (dy * y).sum(-1, keepdim=True)) * y

    compiled = torch.compile(formula, dynamic=False, fullgraph=True)
    tuned = torch.compile(formula, dynamic=False, fullgraph=True, mode="max-autotune-no-cudagraphs")
    return {
        "fused": lambda pair: softmax_backward(*pair),
        "triton": lambda pair: softmax_triton_backward.softmax_backward(*pair, config=config),
        REFERENCE: lambda pair: torch._softmax_backward_data(*pair, -1, pair[1].dtype),
        "compile": lambda pair: compiled(*pair),
        MAX_AUTOTUNE: lambda pair: tuned(*pair),
        **peers.contestants("backward"),
    }


def contest(
    providers: dict[str, Callable],
    direction: str,
    shape: list[int],
    dtype: str,
    params: dict,
    device: torch.device,
    ceiling: float,
    seconds_left: dict[str, float] | None = None,
) -> tuple[list[ContestRow], dict[str, Reason]]:
    """Time all providers of one direction at one shape, in turn, in this process.

    Args:
        providers: name -> function of one input: a tensor forward, a pair (dy, y) backward.
        direction: `forward` or `backward`.
        shape: [rows, cols].
        dtype: `float32`, `bfloat16` or `float16`.
        params: launches, warmup, seed.
        ceiling: a large copy's bandwidth in this process, GB/s.
        seconds_left: as `eligibility.find_eligible` takes it.

    Returns:
        Rows as in `bench.json`, their configuration not filled in, and name -> why it was left out.

    Raises:
        LabError: `F.softmax` itself is wrong or refuses.
    """
    torch_dtype = getattr(torch, dtype)
    inputs: list = rotating_inputs(shape[0], shape[1], torch_dtype, device, params["seed"])
    if direction == "backward":
        # dy random, y a true softmax rounded to the dtype: what a backward pass is given
        inputs = [(x, torch.softmax(x.float(), -1).to(torch_dtype)) for x in inputs]
    # judged on the first before timing and on the last after it
    first, last = inputs[0], inputs[-1]
    tolerance = (REFERENCE_TOLERANCE if direction == "forward" else GRADIENT_TOLERANCE)[dtype]
    error_of = softmax_error if direction == "forward" else pair_error
    tolerances = dict.fromkeys(providers, tolerance)
    found = find_eligible(providers, first, lambda y: error_of(y, first), tolerances, REFERENCE, seconds_left)
    eligible, reasons = found.eligible, found.reasons
    # Ratios to nothing would be no contest.
    if REFERENCE in reasons:
        said = in_words(reasons[REFERENCE])
        raise LabError(f"{REFERENCE}, beside which all others are timed, cannot be timed itself: {said}.")
    source = first if direction == "forward" else first[0]
    target = torch.empty_like(source)
    copy = target.copy_ if direction == "forward" else lambda pair: target.copy_(pair[0])
    twice = next(name for name in (*OURS, REFERENCE) if name in eligible)
    timings, launched = measure_with_duplicate(
        {**eligible, "copy": copy}, twice, REFERENCE, inputs, params["warmup"], params["launches"]
    )
    rows: list[ContestRow] = []
    for name, provider in eligible.items():
        # again after the timing, on another input
        error = max(found.errors[name], error_of(provider(last), last))
        if not error <= tolerance:
            reasons[name] = wrong(error, tolerance, "wrong_after_timing")
            continue
        row: ContestRow = {
            **row_of(name, direction, shape, torch_dtype, timings, ceiling),
            "max_rel_err": error,
            "copy_graph_us": timings["copy"].graph_us,
            "duplicated": twice,
            **launched,
            # Samples that all rows share, the copy's and the duplicate's, lie in a place's first row.
            **own_samples(name, timings, () if rows else ("copy", DUPLICATE)),
            "config": None,
        }
        rows.append(row)
    return rows, reasons


def pair_error(dx: torch.Tensor, pair: Pair) -> float:
    """`gradient_error` of `dx` from (dy, y), some rows at a time, so that float64 copies never exist whole."""
    dy, y = pair
    if dx.shape != y.shape:
        return gradient_error(dx, dy, y)
    step = max(1, ELEMENTS_AT_ONCE // y.shape[-1])
    pieces = [slice(start, start + step) for start in range(0, y.shape[0], step)]
    return max(gradient_error(dx[piece], dy[piece], y[piece]) for piece in pieces)


def cases(
    params: dict, config_for: Callable[[int, int, str], dict], device: torch.device, ceiling: float
) -> Iterator[tuple[dict, Callable[[], tuple[Rows, dict[str, Reason]]]]]:
    """Everything that is measured, in order: where it belongs, and the function that measures it."""

    def softmaxes(make: Callable, direction: str, shape: list[int], dtype: str, seconds_left: dict[str, float]):
        config = config_for(shape[0], shape[1], dtype)
        rows, reasons = contest(make(config), direction, shape, dtype, params, device, ceiling, seconds_left)
        for row in rows:
            row["config"] = config if row["kernel"] == "triton" else None
        return rows, reasons

    def hosts(shape: list[int], dtype: str, requires_grad: bool):
        providers = host_providers(config_for(shape[0], shape[1], dtype), requires_grad)
        tolerance = REFERENCE_TOLERANCE[dtype]
        return host_cost(providers, shape, dtype, requires_grad, softmax_error, tolerance, device, params["seed"])

    def heads(rows: int):
        weight = head_weight(device, params["seed"])
        return contest_head(head_providers(weight), weight, rows, params, device, ceiling)

    # The cheapest part first: a contest that the time limit cuts has the host's costs and the head in any case.
    for dtype, (rows, cols), requires_grad in product(params["dtypes"], params["host_shapes"], (False, True)):
        place = {"part": "host", "direction": "forward", "rows": rows, "cols": cols, "dtype": dtype}
        yield place, partial(hosts, [rows, cols], dtype, requires_grad)
    for rows in params["head_rows"]:
        place = {"part": "head", "direction": "forward", "rows": rows, "cols": COLUMNS, "dtype": "float32"}
        yield place, partial(heads, rows)
    for direction, make in (("forward", forward_providers), ("backward", backward_providers)):
        # one budget for a whole direction: the shapes that come first are compiled, as far as it goes
        seconds_left = {MAX_AUTOTUNE: params["max_autotune_seconds"]}
        for dtype, (rows, cols) in product(params["dtypes"], params["shapes"]):
            place = {"part": "softmax", "direction": direction, "rows": rows, "cols": cols, "dtype": dtype}
            yield place, partial(softmaxes, make, direction, [rows, cols], dtype, seconds_left)


def run_contest(
    params: dict,
    config_for: Callable[[int, int, str], dict],
    torch_device: str,
    log: Callable[[str], None],
    save: Callable[[dict], None],
) -> dict:
    """The whole contest: host, head, and softmax forward and backward at every shape and dtype.

    A part that fails as a whole is an entry of `left_out` in the name of all, and the others go on; so is one
    that the time limit cuts.

    Args:
        params: the configuration's section `contest`.
        config_for: (rows, cols, dtype) -> the tracked autotune choice of the Triton kernel.
        torch_device: `cuda:N`.
        log: called with one line a case.
        save: called with the result so far after each case, so that a contest that is cut loses little.

    Returns:
        `contest.json` without its provenance.
    """
    device, began = torch.device(torch_device), time.monotonic()
    cache_bytes = last_level_cache_bytes(device)
    copied = large_copy(device)
    ceiling = copied.giga_per_s
    result: dict = {"copy_gb_per_s": ceiling, "ceiling": asdict(copied), "cache_bytes": cache_bytes}
    result["peers"] = peers.versions()
    result |= {"complete": False, "rows": [], "head": [], "host": [], "left_out": [], "standards": []}
    log(f"copy {ceiling:,.0f} GB/s; " + ", ".join(f"{peer} {v or 'missing'}" for peer, v in result["peers"].items()))
    for place, case in cases(params, config_for, device, ceiling):
        # whatever fails, fails in its own case: out of memory at one shape leaves the others
        rows, reasons = _rows_or_reason(case, time.monotonic() - began, params["time_limit_seconds"])
        result[PARTS[place["part"]]] += rows
        result["left_out"] += [{**place, "kernel": name, "reason": reason} for name, reason in reasons.items()]
        # after each case, so that what was saved of a contest that is cut is complete in itself
        result["standards"] = standards(result)
        log(f"{time.monotonic() - began:4.0f} s {in_line(place, rows, reasons)}")
        save(result)
    result["complete"] = all(out["kernel"] != LEFT_OUT_ALL for out in result["left_out"])
    save(result)
    return result


def _rows_or_reason(case: Callable, elapsed: float, limit: float) -> tuple[Rows, dict[str, Reason]]:
    """What a case measures; in its stead, why it was not measured."""
    if elapsed > limit:
        return [], {LEFT_OUT_ALL: {"code": "time_over", "seconds": limit}}
    try:
        # Memory of the case before is given back; so are compiled functions: with one static shape a case, Dynamo's
        # limit on recompiling is never met, nor the cost of many guards.
        torch._dynamo.reset()
        if torch.cuda.memory_allocated() > LEAKED_BYTES:
            gc.collect()
        torch.cuda.empty_cache()
        return case()
    except Exception as failure:  # out of memory, or a kernel that broke the device for all
        return [], {LEFT_OUT_ALL: of_exception(failure)}


def in_line(place: dict, rows: Rows, reasons: dict[str, Reason]) -> str:
    """One line of the log about one case: its place, who won, and who was left out."""
    where = f"{place['part']} {place['direction']} {place['rows']}x{place['cols']} {place['dtype']}"
    won = sorted(rows, key=lambda row: row["median_us"])
    times = ", ".join(f"{row['kernel']} {row['median_us']:,.1f}" for row in won)
    left_out = "".join(f"; without {name}: {in_words(why)}" for name, why in reasons.items())
    return f"{where}: {times or 'nothing'} us{left_out}"
