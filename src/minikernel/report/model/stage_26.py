"""Write stage 26's report: every figure from `model.json`, every sentence decided by the figures.

This module works out what there is to say; the template `report_26` and its twin say it, each figure on one.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import yaml

from minikernel.measure.model.names import EAGER, GRAPH, MAX_AUTOTUNE, ONE
from minikernel.reasons import in_words
from minikernel.report.model.findings import findings
from minikernel.report.model.training import training_view
from minikernel.report.model.views import Place, Shown, shown
from minilab.pages import templates
from minilab.pages.translations import Translations
from minilab.records.words import worded

HERE = Path(__file__).parent
UNTUNED = "compile-reduce-overhead"  # does what max-autotune does, but for the trying
AT_MOST = ("contract", "loss", "token")  # bars from above; of the others more is better
UNEVEN = 1.5  # times as many kernels of eager at one shape as at another, from which on the page says so
SHOWN_DIGITS = 12  # of a checkpoint's digest


def report_26(made: dict, language: str = "en", training: dict | None = None, ceilings: dict | None = None) -> str:
    """Write `results/26/README.md`, in Markdown.

    Args:
        made: `model.json`.
        language: of the page.
        training: `training.json`; without it the page has no such part.
        ceilings: `ceilings.json` of the GPU of `training`.
    """
    text = Translations("minikernel.report", "model", language)
    words, values = filters(text), views(made)
    found = findings(values["places"], values["name"], values["timeline"])
    values["training"] = training_view(training, ceilings)
    values["findings"] = templates.sentences("minikernel.report", "findings_26", language, found, filters=words)
    page = templates.render("minikernel.report", "report_26", language, {"text": text, **values}, filters=words)
    return re.sub(r"\n{3,}", "\n\n", page).rstrip() + "\n"  # parts that are absent leave their blank lines behind


def filters(text: Translations) -> dict[str, Callable]:
    """Name of a filter -> what it makes of a value, in the language of `text`."""
    number = text.number
    return {
        "number": number,
        "us": lambda us: number(us, ",.3g" if us < 999.5 else ",.0f"),
        "shape": lambda place: text("shape", batch=place.batch, time=place.time),
        "reason": lambda reason: in_words(reason, text.language),
        "stale_reason": lambda reason: worded(reason, text.language),
    }


def views(made: dict) -> dict:
    """What the page asks for, by name."""
    seen = shown(made)
    return {
        "name": seen.name,
        "date": seen.date,
        "restored": seen.restored,
        "empty_us": seen.empty_us,
        "places": [place_view(place) for place in seen.places],
        "steps": steps(seen.places[0]) if seen.places else [],
        "rungs": list(dict.fromkeys(rung for place in seen.places for rung in place.rows)),
        "parts": list(parts(seen)),
        "noise": noise(made),
        "uneven": uneven(seen),
        "bars": [bar_view(bar, noise_of(bar, made)) for bar in made["bars"]],
        "losses": list(losses(seen)),
        "generate": made["generate"],
        "left_out": made["left_out"],
        "studies": studies(),
        "autotune_slower": list(autotune_slower(seen)),
        "missed_calls": list(missed_calls(seen, made["bars"])),
        "checkpoint": made["weights_sha256"][:SHOWN_DIGITS],
        "timeline": bool(made["timelines"]),
    }


def place_view(place: Place) -> dict:
    """What there is to say of one shape: the rungs, and the one kernel beside the best compiled mode and the graph."""
    one, graph, best = place.rows.get(ONE), place.rows.get(GRAPH), place.best
    return {
        "place": place,
        "rows": place.rows,
        "best": best,
        "one": one,
        "graph": graph,
        "over_best": best["device_us"] / one["device_us"] if one and best else None,
        "graph_over_best": best["device_us"] / graph["device_us"] if graph and best else None,
        "over_graph": graph["device_us"] / one["device_us"] if one and graph else None,
        "within_noise": bool(one and graph and apart(graph, one) <= one["noise_floor"]),
        "over_floor": one["device_us"] / place.floor_us if one and place.floor_us else None,
        "between": (one["parts"]["launches_us"] + (one["parts"]["waiting_us"] or 0)) / one["device_us"]
        if one and one["parts"]
        else None,
        "gaps": best["parts"]["launches_us"] / best["device_us"] if best and best["parts"] else None,
    }


def autotune_slower(seen: Shown) -> Iterator[dict]:
    """Where max-autotune, which tries several kernels, is slower than the mode that does all else alike."""
    for place in seen.places:
        tuned, plain = place.rows.get(MAX_AUTOTUNE), place.rows.get(UNTUNED)
        if tuned and plain and tuned["device_us"] / plain["device_us"] - 1 > tuned["noise_floor"]:
            yield {"place": place, "us": tuned["device_us"], "than_us": plain["device_us"]}


def missed_calls(seen: Shown, bars: list[dict]) -> Iterator[dict]:
    """Where the one kernel's call misses its bar: the call's time, and the device's part of it."""
    missed = [(bar["batch"], bar["time"]) for bar in bars if bar["what"] == "wall" and not bar["met"]]
    for place in seen.places:
        if (place.batch, place.time) in missed and ONE in place.rows:
            row = place.rows[ONE]
            yield {"place": place, "wall_us": row["wall_us"], "device_us": row["device_us"]}


