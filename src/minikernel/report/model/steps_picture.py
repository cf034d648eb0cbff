"""The picture of the training: what a step takes on every rung, a panel for each shape; the loss against seconds."""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from minikernel.measure.training.names import COMPILE, CURVES, EAGER, GRAPH, GRAPH_OF_COMPILED, NUMPY, ONE, TORCH_CPU
from minikernel.report.model.picture import BAR, RUNGS, microseconds, save, words
from minikernel.report.model.training import places_of, training_view
from minilab.pages.style import INK, use_style
from minilab.pages.translations import Translations

# the hues of the forward pass's picture; a graph of the compiler's kernels is what reduce-overhead makes there
COLOURS = {
    EAGER: RUNGS["eager"], COMPILE: RUNGS["compile"], GRAPH_OF_COMPILED: RUNGS["compile-reduce-overhead"],
    GRAPH: RUNGS["graph"], ONE: RUNGS["one"], NUMPY: "#7F7F7F", TORCH_CPU: "#009E73",
}  # fmt: skip
PANEL_INCHES = 1.75
ROOM = 1.42  # times the longest bar, for the words behind it
CURVES_INCHES = 3.6


def draw(made: dict, ceilings: dict, png: str | Path, svg: str | Path, language: str = "en") -> None:
    """Draw `training.json`, with the floors that the GPU's `ceilings.json` gives, and save it as PNG and SVG."""
    use_style()
    text, seen = words(language), training_view(made) or {}
    places = places_of(made, ceilings)
    heights = [PANEL_INCHES] * len(places) + ([CURVES_INCHES] if made["curves"] else [])
    figure, panels = plt.subplots(
        len(heights), 1, figsize=(9, sum(heights) + 0.8), layout="constrained", squeeze=False, height_ratios=heights
    )
    date = text("date.record" if seen["restored"] else "date.measured", date=seen["date"])
    stale = bool(seen["restored"] and seen["restored"]["stale"])
    title = text("training.title", name=seen["name"], date=date) + (text("stale") if stale else "")
    figure.suptitle(title, x=0.02, ha="left", fontsize=13)
    for axes, place in zip(panels[: len(places), 0], places, strict=True):
        draw_place(axes, place, stale, text)
    if places:
        panels[len(places) - 1, 0].set_xlabel(text("training.axis"))
    if made["curves"]:
        draw_curves(panels[-1, 0], made["curves"], made["limit_nats"], stale, text)
    save(figure, png, svg)


def draw_place(axes: Axes, place: dict, stale: bool, text: Translations) -> None:
    """A bar for each rung with its time, and how many times as fast the one launch is; below, any floor."""
    floor, one = place["floor"], place["rows"].get(ONE)
    rows = [("", floor.us)] if floor else []
    rows += [(rung, row["us_per_step"]) for rung, row in reversed(place["rows"].items())]
    longest = max(us for _, us in rows)
    for height, (rung, us) in enumerate(rows):
        # hollow where the code has changed since, as in the other pictures; of a floor nothing has run
        hue, style = (COLOURS[rung], "-") if rung else (INK, ":")
        face = "white" if stale or not rung else hue
        axes.barh(height, us, BAR, color=face, edgecolor=hue, linewidth=1.2, linestyle=style)
        said = microseconds(us, text)
        if rung != ONE and one:
            said += "   " + text("training.times", times=text.number(us / one["us_per_step"], ".3g"))
        weight = "bold" if rung == ONE else "normal"
        axes.text(us + 0.012 * longest, height, said, va="center", fontsize=10.5, fontweight=weight, color=INK)
    axes.set_yticks(range(len(rows)), [rung or text("training.floor") for rung, _ in rows])
    axes.set_xlim(0, ROOM * longest)
    axes.set_title(text("shape", batch=place["batch"], time=place["time"]), loc="left", fontsize=11)
    axes.xaxis.set_major_formatter(lambda us, _: text.number(us, ",g"))


def draw_curves(axes: Axes, curves: list[dict], limit: float, stale: bool, text: Translations) -> None:
    """The held-out loss of everybody's training against its seconds; the dots of one that was cut short are white."""
    rows = {row["rung"]: row for row in curves}
    for rung in (rung for rung in CURVES if rung in rows):
        # the first point is before any step, where a logarithm of seconds has no place
        points = [point for point in rows[rung]["points"] if point["steps"]]
        axes.plot(
            [point["seconds"] for point in points], [point["nats"] for point in points], color=COLOURS[rung],
            marker="o", markersize=4.5, linewidth=2 if rung == ONE else 1.3, label=rung,
            markerfacecolor="white" if stale or not rows[rung]["complete"] else COLOURS[rung],
        )  # fmt: skip
    axes.axhline(limit, color=INK, linewidth=0.9, linestyle="--", label=text("training.limit"))
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda seconds, _: text.number(seconds, ",g"))
    axes.yaxis.set_major_formatter(lambda nats, _: text.number(nats, ".2f"))
    axes.set_xlabel(text("training.seconds"))
    axes.set_title(text("training.curves"), loc="left", fontsize=11)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=4, columnspacing=1.2, fontsize=9.5, frameon=False)
