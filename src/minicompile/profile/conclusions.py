"""What follows from a profile's samples and the compiles that were watched with them: profile.json.

Names, bytes and operations of the kernels are those of the very code that was timed. Each part was timed by itself;
nothing is inferred from what the others leave over.
"""

import statistics
from collections import Counter
from collections.abc import Iterable
from typing import Any

from minicompile.lowering.captured import Graph
from minicompile.lowering.record import Record
from minicompile.profile.refusal import NotProfiled
from minicompile.profile.rows import Parts, Round, Split, TakenApart, TimedKernel, Work
from minicompile.profile.verdict import gain
from minicompile.profile.work import attention_calls, bytes_of, kernel_work, softmax_calls
from minilab import LabError


def profiled(measured: dict) -> dict:
    """A profile out of its samples.

    Args:
        measured: a profile_samples.json, which stays as it is.

    Returns:
        What schemas/profile.schema.yaml describes, without its provenance.

    Raises:
        LabError: a kernel or library call of one of the lab's own models was not timed. Of a user's, what was taken
            apart is left out, and `left_out` says why.
    """
    copied = measured["roofline"]["ceilings"]["copy_gb_per_s"]
    made: dict[str, list] = {"shapes": [], "attention": [], "left_out": list(measured["left_out"])}
    for what, concluded in (("shapes", lambda row: _shape(row, copied)), ("attention", _attention)):
        for row in measured[what]:
            try:
                made[what].append(concluded(row))
            except NotProfiled as error:
                if not measured["users"]:
                    raise LabError(f"{measured['model']} could not be profiled: {error}") from error
                left_out = {"shape": row["shape"], "mode": None, "reason": error.reason}
                made["left_out"] += [] if left_out in made["left_out"] else [left_out]
    kept = {name: measured[name] for name in measured.keys() - {"provenance", "restored", "users"}}
    return {**kept, **made, "kernels": made["shapes"][0]["kernels"] if made["shapes"] else []}


def _shape(row: dict, copy_gb_per_s: float) -> dict:
    broken = Breakdown(row)
    return {
        "shape": row["shape"],
        "split": broken.split(),
        "kernels": broken.kernels(copy_gb_per_s),
        "rounds": broken.rounds,
        "busy": row["busy"],
    }


def _attention(row: dict) -> dict:
    sides = {side: variant(Breakdown(row[side]), row["shape"][1]) for side in ("explicit", "fused")}
    return {**row, **sides}


class Breakdown:
    """A compiled call's parts, and what its kernels have to do.

    Attributes:
        graphs: the captured graphs, as schemas/capture.schema.yaml describes them.
        rounds: every sample of each part.
        parts: in microseconds, each the median of its samples in its quietest round.

    Raises:
        NotProfiled: a kernel or library call was not timed.
    """

    def __init__(self, apart: TakenApart | Any) -> None:
        self.on_gpu, self.samples, self.rounds = apart["on_gpu"], apart["samples"], apart["rounds"]
        self.graphs: list[Graph] = Record(apart["compiled"]).graphs
        _check(apart["name"], self.graphs, self.rounds)
        self.parts = quietest(self.rounds)

    def split(self) -> Split:
        """Divide the call's time among its parts.

        Returns:
            `call_us`, and of it `guards_us`, `wrapper_us`, `kernels_us`, `libraries_us`; `rest_us`, which none of them
            explains (handing arguments to C++, and whatever interrupted the calls); it is None where `overlapping`,
            on a GPU, as the first two are the host's and the others the device's.
        """
        calls = {row["name"]: row["calls"] for row in kernel_work(self.graphs)}
        return split(self.parts, calls, self.samples, self.on_gpu)

    def kernels(self, copy_gb_per_s: float) -> list[TimedKernel]:
        """Return a row for each generated kernel: `kernel_work`'s, with its time, bandwidth and share of the call."""
        return [timed(row, self.rounds, copy_gb_per_s) for row in kernel_work(self.graphs)]


def split(parts: Parts, calls: dict[str, int], samples: int, on_gpu: bool) -> Split:
    """Compute `Breakdown.split` from the parts that `quietest` gives and how often each kernel is called."""
    kernels = sum(times * parts["kernels_us"][name] for name, times in calls.items())
    libraries = sum(parts["libraries_us"])
    rest = parts["call_us"] - parts["guards_us"] - parts["wrapper_us"] - kernels - libraries
    return {
        "samples": samples,
        "overlapping": on_gpu,
        "call_us": parts["call_us"],
        "guards_us": parts["guards_us"],
        "wrapper_us": parts["wrapper_us"],
        "kernels_us": kernels,
        "libraries_us": libraries,
        "rest_us": None if on_gpu else rest,
    }


