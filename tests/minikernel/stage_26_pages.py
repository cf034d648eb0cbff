"""Stage 26's page with the artefact that it is written from, and what follows from it."""

from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import model_artefact
import training_artefact
from numbers_of_a_page import Source
from recorded_pages import RECORD, Page, recorded

from minikernel.report.model.stage_26 import report_26, studies
from minikernel.report.model.step_floor import floors
from minikernel.report.model.views import floor

AT_MOST = ("contract", "loss", "token")


def report_26_page() -> Page:
    """The report of the record's model.json; of one that is made up, as long as none has been recorded."""
    made = recorded("26/model.json") if Path(RECORD, "26/model.json").exists() else model_artefact.model_artefact()
    places = [floor(made, *shape) for shape in made["shapes"]]
    trained = Path(RECORD, "26/training.json").exists()
    training = recorded("26/training.json") if trained else training_artefact.training_artefact()
    ceilings = recorded("24/ceilings.json")
    argued = [asdict(one) | {"us": one.us} for one in floors(training, ceilings).values()]
    sources = [
        Source(made, derived=derived(made)),
        Source([studies(), [{"us": one} for one in places if one]]),
        Source(training, derived=derived_of_training(training)),
        Source(argued, derived={"times the floor": of_floors(training, ceilings)}),
    ]
    return Page(lambda language: report_26(made, language, training, ceilings), sources, ("16 bytes",))


def of_floors(made: dict, ceilings: dict) -> list[float]:
    """How many times its floor each step of the one launch takes."""
    argued = floors(made, ceilings)
    return [row["us_per_step"] / argued[row["batch"], row["time"]].us for row in made["steps"] if row["rung"] == "one"]


def derived_of_training(made: dict) -> dict:
    """What follows from the times of a step on each rung, and from where each seed ends."""
    us = {(row["batch"], row["time"], row["rung"]): row["us_per_step"] for row in made["steps"]}
    peers = [key for key in us if key[2] in ("eager", "graph-of-compiled-step")]
    over = [bar["value"] / bar["bar"] for bar in made["bars"] if not bar["met"] and bar["value"] is not None]
    return {
        "times as fast": [us[peer] / us[(*peer[:2], "one")] for peer in peers],
        "graph and one": [us[a] / us[b] for a in us for b in us if a[:2] == b[:2] and {a[2], b[2]} == {"graph", "one"}],
        "steps, seconds": [value * 1e-6 for value in us.values()],
        "above the grammar's entropy": [row["held_out_nats"] / made["limit_nats"] - 1 for row in made["whole"]],
        "missed by": [abs(1 - one) for one in over],
        "bars, as shares": [bar["bar"] / 100 for bar in made["bars"] if bar["what"] == "excess"],
    }


def derived(made: dict) -> dict:
    """What follows from the times of all rungs at each shape."""
    at = {(row["batch"], row["time"], row["dtype"], row["rung"]): row for row in made["forward"]}
    ratios, floors, gaps, factors, losses, between = [], [], [], [], [], []
    for batch, time in map(tuple, made["shapes"]):
        here = {rung: row for (*place, dtype, rung), row in at.items() if place == [batch, time] and dtype == "float32"}
        compiled = [row for rung, row in here.items() if rung.startswith("compile")]
        best = min(compiled, key=lambda row: row["device_us"], default=None)
        factors += [one["device_us"] / other["device_us"] for one, other in pairwise(here.values())]
        for slow, fast in ((best, here.get("one")), (best, here.get("graph")), (here.get("graph"), here.get("one"))):
            if slow and fast:
                ratios += [slow["device_us"] / fast["device_us"], fast["device_us"] / slow["device_us"]]
        if "one" in here and floor(made, batch, time):
            floors.append(here["one"]["device_us"] / floor(made, batch, time))
        if "one" in here and here["one"]["parts"]:
            parts = here["one"]["parts"]
            between.append((parts["launches_us"] + parts["waiting_us"]) / here["one"]["device_us"])
        if best and best["parts"]:
            gaps.append(best["parts"]["launches_us"] / best["device_us"])
        coarse = at.get((batch, time, "bfloat16", "one"))
        if coarse and coarse["loss"] and "eager" in here:
            losses.append(coarse["loss"] / here["eager"]["loss"] - 1)
    missed = [bar for bar in made["bars"] if not bar["met"] and bar["value"] is not None]
    return {
        "times as fast": ratios,
        "times as fast as the one before": factors,
        "times the floor": floors,
        "no kernel runs": gaps,
        "launches and waiting": between,
        "loss above float32's": losses,
        "missed by": [
            bar["value"] / bar["bar"] - 1 if bar["what"] in AT_MOST else 1 - bar["value"] / bar["bar"] for bar in missed
        ],
    }


def concept_derived(facts: dict) -> dict:
    """What the concept page says besides: waits in microseconds, and ratios of recorded times."""
    costs = facts["model"]["costs"]
    waits = [clocks for name, clocks in costs.items() if name.endswith("_clocks") and not isinstance(clocks, dict)]
    waits += costs["exchange_clocks"].values()
    ratios = [one[name] for one in facts["model"]["places"] for name in ("over_best", "over_graph") if one[name]]
    rows = [
        one[name]["device_us"] for one in facts["model"]["places"] for name in ("best", "graph", "one") if one[name]
    ]
    return {
        "launches, seconds": [costs[name] * 1e-6 for name in costs if name.endswith("launch_us")],
        "waits, clocks and seconds": [*waits, *(clocks / costs["clocks_per_us"] * 1e-6 for clocks in waits)],
        "bytes a clock": [costs["neighbour_bytes_per_clock"], costs["cache_bytes_per_clock"]],
        "recorded": [
            *ratios,
            *(us * 1e-6 for us in rows),
            *(n for one in facts["model"]["places"] for n in one["place"].shape),
        ],
    }


def concept_of_a_step_derived(facts: dict) -> dict:
    """What the concept page on a training step says of a step on each rung, in seconds, and of their ratios."""
    places = facts["training"]["places"]
    us = [{rung: row["us_per_step"] for rung, row in place["rows"].items()} for place in places]
    return {
        "steps, seconds": [value * 1e-6 for one in us for value in one.values()],
        "times one launch": [value / one["one"] for one in us for value in one.values()],
        "shapes": [size for place in places for size in (place["batch"], place["time"])],
    }
