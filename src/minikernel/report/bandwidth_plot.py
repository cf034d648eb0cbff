"""The contest in one picture: how near a copy the lab's best kernel and the best of the others come, by width.

A softmax that reads and writes each element once can come near the speed of a copy and no nearer, so the share of
a copy's bandwidth says how much of what is possible a kernel reaches, at any width and in any dtype.
"""

import textwrap
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from minikernel.measure.contest.standards import DISPATCHED, LEFT_OUT_ALL, OURS
from minikernel.report.roofline_plot import set_padding, words
from minilab import LabError
from minilab.device import short_name
from minilab.pages.style import FAINT, INK, use_style
from minilab.pages.translations import Translations

DIRECTIONS, DTYPES = ("forward", "backward"), ("float32", "bfloat16", "float16")
FRONT = {"ours": "#0072B2", "peer": "#D55E00"}  # blue and vermillion of the lab's palette
GREY = "#C9CDD1"
LEAST_TOP = 110.0  # % of a copy
APART = 2.0  # a width is labelled where it is more than so many times the one before
LETTER = 0.105  # inches of the title's letters


def shares(contest: dict) -> dict:
    """What the picture shows, as plain data: at each width the shape with the most rows.

    Args:
        contest: a device's `contest.json`, measured or restored.

    Returns:
        device, hardware name, date, restored, stale; `score`: at how many places the lab's best kernel is faster than
        the best of the others by more than the noise, and slower; for each direction and dtype a panel: widths, one
        line a kernel and the lines `ours` and `peer` of the fastest of each side (columns -> % of a copy).

    Raises:
        LabError: the contest has no row.
    """
    made = contest["provenance"]
    gpu = made["hardware"]["gpu"]
    rows = [row for row in contest["rows"] if row["kernel"] not in (DISPATCHED, LEFT_OUT_ALL)]
    if not rows:
        raise LabError(
            f"the contest of {made['device']} has no row, so there is nothing to draw; its left_out says why: measure "
            f"it again with `snakemake --forcerun contest results/24/{made['device']}/contest.json`."
        )
    held = {(row["direction"], row["dtype"]) for row in rows}
    panels = [_panel(rows, way, dtype) for way in DIRECTIONS for dtype in DTYPES if (way, dtype) in held]
    verdicts = [verdict for panel in panels for verdict in panel.pop("verdicts")]
    return {
        "device": made["device"],
        "name": short_name(gpu["name"] if gpu else made["hardware"]["cpu"]),
        "date": made["date"][:10],
        "restored": "restored" in contest,
        "stale": contest.get("restored", {}).get("stale", False),
        "score": {"count": len(verdicts), "ahead": verdicts.count("ahead"), "behind": verdicts.count("behind")},
        "panels": panels,
    }


def _panel(rows: list[dict], direction: str, dtype: str) -> dict:
    here = [row for row in rows if row["direction"] == direction and row["dtype"] == dtype]
    widths = sorted({row["cols"] for row in here})
    lines: dict[str, dict[int, float]] = {}
    front: dict[str, dict[int, float]] = {"ours": {}, "peer": {}}
    verdicts = []
    for cols in widths:
        most = max(row["rows"] for row in here if row["cols"] == cols)
        place = [row for row in here if (row["rows"], row["cols"]) == (most, cols)]
        sides = {
            "ours": [row for row in place if row["kernel"] in OURS],
            "peer": [row for row in place if row["kernel"] not in OURS],
        }
        best = {
            side: min(side_rows, key=lambda row: row["median_us"]) for side, side_rows in sides.items() if side_rows
        }
        for row in place:
            lines.setdefault(row["kernel"], {})[cols] = 100 * row["fraction_of_copy"]
        for side, row in best.items():
            front[side][cols] = 100 * row["fraction_of_copy"]
        if len(best) == len(sides):
            verdicts.append(_verdict(best["ours"], best["peer"], max(row["noise_floor"] for row in place)))
    return {"direction": direction, "dtype": dtype, "widths": widths, "lines": lines, **front, "verdicts": verdicts}


def _verdict(ours: dict, peer: dict, noise: float) -> str:
    ratio = ours["median_us"] / peer["median_us"]
    return "level" if abs(ratio - 1) <= noise else "ahead" if ratio < 1 else "behind"


