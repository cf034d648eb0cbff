"""What follows from the raw samples of stage 26's `training.json`, and its bars; a second reading computes it again."""

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from minikernel.measure.model.stamps import parts_of, stamped
from minikernel.measure.noise import DUPLICATE
from minikernel.measure.training.names import (
    EAGER,
    EXCESS_PERCENT,
    GRAPH,
    GRAPH_OF_COMPILED,
    GRAPH_OVER_GRAPH,
    ONE,
    OVER_EAGER,
    OVER_GRAPH,
    WHOLE_SECONDS,
)

RATIOS = (
    (ONE, GRAPH_OF_COMPILED, OVER_GRAPH),
    (ONE, EAGER, OVER_EAGER),
    (GRAPH, GRAPH_OF_COMPILED, GRAPH_OVER_GRAPH),
)


def step_figures(rung: str, samples: dict[str, list[float]]) -> dict:
    """The figures of one rung at one shape, from the samples of all, the duplicate of `one` among them."""
    own = samples[rung]
    return {
        "us_per_step": float(np.median(own)),
        "p20_us": float(np.percentile(own, 20)),
        "p80_us": float(np.percentile(own, 80)),
        "noise_floor": apart(samples[DUPLICATE], samples[ONE]),
    }


def apart(again: Sequence[float], first: Sequence[float]) -> float:
    """How far the medians of two timings of the same thing lie apart, as a share of the first."""
    return abs(float(np.median(again)) / float(np.median(first)) - 1)


def excess_percent(held_out_nats: float, limit_nats: float) -> float:
    """How far a held-out loss lies above the limit."""
    return 100 * (held_out_nats / limit_nats - 1)


def fill_in(lines: list[dict], steps: list[dict], rate: float) -> list[dict]:
    """Timelines with what their blocks did, and how that shares out the time of a step without stamps.

    Args:
        steps: rows of `steps`, those of the timelines' shapes among them.
        rate: cycles of a multiprocessor's clock in a microsecond.
    """
    found = []
    for line in lines:
        of = {name: line[name] for name in ("rung", "batch", "time")}
        us = next(row["us_per_step"] for row in steps if of.items() <= row.items())
        figures = stamped(line["blocks"], rate)
        # no launch of a step's is empty: `one` has none of its own, and `graph`'s begin while others run
        found.append({**line, "stamped": figures, "parts": parts_of(figures, us, 0.0)})
    return found


def bars(steps: list[dict], whole: list[dict]) -> list[dict]:
    """What was asked, each with its value; a time or an excess is at most the bar, a ratio at least."""
    found = []
    for (batch, time), rows in _shapes(steps):
        us = {row["rung"]: row["us_per_step"] for row in rows}
        for rung, peer, bar in RATIOS:
            value = us[peer] / us[rung] if peer in us and rung in us else None
            place = {"rung": rung, "batch": batch, "time": time, "peer": peer}
            met = value is not None and value >= bar
            found.append({"what": "step", **place, "value": value, "bar": bar, "met": met})
    for what, name, bar in (("seconds", "seconds", WHOLE_SECONDS), ("excess", "excess_percent", EXCESS_PERCENT)):
        # of all seeds the worst
        worst = max((row[name] for row in whole), default=None)
        nowhere = {"rung": ONE, "batch": None, "time": None, "peer": None}
        met = worst is not None and worst <= bar
        found.append({"what": what, **nowhere, "value": worst, "bar": bar, "met": met})
    return found


def training_contest(artefact: dict) -> dict:
    """All figures of `training.json` that its samples and its losses give."""
    steps = []
    for _, rows in _shapes(artefact["steps"]):
        samples = {name: taken for row in rows for name, taken in row["samples_us"].items()}
        steps += [step_figures(row["rung"], samples) for row in rows]
    whole = [
        {"excess_percent": excess_percent(row["held_out_nats"], artefact["limit_nats"])} for row in artefact["whole"]
    ]
    again = [
        [{**row, **figures} for row, figures in zip(artefact[part], found, strict=True)]
        for part, found in (("steps", steps), ("whole", whole))
    ]
    lines = fill_in(artefact["timelines"], again[0], artefact["cycles_per_us"])
    figures = [{"stamped": line["stamped"], "parts": line["parts"]} for line in lines]
    return {"steps": steps, "timelines": figures, "whole": whole, "bars": bars(*again)}


def _shapes(steps: list[dict]) -> Iterator[tuple[tuple[int, int], list[dict]]]:
    """Rows that were measured together, by their shape; they follow one another."""
    for shape, rows in groupby(steps, key=lambda row: (row["batch"], row["time"])):
        yield shape, list(rows)
