"""All contenders at each shape in one process, in turn: time, peak memory, errors, and the verdict beside each."""

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from minikernel.measure.loss.peak import peak_mib
from minikernel.measure.noise import DUPLICATE
from minikernel.measure.timing import DIGITS, turns
from minikernel.proof.loss.cases import Case, Made, made
from minikernel.proof.loss.contenders import COMPILE, CONTENDERS, EAGER, LAB, Function, function_of, versions
from minikernel.proof.loss.correctness import WRONG, worst
from minikernel.proof.loss.exact import Exact, exact
from minikernel.reasons import Reason, of_exception

FORWARD, BOTH = "forward", "both"
DIRECTIONS = (BOTH, FORWARD)
SPIN_CYCLES = 2_000_000  # a millisecond at 2 GHz; twice as long for whose host had not queued a call by then, up to
LONGEST_SPIN = 32_000_000  # which is passed by those alone that wait for the GPU within a call
ALL = "all"
TIMES_EAGER = 4  # as long as eager: nobody is too slow who takes less, on however busy a machine
Calls = dict[str, Callable[[], dict[str, Tensor]]]
MEASURED = ("median_us", "p20_us", "p80_us", "noise_floor", "peak_mib")
JUDGED = ("loss_rel_err", "dh_rel_err", "dw_rel_err", "verdict", "of", "error", "allowed")


class CallFailed(Exception):
    """A call that went well before fails while it is timed; why is the cause."""

    def __init__(self, who: str) -> None:
        self.who = who
        super().__init__(who)


def run_contest(params: dict, device: str, log: Callable[[str], None]) -> dict:
    """Time everybody at every shape.

    Args:
        params: as `minilab.records.params.loss_contest` gives them.
        device: torch device.
        log: called with a line for each shape and direction.

    Returns:
        `loss.json` without its provenance.
    """
    began, rows = time.monotonic(), []
    compiled: Any = function_of(COMPILE)
    compiled.seconds = float(params["compile_seconds"])
    for dtype, (m, d, v) in places(params):
        place = {"m": m, "d": d, "v": v, "dtype": dtype}
        if time.monotonic() - began > params["time_limit_seconds"]:
            late: Reason = {"code": "time_over", "seconds": params["time_limit_seconds"]}
            rows += [refused(ALL, place, direction, late) for direction in DIRECTIONS]
            continue
        found = list(at_place(place, params, torch.device(device)))
        rows += found
        for direction in DIRECTIONS:
            log(in_line(place, direction, [row for row in found if row["direction"] == direction]))
    return {"rows": rows, "versions": versions(), "complete": all(row["who"] != ALL for row in rows)}


def places(params: dict) -> Iterator[tuple[str, list[int]]]:
    """(dtype, [M, D, V]) of everything that is timed."""
    return ((dtype, shape) for dtype, shapes in params["shapes"].items() for shape in shapes)


def at_place(place: dict, params: dict, device: torch.device) -> Iterator[dict]:
    """The rows of one shape and dtype: of both directions, whoever is not able among them."""
    case = Case("plain", place["m"], place["d"], place["v"])
    tensors = made(case, place["dtype"], str(device), params["seed"])
    right = exact(tensors.h, tensors.weight, tensors.target)
    judgements: dict[str, dict] = {}
    for direction in DIRECTIONS:
        calls: Calls = {}
        reasons: dict[str, Reason] = {}
        taken: dict[str, float] = {}
        for who, contender in CONTENDERS.items():
            if contender.version is None:
                reasons[who] = {"code": "not_installed", "package": contender.distribution}
                continue
            try:
                contender.refuse_unless_able(str(device), {})
                function = function_of(who)
                call = partial(DIRECTION[direction], function, tensors)
                results, seconds = one_call(call, device)
                taken[who] = seconds
                slowest = max(params["slowest_seconds"], TIMES_EAGER * taken.get(EAGER, 0.0))
                if who != COMPILE and seconds > slowest:  # which may have been Triton's compiling
                    results, seconds = one_call(call, device)
                if who != COMPILE and seconds > slowest:
                    reasons[who] = {"code": "too_slow", "milliseconds": seconds * 1e3}
                    continue
                if direction == BOTH:
                    judgements[who] = judgement(results, right)
            except Exception as failure:  # somebody else's code may fail in any way
                reasons[who] = of_exception(failure)
                continue
            if who not in judgements:
                reasons[who] = {"code": "not_judged"}
                continue
            calls[who] = call
        yield from timed(place, direction, calls, judgements, params, device, tensors)
        yield from (refused(who, place, direction, reason) for who, reason in reasons.items())


def one_call(call: Callable[[], dict[str, Tensor]], device: torch.device) -> tuple[dict[str, Tensor], float]:
    """What a call returns, and the seconds that it took."""
    began = time.monotonic()
    results = call()
    wait(device)
    return results, time.monotonic() - began


