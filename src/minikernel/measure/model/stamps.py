"""What kernels write down about themselves: on which multiprocessor a block ran, and when each of its spans ended.

A kernel that is timed so writes an int64 array (blocks, events, 2). A block's first row is (multiprocessor, nanoseconds
of the clock that all share, at its start), its second (0, cycles of its multiprocessor's own clock at its start). Each
further row is (code of the span, cycles at which it ended); rows that are not used are zero. A code is the kind of
the span, and 256 times the phase of the pass that it belongs to.
"""

import math
from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from minikernel.measure.model.rows import Parts, Stamped

MEMORY, ARITHMETIC, WAITING = 1, 2, 3
KINDS = {MEMORY: "memory", ARITHMETIC: "arithmetic", WAITING: "waiting"}
PHASE = 256
HEADER = 2  # rows of a block before its spans


class Block(TypedDict):
    """A block's spans, one after the other: their codes, and how many cycles each lasted."""

    sm: int
    start_ns: int
    codes: list[int]
    cycles: list[int]


def blocks_of(stamps: np.ndarray) -> list[Block]:
    """The blocks of stamps (blocks, events, 2) int64, neighbouring spans of a code as one; starts count from the first.

    Raises:
        ValueError: a span ended before it began, or is of no known kind.
    """
    first = int(stamps[:, 0, 1].min())
    blocks: list[Block] = []
    for number, block in enumerate(stamps):
        codes: list[int] = []
        cycles: list[int] = []
        ended = int(block[1, 1])
        for code, end in block[HEADER:].tolist():
            if code == 0:
                continue
            if code % PHASE not in KINDS or end < ended:
                raise ValueError(f"block {number} has a span of code {code} that ends {end - ended} cycles on")
            # neighbouring spans of one kind are one, which keeps timelines short
            if codes and codes[-1] == code:
                cycles[-1] += end - ended
            elif end > ended:
                codes.append(code)
                cycles.append(end - ended)
            ended = end
        blocks.append({"sm": int(block[0, 0]), "start_ns": int(block[0, 1]) - first, "codes": codes, "cycles": cycles})
    return blocks


def longest(stamps: np.ndarray) -> int:
    """Cycles of the block that ran longest."""
    # Unused rows are 0 and never the maximum.
    return int((stamps[:, HEADER:, 1].max(1) - stamps[:, 1, 1]).max())


def tick_ns(blocks: Sequence[Block]) -> int:
    """The step in which the clock that all share moves on, as the blocks' starts tell; 0 where all are the same."""
    # the clock moves on in steps: what all differences have in common is the step
    return math.gcd(*(block["start_ns"] for block in blocks))


def stamped(blocks: Sequence[Block], rate: float) -> Stamped:
    """The figures of blocks whose multiprocessors' clocks make `rate` cycles a microsecond."""
    spent = dict.fromkeys(KINDS, 0)
    for block in blocks:
        for code, cycles in zip(block["codes"], block["cycles"], strict=True):
            spent[code % PHASE] += cycles
    # Starts by the clock that all share, which ticks coarsely; lengths by the multiprocessor's own, to the cycle.
    runs = [(block["start_ns"] / 1e3, block["start_ns"] / 1e3 + sum(block["cycles"]) / rate) for block in blocks]
    _, covered = _together(runs)
    # A block that follows another on its multiprocessor may seem to begin before that one has ended, by a tick.
    tick = tick_ns(blocks) / 1e3
    side_by_side, _ = _together([(start, end - min(tick, (end - start) / 4)) for start, end in runs])
    return {
        "blocks": len(blocks),
        "side_by_side": side_by_side,
        "covered_us": covered,
        "memory_us": spent[MEMORY] / rate,
        "arithmetic_us": spent[ARITHMETIC] / rate,
        "waiting_us": spent[WAITING] / rate,
    }


def _together(runs: list[tuple[float, float]]) -> tuple[int, float]:
    """How many of some (start, end) overlap at most, and how long at least one lasts."""
    # At one moment, ends (-1) come before starts: blocks that follow one another do not overlap.
    moments = sorted([(start, 1) for start, _ in runs] + [(end, -1) for _, end in runs])
    running = most = 0
    covered = since = 0.0
    for moment, step in moments:
        if running == 0:
            since = moment
        running += step
        most = max(most, running)
        if running == 0:
            covered += moment - since
    return most, covered


def parts_of(found: Stamped, device_us: float, floor_us: float) -> Parts:
    """Share the device's time of a pass out by what its blocks did.

    What lies outside the blocks is `launches_us`, at least what an empty kernel takes (a kernel that writes stamps may
    be a little slower than one that does not). A block that has ended, or has not begun, while others run counts as
    waiting.
    """
    inside = min(found["covered_us"], device_us - floor_us)
    offered = found["side_by_side"] * found["covered_us"]
    worked = {kind: found[f"{kind}_us"] for kind in KINDS.values()}  # type: ignore[literal-required]
    # multiprocessors' time that no block used, up to as many as ran side by side
    worked["waiting"] += max(0.0, offered - sum(worked.values()))
    shares = {kind: spent / sum(worked.values()) for kind, spent in worked.items()}
    return {
        "launches_us": device_us - inside,
        "memory_us": inside * shares["memory"],
        "arithmetic_us": inside * shares["arithmetic"],
        "waiting_us": inside * shares["waiting"],
        "kernels_us": None,
    }