def draw(shown: dict, png: str | Path, svg: str | Path, language: str = "en") -> None:
    """Draw what `shares` gives, a panel for each direction and dtype, and save it as PNG and SVG."""
    use_style()
    text = words(language)
    directions = list(dict.fromkeys(panel["direction"] for panel in shown["panels"]))
    dtypes = list(dict.fromkeys(panel["dtype"] for panel in shown["panels"]))
    figure, grid = plt.subplots(
        len(directions),
        len(dtypes),
        figsize=(4.1 * len(dtypes) + 0.6, 3.1 * len(directions) + 1.3),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    drawn = {(panel["direction"], panel["dtype"]): panel for panel in shown["panels"]}
    for axes, place in zip(grid.flat, [(way, dtype) for way in directions for dtype in dtypes], strict=True):
        if place in drawn:
            draw_panel(axes, drawn[place], shown["stale"], text)
        else:
            axes.set_axis_off()
    widths = sorted({cols for panel in shown["panels"] for cols in panel["widths"]})
    highest = max(max(line.values()) for panel in shown["panels"] for line in panel["lines"].values())
    grid[0, 0].set(xscale="log", xlim=(widths[0] / 1.3, widths[-1] * 1.3), ylim=(0, max(LEAST_TOP, 1.05 * highest)))
    labelled = widths[:1]
    for cols in widths[1:]:
        if cols > APART * labelled[-1]:
            labelled.append(cols)
    for axes in grid[-1]:
        axes.set_xticks(labelled, [text.number(cols, ",") for cols in labelled], rotation=35, ha="right")
        axes.set_xlabel(text("bandwidth.columns"))
    for axes in grid[:, 0]:
        axes.set_ylabel(text("bandwidth.axis"))
    grid[0, 0].minorticks_off()
    handles, names = grid[0, 0].get_legend_handles_labels()
    below: dict[str, Any] = {"loc": "outside lower center", "frameon": False, "fontsize": 12}
    legend = figure.legend(handles, names, ncols=2, **below)
    figure.draw_without_rendering()
    if legend.get_window_extent().width > figure.bbox.width:
        legend.remove()
        figure.legend(handles, names, ncols=1, **below)
    longest = int(figure.get_figwidth() / LETTER)
    title = "\n".join(textwrap.fill(line, longest) for line in _title(shown, text))
    figure.suptitle(title, x=0.01, ha="left", fontsize=13)
    set_padding(figure, w_pad=0.06, h_pad=0.08)
    figure.savefig(png, metadata={"Software": None})
    figure.savefig(svg, metadata={"Date": None})
    plt.close(figure)


def _title(shown: dict, text: Translations) -> list[str]:
    date = text("date.record" if shown["restored"] else "date.measured", date=shown["date"])
    date = text("date.stale", date=date) if shown["stale"] else date
    title = text("bandwidth.title", name=shown["name"], date=date)
    score = shown["score"]
    return [title, text("bandwidth.score", **score)] if score["count"] else [title]


def draw_panel(axes: Axes, panel: dict, stale: bool, text: Translations) -> None:
    """One direction and dtype: the lab's best and the best of the others in front, each kernel in grey behind them.

    Args:
        panel: as `shares` gives it.
        stale: marks are hollow.
        text: the picture's words.
    """
    direction = text(f"bandwidth.{panel['direction']}")
    axes.set_title(text("bandwidth.panel", direction=direction, dtype=panel["dtype"]), loc="left")
    axes.axhline(100, color=INK, linewidth=1.2, linestyle=":", label=text("bandwidth.copy"))
    axes.grid(axis="y", color=FAINT, linewidth=0.4, alpha=0.4)
    for number, line in enumerate(panel["lines"].values()):
        label = text("bandwidth.rest") if number == 0 else None
        axes.plot(panel["widths"], _heights(panel, line), color=GREY, linewidth=1.3, zorder=1.5, label=label)
    for side, paint in FRONT.items():
        axes.plot(
            panel["widths"],
            _heights(panel, panel[side]),
            marker="o" if side == "ours" else "s",
            color=paint,
            linewidth=2.4,
            markersize=5.5,
            markerfacecolor="white" if stale else paint,
            zorder=4 if side == "ours" else 3,
            label=text(f"bandwidth.{side}"),
        )


def _heights(panel: dict, line: dict[int, float]) -> list[float]:
    """A line's value at each width; a width at which there is none breaks the line."""
    return [line.get(cols, np.nan) for cols in panel["widths"]]