def timed(
    place: dict,
    direction: str,
    calls: Calls,
    judgements: dict[str, dict],
    params: dict,
    device: torch.device,
    tensors: Made,
) -> Iterator[dict]:
    """Time and weigh those who are able at a place, in one direction.

    Who fails while it is timed is left out, and the others are timed again: they ran beside it.
    """
    if not calls:
        return
    twice = LAB if LAB in calls else next(iter(calls))
    returned = sum(one.nbytes for one in (tensors.h, tensors.weight)) if direction == BOTH else 0
    gone = None
    try:
        samples = clock({**calls, DUPLICATE: calls[twice]}, params["launches"], params["warmup"], device)
        peaks = {who: whose(who, partial(peak_mib, call, device, returned)) for who, call in calls.items()}
    except CallFailed as failed:
        gone, reason = twice if failed.who == DUPLICATE else failed.who, of_exception(failed.__cause__ or failed)
    if gone is not None:  # no longer in `except`, whose traceback holds what the call had taken of memory
        yield refused(gone, place, direction, reason)
        others = {who: call for who, call in calls.items() if who != gone}
        yield from timed(place, direction, others, judgements, params, device, tensors)
        return
    for who in calls:
        kept = {name: samples[name] for name in (who, *((DUPLICATE,) if who == twice else ()))}
        yield {
            "who": who,
            **place,
            "direction": direction,
            **figures(samples[who], samples[twice], samples[DUPLICATE]),
            "peak_mib": peaks[who],
            **judgements[who],
            "refused": None,
            "duplicated": twice,
            "samples_us": kept,
        }


def whose(who: str, call: Callable[[], Any]) -> Any:
    """What a call returns; where it fails, in whatever way, CallFailed says who failed."""
    try:
        return call()
    except Exception as failure:
        raise CallFailed(who) from failure


def figures(own: list[float], once: list[float], again: list[float]) -> dict[str, float]:
    """What follows from samples: the median, how far they spread, and how far a duplicate's median lay off."""
    deciles = statistics.quantiles(own, n=10, method="inclusive")
    noise = abs(statistics.median(again) / statistics.median(once) - 1)
    return {"median_us": statistics.median(own), "p20_us": deciles[1], "p80_us": deciles[7], "noise_floor": noise}


def refused(who: str, place: dict, direction: str, reason: Reason) -> dict:
    """The row of one who is not timed."""
    nothing = dict.fromkeys((*MEASURED, *JUDGED, "duplicated"))
    return {"who": who, **place, "direction": direction, **nothing, "refused": reason, "samples_us": {}}


def judgement(results: dict[str, Tensor], right: Exact) -> dict:
    """The errors over all elements together, and the verdict on the worst row."""
    apart = {
        f"{name}_rel_err": ((results[name].double() - value).norm() / value.norm()).item()
        for name, value in right.values.items()
    }
    if not all(map(_finite, apart.values())):
        return {**dict.fromkeys(apart), "verdict": WRONG, "of": None, "error": None, "allowed": 0.0}
    return {**apart, **worst(results, right)}


def _finite(value: float) -> bool:
    return value - value == 0


def both(function: Function, tensors: Made) -> dict[str, Tensor]:
    """A step's loss with its gradients."""
    h, weight = tensors.h.detach().requires_grad_(True), tensors.weight.detach().requires_grad_(True)
    loss = function(h, weight, tensors.target)
    dh, dw = torch.autograd.grad(loss, (h, weight))
    return {"loss": loss.detach(), "dh": dh, "dw": dw}


def forward(function: Function, tensors: Made) -> dict[str, Tensor]:
    """The loss alone, as on held-out text."""
    with torch.no_grad():
        return {"loss": function(tensors.h, tensors.weight, tensors.target)}


DIRECTION: dict[str, Callable[[Function, Made], dict[str, Tensor]]] = {BOTH: both, FORWARD: forward}


def clock(
    calls: dict[str, Callable[[], object]], launches: int, warmup: int, device: torch.device
) -> dict[str, list[float]]:
    """Microseconds of each call, all in turn: the GPU's own, whatever the host takes; on a CPU by the wall's clock."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    spins = dict.fromkeys(calls, SPIN_CYCLES)

    def on_gpu(name: str) -> float:
        while True:
            us, in_time = _behind_a_spin(partial(whose, name, calls[name]), spins[name])
            if in_time or spins[name] >= LONGEST_SPIN:
                return us
            spins[name] *= 2

    def on_cpu(name: str) -> float:
        began = time.perf_counter_ns()
        whose(name, calls[name])
        return (time.perf_counter_ns() - began) / 1e3

    took = on_gpu if device.type == "cuda" else on_cpu
    for name in calls:
        for _ in range(warmup):
            took(name)
    wait(device)
    for order in turns(calls, launches):
        for name in order:
            samples[name].append(round(took(name), DIGITS))
    return samples


def _behind_a_spin(call: Callable[[], object], cycles: int) -> tuple[float, bool]:
    """Microseconds of a call between two events, and whether all of it was queued before the GPU came to the first."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(cycles)
    start.record()
    call()
    in_time = not start.query()
    end.record()
    end.synchronize()  # at once: what the calls hold must not add up
    return start.elapsed_time(end) * 1e3, in_time


def wait(device: torch.device) -> None:
    """Wait for a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def in_line(place: dict, direction: str, rows: list[dict]) -> str:
    """One line of the log about a place and a direction."""
    at = f"{place['m']} x {place['d']} x {place['v']} {place['dtype']} {direction}"
    able = [row for row in rows if row["refused"] is None]
    said = ", ".join(f"{row['who']} {row['median_us']:,.0f} us {_mib(row)} {row['verdict']}" for row in able)
    return f"{at}: {said or 'nobody'}"


def _mib(row: dict) -> str:
    return "" if row["peak_mib"] is None else f"{row['peak_mib']:,.0f} MiB"