def timed(row: Work, rounds: list[Round], copy_gb_per_s: float) -> TimedKernel:
    """Add to a row of `kernel_work` what follows from its kernel's time."""
    parts = quietest(rounds)
    median_us = parts["kernels_us"][row["name"]]
    gb_per_s = row["bytes"] / median_us / 1e3
    return {
        **row,
        "median_us": median_us,
        "noise": between_rounds([statistics.median(one["kernels_us"][row["name"]]) for one in rounds]),
        "gb_per_s": gb_per_s,
        "tflop_per_s": row["flop"] / median_us / 1e6,
        "fraction_of_copy": gb_per_s / copy_gb_per_s,
        "flop_per_byte": row["flop"] / row["bytes"],
        "share_of_call": row["calls"] * median_us / parts["call_us"],
    }


def between_rounds(medians: list[float]) -> float:
    """How far the two quietest rounds of a kernel lie apart, a gain: it is the noise of the least of them."""
    least, *others = sorted(medians)
    return abs(gain(least, others[0])) if others else 0.0


def _check(name: str, graphs: list[Graph], rounds: list[Round]) -> None:
    """Refuse a model of which the rounds lack something."""
    work = kernel_work(graphs)
    twice = [kernel for kernel, count in Counter(row["name"] for row in work).items() if count > 1]
    if twice:
        names = ", ".join(twice)
        raise NotProfiled(
            f"several graphs of {name} have a kernel {names}; times go by name.", "same_name", names=names
        )
    generated = {row["name"] for row in work}
    missing = set().union(*(generated - found["kernels_us"].keys() for found in rounds))
    libraries = [call["kernel"] for graph in graphs for call in graph["calls"] if call["extern"]]
    if any(len(found["libraries_us"]) != len(libraries) for found in rounds):
        missing |= set(libraries) or {"what runs between the graphs"}
    if missing:
        names = ", ".join(sorted(missing))
        raise NotProfiled(
            f"the profile of {name} found no time for {names}; report this with the installed torch's version.",
            "no_time", names=names,
        )  # fmt: skip


def quietest(rounds: list[Round]) -> Parts:
    """Take, for each part, the round in which the median of its samples is least."""

    def least(samples: Iterable[list[float]]) -> float:
        return min(map(statistics.median, samples))

    libraries = zip(*(one["libraries_us"] for one in rounds), strict=True)
    return {
        "call_us": least(one["call_us"] for one in rounds),
        "guards_us": least(one["guards_us"] for one in rounds),
        "wrapper_us": least(one["wrapper_us"] for one in rounds),
        "kernels_us": {name: least(one["kernels_us"][name] for one in rounds) for name in rounds[0]["kernels_us"]},
        "libraries_us": [least(call) for call in libraries],
    }


def variant(breakdown: Breakdown, length: int) -> dict:
    """Sum up the kernels, bytes and time of a compiled model, and of attention's core in it, all layers together.

    Returns:
        `split` as `Breakdown.split`, and the `rounds` that it follows from; `generated_kernels` and `library_calls` in
        a call of the model; `bytes` of all; `softmax_kernel`, the generated kernel that holds attention's softmax, or
        None; `operator`, the library call that runs attention as one, or None; `core`: `calls`, `bytes`, `us` of
        attention alone; and `noise`, how far the two quietest rounds lie apart, of the `call` and of the `core`.
    """
    softmax = [call["kernel"] for graph in breakdown.graphs for call in softmax_calls(graph, length)]
    core = [call for graph in breakdown.graphs for call in attention_calls(graph, length)]
    operators = [call["kernel"] for call in core if call["extern"] and "scaled_dot_product" in call["kernel"]]
    work = kernel_work(breakdown.graphs)
    calls = [statistics.median(one["call_us"]) for one in breakdown.rounds]
    cores = [_core_us(breakdown.graphs, quietest([one]), length) for one in breakdown.rounds]
    return {
        "split": breakdown.split(),
        "rounds": breakdown.rounds,
        "noise": {"call": between_rounds(calls), "core": between_rounds(cores)},
        "generated_kernels": sum(row["calls"] for row in work),
        "library_calls": len(breakdown.parts["libraries_us"]),
        "bytes": sum(bytes_of(call) for graph in breakdown.graphs for call in graph["calls"]),
        "softmax_kernel": next(iter(softmax), None),
        "operator": next(iter(operators), None),
        "core": {
            "calls": len(core),
            "bytes": sum(map(bytes_of, core)),
            "us": _core_us(breakdown.graphs, breakdown.parts, length),
        },
    }


def _core_us(graphs: list[Graph], parts: Parts, length: int) -> float:
    """The time of attention's core, all layers together."""
    times, taken = iter(parts["libraries_us"]), 0.0
    for graph in graphs:
        inside = {call["id"] for call in attention_calls(graph, length)}
        for call in graph["calls"]:
            us = next(times) if call["extern"] else parts["kernels_us"][call["kernel"]]
            taken += us if call["id"] in inside else 0.0
    return taken
