"""What follows from the raw samples of `model.json`, computed again by the functions that made it."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from minikernel.measure.model import profiled, stamps
from minikernel.measure.model.bars import bars
from minikernel.measure.model.clocks import Clocked
from minikernel.measure.model.figures import forward_figures, median, writing_figures

PLACE = ("batch", "time", "dtype")


def model_contest(artefact: dict) -> dict:
    """All figures of `model.json` that its samples, its timelines and its sums of spans give."""
    # Only what follows from samples is computed; the rest of a row is what was asked for and what was seen.
    again: dict = {"empty_us": median(artefact["empty_samples_us"]), "forward": [], "generate": []}
    for together in _places(artefact["forward"], PLACE):
        clocked = {
            name: Clocked(taken, row["wall_samples_us"][name])
            for row in together
            for name, taken in row["samples_us"].items()
        }
        for row in together:
            figures = forward_figures(row["rung"], row["duplicated"], clocked, row["flop"])
            again["forward"].append({**figures, **_taken_apart(row, figures["device_us"], artefact, again["empty_us"])})
    for together in _places(artefact["generate"], ("sequences",)):
        texts, first = (
            {name: taken for row in together for name, taken in row[part].items()}
            for part in ("samples_us", "first_samples_us")
        )
        for row in together:
            sizes = row["sequences"], row["new_tokens"]
            again["generate"].append(writing_figures(row["rung"], row["duplicated"], *sizes, texts, first))
    rows = {
        part: [{**row, **figures} for row, figures in zip(artefact[part], again[part], strict=True)]
        for part in ("forward", "generate")
    }
    return {**again, "bars": bars({**artefact, **rows})}


def _taken_apart(row: dict, device_us: float, artefact: dict, empty_us: float) -> dict:
    """The parts of a row, and where its timeline is kept the figures that they follow from."""
    line = next((one for one in artefact["timelines"] if all(one[key] == row[key] for key in (*PLACE, "rung"))), None)
    # Timelines are kept at a few places only; elsewhere the sums that were made of them have to be taken as they are.
    stamped, kernels_us = row["stamped"], row["kernels_us"]
    if line and line["blocks"]:
        stamped = stamps.stamped(line["blocks"], artefact["cycles_per_us"])
    if line and line["kernels"]:
        kernels_us = sum(kernel["duration_us"] for kernel in line["kernels"])
    parts = profiled.parts_of(kernels_us, device_us) if kernels_us else None
    # what kernels wrote down themselves goes before what the profiler saw of them
    parts = stamps.parts_of(stamped, device_us, empty_us) if stamped else parts
    return {"stamped": stamped, "kernels_us": kernels_us, "parts": parts}


def _places(rows: Iterable[dict], keys: tuple[str, ...]) -> Iterator[list[dict]]:
    """Rows that were measured together; they follow one another."""
    for _, together in groupby(rows, key=lambda row: tuple(row[key] for key in keys)):
        yield list(together)
