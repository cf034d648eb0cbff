"""The contest: every softmax of ours and every installed peer, interleaved in one process, at every shape.

It is the only place from which the lab says "faster than". A provider that refuses a shape, is wrong there, or
is so slow that the others would wait for it, is left out at that shape, and the reason is kept.
"""

import time
from collections.abc import Callable

import torch

from minikernel import peers
from minikernel.accuracy import softmax_error
from minikernel.bench import REFERENCE, rounded, row_of
from minikernel.ceilings import SIZES, copy_gb_per_s
from minikernel.gradient_accuracy import gradient_error
from minikernel.proof import REFERENCE_TOLERANCE
from minikernel.registry import kernels
from minikernel.timing import last_level_cache_bytes, measure, rotating_inputs

Pair = tuple[torch.Tensor, torch.Tensor]
FORWARD = ("naive", "smem", "fused", "triton", REFERENCE, "compile", "compile-max-autotune")
PATIENCE = 30  # times F.softmax's time: what is slower is not waited for a hundred times


def forward_providers(config_for: Callable[[int, int, str], dict]) -> dict[str, Callable]:
    """Name -> softmax of a (rows, cols) tensor: ours, torch's, and the peers that are installed.

    Args:
        config_for: (rows, cols, dtype) -> the tracked autotune choice of the Triton kernel.
    """
    triton = kernels["triton"]
    ours = {name: kernels[name] for name in FORWARD}
    ours["triton"] = lambda x: triton(x, config=config_for(*x.shape, str(x.dtype).removeprefix("torch.")))
    return ours | {name: peers.forward(name) for name in peers.PACKAGES if peers.installed(name)}


def backward_providers() -> dict[str, Callable[[Pair], torch.Tensor]]:
    """Name -> gradient of the logits from a pair (dy, y)."""
    from minikernel.softmax_backward import softmax_backward

    def formula(dy: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (dy - (dy * y).sum(-1, keepdim=True)) * y

    compiled = torch.compile(formula, dynamic=False)
    tuned = torch.compile(formula, dynamic=False, mode="max-autotune-no-cudagraphs")
    ours = {
        "fused": lambda pair: softmax_backward(*pair),
        REFERENCE: lambda pair: torch._softmax_backward_data(pair[0], pair[1], -1, pair[1].dtype),
        "compile": lambda pair: compiled(*pair),
        "compile-max-autotune": lambda pair: tuned(*pair),
    }
    return ours | {name: peers.backward(name) for name in peers.PACKAGES if peers.installed(name)}


def contest(
    providers: dict[str, Callable],
    direction: str,
    shape: list[int],
    dtype: str,
    params: dict,
    device: torch.device,
    ceiling: float,
) -> tuple[list[dict], list[dict]]:
    """Time all providers of one direction at one shape, in turn, in this process.

    Args:
        providers: name -> function of one input: a tensor forward, a pair (dy, y) backward.
        direction: `forward` or `backward`.
        shape: [rows, cols].
        dtype: `float32`, `bfloat16` or `float16`.
        params: launches, warmup, seed.
        ceiling: a large copy's bandwidth in this process, GB/s.

    Returns:
        Rows as in `bench.json`, and what was left out: kernel, direction, shape, dtype, reason.
    """
    torch_dtype = getattr(torch, dtype)
    inputs: list = rotating_inputs(*shape, torch_dtype, device, params["seed"])
    if direction == "backward":
        probabilities = [torch.softmax(x.float(), -1).to(torch_dtype) for x in inputs]
        inputs = list(zip(inputs, probabilities, strict=True))
    first = inputs[0]
    patience = PATIENCE * _seconds(providers[REFERENCE], first)
    errors, entered, left_out = {}, {}, []
    for name, provider in providers.items():
        try:
            errors[name] = _error(provider(first), first, direction)
            slow = name not in (REFERENCE, "fused", "triton") and _seconds(provider, first) > patience
        except Exception as failure:  # a peer may raise anything at a shape that it does not take
            reason = f"{type(failure).__name__}: {failure}".splitlines()[0]
        else:
            wrong = not errors[name] <= REFERENCE_TOLERANCE[dtype]
            reason = (
                f"wrong, error {errors[name]:.1e}" if wrong else f"over {PATIENCE} times {REFERENCE}" if slow else ""
            )
        if reason:
            place = {"rows": shape[0], "cols": shape[1], "dtype": dtype}
            left_out.append({"kernel": name, "direction": direction, **place, "reason": reason})
        else:
            entered[name] = provider
    source = first if direction == "forward" else first[0]
    target = torch.empty_like(source)
    timed = {
        **entered,
        "again": entered["fused"],
        "copy": lambda x: target.copy_(x if direction == "forward" else x[0]),
    }
    timings = measure(timed, inputs, params["warmup"], params["launches"])
    noise = abs(timings["again"].median_us / timings["fused"].median_us - 1)
    rows = []
    for name, provider in entered.items():
        checked = {
            "max_rel_err": max(errors[name], _error(provider(inputs[-1]), inputs[-1], direction)),
            "config": None,
            "launches": params["launches"],
            "noise_floor": noise,
            "samples_us": {name: rounded(timings[name])},
        }
        rows.append(row_of(name, direction, shape, torch_dtype, timings, ceiling) | checked)
    return rows, left_out


def run_contest(
    params: dict, config_for: Callable[[int, int, str], dict], torch_device: str, log: Callable[[str], None]
) -> dict:
    """The whole contest: every shape and dtype, forward and backward. {"rows", "left_out", "peers"}.

    Args:
        params: shapes ([rows, cols] each), dtypes, launches, warmup, seed.
        config_for: as `forward_providers` takes it.
        torch_device: `cuda:N`.
        log: called with one line a shape, dtype and direction.
    """
    device = torch.device(torch_device)
    ceiling = copy_gb_per_s(last_level_cache_bytes(device) * SIZES[device.type]["copy_caches"], device)
    rows, left_out = [], []
    for direction, providers in (("forward", forward_providers(config_for)), ("backward", backward_providers())):
        for dtype in params["dtypes"]:
            for shape in params["shapes"]:
                found, refused = contest(providers, direction, shape, dtype, params, device, ceiling)
                rows += found
                left_out += refused
                best = min(found, key=lambda row: row["median_us"])
                log(
                    f"{direction} {shape[0]}x{shape[1]} {dtype}: {best['kernel']} first, {best['median_us']:,.1f} us, "
                    f"{best['fraction_of_copy']:.1%} of copy; {len(found)} in, {len(refused)} out"
                )
                torch.cuda.empty_cache()
    return {"rows": rows, "left_out": left_out, "peers": {name: peers.installed(name) for name in peers.PACKAGES}}


def _error(result: torch.Tensor, given: torch.Tensor | Pair, direction: str) -> float:
    return softmax_error(result, given) if direction == "forward" else gradient_error(result, *given)


def _seconds(provider: Callable, given: torch.Tensor | Pair) -> float:
    """Wall time of one warm call, the device's work included."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    provider(given)
    wait()
    began = time.perf_counter()
    provider(given)
    wait()
    return time.perf_counter() - began
