"""Write results/26/timeline.html: one forward pass, every multiprocessor a row, beside the compiled model's kernels.

One file that asks nothing of the network. The page draws; what it draws is worked out here: which blocks ran on which
multiprocessor, and how much of each pass no kernel ran.
"""

from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from minikernel.measure.model.stamps import KINDS, PHASE
from minikernel.measure.training.names import GRAPH, ONE
from minikernel.report.model.views import shown
from minilab.pages.translations import Translations
from minilab.pages.web_page import asset, base_style, embedded_json, script_text

PACKAGE = "minikernel.report.model"
DIGITS = 3  # of a microsecond
LAUNCHES = {GRAPH: 3, ONE: None}  # of a training step


def timeline_page(made: dict, language: str = "en", training: dict | None = None) -> str:
    """The page of all passes that `model.json` keeps.

    Args:
        made: `model.json`.
        language: of the page.
        training: `training.json`, whose steps come behind the passes.
    """
    text, seen = Translations("minikernel.report", "timeline", language), shown(made)
    shapes = [shape_view(made, *shape) | {"label": "{} x {}".format(*shape)} for shape in kept(made)]
    if training:
        steps = [(step_view(training, *shape), *shape) for shape in kept(training)]
        shapes += [view | {"label": text("step", batch=batch, time=time)} for view, batch, time in steps]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["number"] = text.number
    data = {
        "shapes": shapes,
        "kinds": list(KINDS.values()),
        "phase": PHASE,
        "language": language,
        "text": text.under("program"),
    }
    return environment.from_string(asset(PACKAGE, "timeline.html")).render(
        text=text,
        language=language,
        seen=seen,
        shapes=shapes,
        kinds=[*KINDS.values(), "kernel", "gap"],
        base=base_style(),
        style=Markup(asset(PACKAGE, "timeline.css")),
        program=script_text(("minilab.pages", "theme.js"), (PACKAGE, "timeline.js")),
        data=embedded_json(data),
    )


def kept(made: dict) -> list[tuple[int, int]]:
    """The shapes of which passes are kept."""
    return list(dict.fromkeys((line["batch"], line["time"]) for line in made["timelines"]))


def shape_view(made: dict, batch: int, time: int) -> dict[str, Any]:
    """All passes of a shape, the compiler's first."""
    lines = [line for line in made["timelines"] if (line["batch"], line["time"]) == (batch, time)]
    rows = {
        row["rung"]: row
        for row in made["forward"]
        if (row["batch"], row["time"], row["dtype"]) == (batch, time, "float32")
    }
    strips = [strip(line, rows[line["rung"]], made["cycles_per_us"]) for line in lines]
    tick = max((line["tick_ns"] for line in lines if line["tick_ns"]), default=None)
    return {
        "batch": batch,
        "time": time,
        "strips": strips,
        "length": max(one["length"] for one in strips),
        "tick": tick,
    }


def step_view(made: dict, batch: int, time: int) -> dict[str, Any]:
    """A training step of every rung of the lab's at a shape, as `shape_view` has passes."""
    lines = [line for line in made["timelines"] if (line["batch"], line["time"]) == (batch, time)]
    us = {row["rung"]: row["us_per_step"] for row in made["steps"] if (row["batch"], row["time"]) == (batch, time)}
    rows = [{"device_us": us[line["rung"]], "kernels": LAUNCHES[line["rung"]]} for line in lines]
    strips = [strip(line, row, made["cycles_per_us"]) for line, row in zip(lines, rows, strict=True)]
    ticks = [line["tick_ns"] for line in lines if line["tick_ns"]]
    length = max(one["length"] for one in strips)
    return {"batch": batch, "time": time, "strips": strips, "length": length, "tick": max(ticks, default=None)}


def strip(line: dict, row: dict, rate: float) -> dict[str, Any]:
    """One pass as the page draws it.

    Returns:
        `rows`: each has its multiprocessor, None where it is not known, and `kernels` as [start, length, name] or
        `blocks` as [start, codes, lengths in nanoseconds]; else, microseconds from the start of the pass.
        `device`: the same pass by the device's clock, without stamps and profiler.
    """
    if line["blocks"]:
        rows = by_multiprocessor(line["blocks"], rate, (line["tick_ns"] or 0) / 1e3)
        run = [[start, start + sum(lengths) / 1e3] for one in rows for start, _, lengths in one["blocks"]]
    else:
        kernels = line["kernels"]
        spans = [[kernel["start_us"], kernel["duration_us"], kernel["name"]] for kernel in kernels]
        rows = [{"sm": None, "kernels": spans}]
        run = [[kernel["start_us"], kernel["start_us"] + kernel["duration_us"]] for kernel in kernels]
    taken = max(end for _, end in run)
    empty = gaps(run, taken)
    return {
        "rung": line["rung"],
        "rows": rows,
        "length": round(taken, DIGITS),
        "device": row["device_us"],
        "kernels": row["kernels"],
        "blocks": len(line["blocks"] or ()),
        "multiprocessors": len({one["sm"] for one in rows}) if line["blocks"] else None,
        "gaps": empty,
        "idle": sum(end - start for start, end in empty) / taken,
    }


def by_multiprocessor(blocks: Sequence[dict], rate: float, tick: float = 0.0) -> list[dict[str, Any]]:
    """A row for each multiprocessor, in their order, and further ones where several blocks ran on one side by side.

    A block that seems to begin less than a `tick` (microseconds) before another has ended follows it.
    """
    rows: list[dict[str, Any]] = []
    ends: dict[int, list[tuple[float, dict]]] = {}
    for block in sorted(blocks, key=lambda block: block["start_ns"]):
        start = block["start_ns"] / 1e3
        drawn = [start, block["codes"], [round(cycles / rate * 1e3) for cycles in block["cycles"]]]
        mine, end = ends.setdefault(block["sm"], []), start + sum(block["cycles"]) / rate
        place = next((place for place, (until, _) in enumerate(mine) if until <= start + tick), None)
        if place is None:
            rows.append(row := {"sm": block["sm"], "blocks": [drawn]})
            mine.append((end, row))
        else:
            row = mine[place][1]
            row["blocks"].append(drawn)
            mine[place] = (end, row)
    return sorted(rows, key=lambda row: row["sm"])


def gaps(run: list[list[float]], until: float) -> list[list[float]]:
    """When nothing ran, as [start, end], from 0 to the end of a pass."""
    found, covered = [], 0.0
    for start, end in sorted(run):
        if start > covered + 10**-DIGITS:
            found.append([round(covered, DIGITS), round(start, DIGITS)])
        covered = max(covered, end)
    if until > covered + 10**-DIGITS:
        found.append([round(covered, DIGITS), round(until, DIGITS)])
    return found
