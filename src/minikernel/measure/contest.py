"""The contest: every softmax of ours and every installed peer, interleaved in one process, at every shape.

It is the only place from which the lab says "faster than". Its parts: what a call costs the host, and the softmax
forward and backward; the LM head is timed by itself, in `head`. A provider that refuses a shape, is wrong there, or is
so slow that the others would wait for it, is left out at that shape, and the reason is kept.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import product

import torch

from minikernel import softmax
from minikernel.measure import peers
from minikernel.measure.bench import REFERENCE, row_of
from minikernel.measure.cases import Case, run_cases
from minikernel.measure.ceilings import large_copy
from minikernel.measure.eligibility import find_eligible
from minikernel.measure.host_cost import host_cost, host_providers
from minikernel.measure.noise import DUPLICATE, measure_with_duplicate, own_samples
from minikernel.measure.rows import ContestRow
from minikernel.measure.standards import OURS, standards
from minikernel.measure.timing import last_level_cache_bytes, rotating_inputs
from minikernel.ops.registry import kernels
from minikernel.proof.accuracy import softmax_error
from minikernel.proof.gradient_accuracy import GRADIENT_TOLERANCE, gradient_error
from minikernel.proof.proof import REFERENCE_TOLERANCE
from minikernel.reasons import Reason, in_words, wrong
from minilab import LabError

Pair = tuple[torch.Tensor, torch.Tensor]
MAX_AUTOTUNE = "compile-max-autotune"
ELEMENTS_AT_ONCE = 1 << 26  # of a gradient that is checked in float64


def forward_providers(config: dict) -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    """Name -> softmax of a (rows, cols) tensor: ours, what a user calls, torch's, and the peers that are installed.

    Args:
        config: the Triton kernel's at this shape.
    """
    ours = {name: kernels[name] for name in ("naive", "smem", "fused")}
    torch_s = {name: kernels[name] for name in (REFERENCE, "compile", MAX_AUTOTUNE)}
    triton = partial(kernels["triton"], config=config)
    return {**ours, "triton": triton, "softmax": softmax, **torch_s, **peers.contestants("forward")}


def backward_providers(config: dict) -> dict[str, Callable[[Pair], torch.Tensor]]:
    """Name -> gradient of the logits from a pair (dy, y); `config` is the Triton kernel's at this shape."""
    from minikernel.ops import softmax_triton_backward
    from minikernel.ops.softmax_cuda_backward import softmax_backward

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
        inputs = [(x, torch.softmax(x.float(), -1).to(torch_dtype)) for x in inputs]
    first, last = inputs[0], inputs[-1]
    tolerance = (REFERENCE_TOLERANCE if direction == "forward" else GRADIENT_TOLERANCE)[dtype]
    error_of = softmax_error if direction == "forward" else pair_error
    tolerances = dict.fromkeys(providers, tolerance)
    found = find_eligible(providers, first, lambda y: error_of(y, first), tolerances, REFERENCE, seconds_left)
    eligible, reasons = found.eligible, found.reasons
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
) -> Iterator[Case]:
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

    for dtype, (rows, cols), requires_grad in product(params["dtypes"], params["host_shapes"], (False, True)):
        place = {"part": "host", "direction": "forward", "rows": rows, "cols": cols, "dtype": dtype}
        yield place, partial(hosts, [rows, cols], dtype, requires_grad)
    for direction, make in (("forward", forward_providers), ("backward", backward_providers)):
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
    """The whole contest: host, and softmax forward and backward at every shape and dtype.

    Args:
        params: the configuration's section `contest`.
        config_for: (rows, cols, dtype) -> the tracked autotune choice of the Triton kernel.
        torch_device: `cuda:N`.
        log, save: as `cases.run_cases` takes them.

    Returns:
        `contest.json` without its provenance.
    """
    device = torch.device(torch_device)
    copied = large_copy(device)
    ceiling = copied.giga_per_s
    result: dict = {"copy_gb_per_s": ceiling, "ceiling": asdict(copied)}
    result |= {"cache_bytes": last_level_cache_bytes(device), "peers": peers.versions(), "rows": [], "host": []}
    log(f"copy {ceiling:,.0f} GB/s; " + ", ".join(f"{peer} {v or 'missing'}" for peer, v in result["peers"].items()))
    every = cases(params, config_for, device, ceiling)
    return run_cases(result, every, standards, params["time_limit_seconds"], log, save)
