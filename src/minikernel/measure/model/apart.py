"""Where the time of a forward pass goes: what the lab's kernels write down, what the profiler sees of the others."""

from collections.abc import Callable
from functools import partial

from minikernel.measure.model import profiled, rungs
from minikernel.measure.model.bars import best_compiled
from minikernel.measure.model.names import COMPILE, GRAPH, ONE, OURS
from minikernel.measure.model.place import Timed
from minikernel.measure.model.stamps import Block, blocks_of, longest, parts_of, stamped, tick_ns
from minikernel.reasons import of_exception

PASSES = 5  # of which the one in the middle is kept


def take_apart(timed: Timed, result: dict, shapes: list[list[int]]) -> None:
    """Fill in what the device's time of each row at a place consists of, and keep timelines at some shapes in float32.

    What cannot be taken apart is an entry of `left_out`.

    Args:
        timed: the place.
        result: `model.json` as it is made; `timelines` and `left_out` grow.
        shapes: [sequences, tokens] at which timelines are kept.
    """
    place, rows = timed.place, timed.rows
    keep = place["dtype"] == "float32" and [place["batch"], place["time"]] in shapes
    at = {(place["batch"], place["time"], place["dtype"], rung): row for rung, row in rows.items()}
    # the rung that the bars are held against, whichever it is at this place
    best = best_compiled(at, (place["batch"], place["time"]), place["dtype"])
    shown = {GRAPH, ONE, COMPILE, best["rung"] if best else ""}
    for rung, row in rows.items():
        line: dict = {"rung": rung, **place, "tick_ns": None, "blocks": None, "kernels": None}
        try:
            if place["dtype"] == "float32":
                line["kernels"] = kernels = profiled.kernels_of(pass_of(timed, rung))
                row["kernels"] = len(kernels)
                row["kernels_us"] = spent = sum(kernel["duration_us"] for kernel in kernels)
                # the profiler's view first; the lab's own kernels know more of themselves, below
                row["parts"] = profiled.parts_of(spent, row["device_us"])
            if rung in OURS:
                line["blocks"] = blocks = stamped_pass(timed, rung)
                line["tick_ns"] = tick_ns(blocks)
                row["stamped"] = figures = stamped(blocks, result["cycles_per_us"])
                row["parts"] = parts_of(figures, row["device_us"], result["empty_us"])
        except Exception as failure:  # a kernel without stamps, a profiler that sees nothing
            result["left_out"].append({**place, "rung": rung, "part": "timeline", "reason": of_exception(failure)})
            continue
        if keep and rung in shown:
            result["timelines"].append(line)


def pass_of(timed: Timed, rung: str) -> Callable[[], object]:
    """One forward pass of a rung, where there is a CUDA graph of the lab's without the copy of the ids into it."""
    forward = timed.forwards[rung]
    return forward.replay if isinstance(forward, rungs.Replayed) else partial(forward, timed.ids)


def stamped_pass(timed: Timed, rung: str) -> list[Block]:
    """The blocks of one pass of one of the lab's rungs: of several, of the one in the middle by its longest block."""
    passes = [rungs.stamps(rung, timed.model, timed.ids) for _ in range(PASSES)]
    # the middle one of five: neither one that the machine disturbed nor a lucky one
    return blocks_of(sorted(passes, key=longest)[PASSES // 2])