def apart(row: dict, other: dict) -> float:
    """How far one row's time lies from another's, as a share."""
    return abs(row["device_us"] / other["device_us"] - 1)


def steps(place: Place) -> list[dict]:
    """Every rung of a shape from the bottom, each with how many times as fast as the one before it is."""
    rows = list(place.rows.values())
    return [
        {
            "row": row,
            "factor": before and before["device_us"] / row["device_us"],
            "within_noise": before is not None and apart(before, row) <= row["noise_floor"],
        }
        for before, row in zip([None, *rows], rows, strict=False)
    ]


def parts(seen: Shown) -> Iterator[dict]:
    """Of each of the lab's rungs at each shape, what its time consists of, as microseconds."""
    for place in seen.places:
        for name, row in place.ours:
            if row["parts"]:
                yield {"place": place, "rung": name, "device_us": row["device_us"], **row["parts"]}


def noise(made: dict) -> dict:
    """How far two timings of the one rung that was timed twice lie apart, at most: on the device, a call, writing.

    Returns:
        `rung`; `device` and `wall` as shares, over all shapes in float32; `writing`: sequences -> share.
    """
    rows = [row for row in made["forward"] if row["dtype"] == "float32"]
    found = {key: max((row[key] for row in rows), default=0.0) for key in ("noise_floor", "wall_noise_floor")}
    twice = next((row["duplicated"] for row in rows), ONE)
    writing = {row["sequences"]: row["noise_floor"] for row in made["generate"]}
    return {"rung": twice, "device": found["noise_floor"], "wall": found["wall_noise_floor"], "writing": writing}


def uneven(seen: Shown) -> list[dict]:
    """Eager's kernels at each shape; nothing where their number hardly depends on it."""
    found = [
        {"place": place, "kernels": place.rows[EAGER]["kernels"]}
        for place in seen.places
        if EAGER in place.rows and place.rows[EAGER]["kernels"]
    ]
    counts = [one["kernels"] for one in found]
    return found if counts and max(counts) > UNEVEN * min(counts) else []


def noise_of(bar: dict, made: dict) -> float:
    """How far two timings of the one kernel lie apart at a bar, as a share; 0 where the bar is of no time."""
    if bar["what"] in ("token", "token_times"):
        rows = [row for row in made["generate"] if row["sequences"] == bar["sequences"]]
        return next((row["noise_floor"] for row in rows if row["rung"] == ONE), 0.0)
    clock = {"forward": "noise_floor", "wall": "wall_noise_floor"}.get(bar["what"])
    at = [row for row in made["forward"] if all(row[key] == bar[key] for key in ("batch", "time", "dtype"))]
    return next((row[clock] for row in at if clock and row["rung"] == ONE), 0.0)


def bar_view(bar: dict, noise: float = 0.0) -> dict:
    """A bar, by what share it is missed (None: it is met, or nothing was measured), and whether noise could turn it."""
    if bar["value"] is None:
        return {**bar, "missed_by": None}
    over = bar["value"] / bar["bar"]
    short = over - 1 if bar["what"] in AT_MOST else 1 - over
    barely = bar["met"] and (over * (1 + noise) > 1 if bar["what"] in AT_MOST else over / (1 + noise) < 1)
    return {**bar, "missed_by": None if bar["met"] else short, "within_noise": bar["within_noise"] or barely}


def losses(seen: Shown) -> Iterator[dict]:
    """At each shape the loss of the one kernel in bfloat16, beside eager's in both dtypes."""
    for place in seen.places:
        coarse, exact = place.coarse.get(ONE), place.rows.get(EAGER)
        if coarse and exact and coarse["loss"] and exact["loss"]:
            eager = place.coarse.get(EAGER)
            yield {
                "place": place,
                "loss": coarse["loss"],
                "exact": exact["loss"],
                "eager": eager["loss"] if eager else None,
                "excess": coarse["loss"] / exact["loss"] - 1,
                "device_us": coarse["device_us"],
            }


@cache
def studies() -> dict[str, dict]:
    """What others have measured, by what they compared with: against, least and most."""
    found = yaml.safe_load((HERE / "data/studies.yaml").read_text())
    engines = [study for study in found if study["against"] == "engines"]
    return {"engines": engines, "graphs": next(study for study in found if study["against"] == "graphs")}
