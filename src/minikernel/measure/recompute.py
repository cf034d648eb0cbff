"""What follows from the raw samples of stage 24's artefacts, computed again by the functions that made it.

Each function takes an artefact and returns, in the artefact's own form, the figures that its samples give; where they
differ, somebody has changed one of the two. `minilab.records.verify` compares.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

import torch

from minikernel.measure import bench
from minikernel.measure.beside import ORDER, figures
from minikernel.measure.ceilings import Rate, ceilings_of
from minikernel.measure.choice import fastest
from minikernel.measure.contest import head_contest, host_cost
from minikernel.measure.contest.head import head_standards
from minikernel.measure.contest.standards import standards
from minikernel.measure.cpu.bench import above_roof
from minikernel.measure.noise import floors
from minikernel.measure.rows import SoftmaxFigures
from minikernel.measure.timing import Timing, timings_of

SHAPE = ("rows", "cols", "dtype")


def ceilings(artefact: dict) -> dict:
    """The ceilings, each from the bytes or operations of a launch and the launches' times; and the noise floors."""
    rates = {name: [Rate(**rate) for rate in measured] for name, measured in artefact["samples"].items()}
    again: dict = ceilings_of(rates)
    # records of before jobs came beside what is timed have none
    if noise := artefact.get("noise"):
        again["noise"] = {"rows": [{name: figures(row[name]) for name in ORDER} for row in noise["rows"]]}
    return again


def autotune(artefact: dict) -> dict:
    """Every configuration's median, and which of them is chosen at each shape."""
    tried = [
        {**row, "median_us": None if row["error"] else Timing(row["samples_us"]).median_us} for row in artefact["tried"]
    ]
    places = {tuple(choice[key] for key in SHAPE): choice for choice in artefact["choices"]}
    found = {place: [row for row in tried if tuple(row[key] for key in SHAPE) == place] for place in places}
    choices = [
        fastest(artefact["kernel"], found[place], choice["rival_samples_us"]) for place, choice in places.items()
    ]
    return {"tried": tried, "choices": choices}


def bench_rows(artefact: dict) -> dict:
    """The rows of `bench.json`, each from its own launches, its reference's and its copy's."""
    again = []
    # A GPU's bench is one job a kernel: its row has its own reference and copy beside it.
    for row in artefact["rows"]:
        timings = timings_of([row])
        # The functions that made the figures make them again: a second formula could be wrong by itself.
        figures = _softmax_row(row, timings, Rate(**row["ceiling"]).giga_per_s)
        if "duplicated" in row:  # a CPU's
            figures["above_roof"] = above_roof(row["kernel"], timings)
        duplicated = row.get("duplicated", row["kernel"])
        again.append({**figures, "noise_floor": floors(timings, duplicated)["noise_floor"]})
    return {"rows": again}


def contest(artefact: dict) -> dict:
    """All rows of the contest, and the standards that are held against them."""
    copied = Rate(**artefact["ceiling"]).giga_per_s
    rows = [
        {
            **_softmax_row(row, timings, copied),
            **floors(timings, row["duplicated"]),
            "copy_graph_us": timings["copy"].graph_us,
        }
        for row, timings in _with_timings(artefact["rows"], ("direction", *SHAPE))
    ]
    head = _heads(artefact["head"], copied)
    # Host costs of one place share a duplicate, which lies in the reference's row.
    host = []
    for _, together in _places(artefact["host"], (*SHAPE, "requires_grad")):
        samples = {name: taken for row in together for name, taken in row["samples_us"].items()}
        host += [host_cost.spread(row["kernel"], samples) for row in together]
    return {"copy_gb_per_s": copied, "rows": rows, "head": head, "host": host, "standards": standards(artefact)}


def head(artefact: dict) -> dict:
    """All rows of the LM head, and the standards that are held against them."""
    copied = Rate(**artefact["ceiling"]).giga_per_s
    rows = _heads(artefact["rows"], copied)
    return {"copy_gb_per_s": copied, "rows": rows, "standards": head_standards(artefact)}


def _heads(rows: list[dict], copied: float) -> list[dict]:
    return [
        {
            **head_contest.row_of(row["kernel"], row["fused"], row["rows"], timings[row["kernel"]], copied),
            **floors(timings, row["duplicated"]),
        }
        for row, timings in _with_timings(rows, SHAPE)
    ]


def _softmax_row(row: dict, timings: dict[str, Timing], copied: float) -> SoftmaxFigures:
    shape, dtype = [row["rows"], row["cols"]], getattr(torch, row["dtype"])
    return bench.row_of(row["kernel"], row["direction"], shape, dtype, timings, copied)


def _with_timings(rows: Iterable[dict], keys: tuple[str, ...]) -> Iterator[tuple[dict, dict[str, Timing]]]:
    """Each row with the timings of all that ran beside it."""
    for _, together in _places(rows, keys):
        timings = timings_of(together)
        yield from ((row, timings) for row in together)


def _places(rows: Iterable[dict], keys: tuple[str, ...]) -> Iterator[tuple[tuple, list[dict]]]:
    """Rows that were measured together; they follow one another."""
    # not sorted: the rows are in the order of measuring, and two runs of one place would be two
    for place, together in groupby(rows, key=lambda row: tuple(row[key] for key in keys)):
        yield place, list(together)
