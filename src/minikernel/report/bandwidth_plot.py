"""The contest in one picture: how near a copy each kernel comes, by the width of the row.

A softmax that reads and writes each element once can come near the speed of a copy and no nearer, so the share of
a copy's bandwidth says how much of what is possible a kernel reaches, at any width and in any dtype.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from minikernel.measure.standards import COPY, DISPATCHED, LEFT_OUT_ALL, OURS
from minikernel.report.roofline_plot import set_padding, spread, words
from minilab import LabError
from minilab.device import short_name
from minilab.style import FAINT, INK, colour, use_style
from minilab.translations import Translations

DIRECTIONS, DTYPES = ("forward", "backward"), ("float32", "bfloat16", "float16")
PEERS = {"liger": "#000000", "quack": "#B59F00"}  # colours that the lab's palette leaves free
BEND, BEND_HEIGHT, TOP = 80.0, 0.36, 107.0  # %: the axis is stretched above the bend, where the good ones are
TICKS = (0, 20, 40, 60, 80, 85, 90, 95, 100, 105)
LABEL_GAP = 0.062  # of the axis' height, between two labels of the stack


def shares(contest: dict) -> dict:
    """What the picture shows, as plain data: at each width the shape with the most rows.

    Args:
        contest: a device's `contest.json`, measured or restored.

    Returns:
        device, hardware name, date, restored, stale, and for each direction and dtype a panel: widths, one line a
        kernel (columns -> share of a copy in per cent), columns -> bar in per cent, and who was left out at which
        width.

    Raises:
        LabError: the contest has no row.
    """
    made = contest["provenance"]
    gpu = made["hardware"]["gpu"]
    rows = _drawn(contest["rows"])
    if not rows:
        raise LabError(
            f"the contest of {made['device']} has no row, so there is nothing to draw; its left_out says why: measure "
            f"it again with `snakemake --forcerun contest results/24/{made['device']}/contest.json`."
        )
    kinds = [(way, dtype) for way in DIRECTIONS for dtype in DTYPES]
    held = {(row["direction"], row["dtype"]) for row in rows}
    return {
        "device": made["device"],
        "name": short_name(gpu["name"] if gpu else made["hardware"]["cpu"]),
        "date": made["date"][:10],
        "restored": "restored" in contest,
        "stale": contest.get("restored", {}).get("stale", False),
        "panels": [_panel(contest, *pair) for pair in kinds if pair in held],
    }


def _panel(contest: dict, direction: str, dtype: str) -> dict:
    def here(row: dict) -> bool:
        return row["direction"] == direction and row["dtype"] == dtype

    rows = [row for row in _drawn(contest["rows"]) if here(row)]
    most: dict[int, int] = {}
    for row in rows:
        most[row["cols"]] = max(row["rows"], most.get(row["cols"], 0))
    lines: dict[str, dict] = {}
    for row in sorted(rows, key=lambda row: row["cols"]):
        if row["rows"] == most[row["cols"]]:
            line = lines.setdefault(row["kernel"], {"kernel": row["kernel"], "percent": {}})
            line["percent"][row["cols"]] = 100 * row["fraction_of_copy"]
    return {
        "direction": direction,
        "dtype": dtype,
        "widths": sorted(most),
        "rows": most,
        "lines": list(lines.values()),
        "bars": {
            entry["cols"]: 100 * entry["bar"]
            for entry in contest["standards"]
            if here(entry)
            and entry["peer"] == COPY
            and entry["timing"] == "events"
            and entry["rows"] == most[entry["cols"]]
        },
        "left_out": [
            {"kernel": entry["kernel"], "cols": entry["cols"]}
            for entry in _drawn(contest["left_out"])
            if here(entry) and entry["part"] == "softmax" and entry["rows"] == most.get(entry["cols"])
        ],
    }


def _drawn(rows: list[dict]) -> list[dict]:
    """Without the dispatched softmax, which is one of ours a second time."""
    return [row for row in rows if row["kernel"] not in (DISPATCHED, LEFT_OUT_ALL)]


def draw(shown: dict, png: str | Path, svg: str | Path, language: str = "en") -> None:
    """Draw what `shares` gives, a panel for each direction and dtype, and save it as PNG and SVG."""
    use_style()
    text = words(language)
    directions = list(dict.fromkeys(panel["direction"] for panel in shown["panels"]))
    dtypes = list(dict.fromkeys(panel["dtype"] for panel in shown["panels"]))
    figure, axes = plt.subplots(
        len(directions),
        len(dtypes),
        figsize=(6.6 * len(dtypes), 4.7 * len(directions) + 0.9),
        squeeze=False,
        layout="constrained",
    )
    for panel in shown["panels"]:
        at = axes[directions.index(panel["direction"]), dtypes.index(panel["dtype"])]
        draw_panel(at, panel, shown["stale"], panel["dtype"] == dtypes[0], text)
    date = text("date.record" if shown["restored"] else "date.measured", date=shown["date"])
    date = text("date.stale", date=date) if shown["stale"] else date
    title = f"{text('bandwidth.title', name=shown['name'], date=date)}\n{text('bandwidth.key')}"
    figure.suptitle(title, x=0.01, ha="left", fontsize=13)
    set_padding(figure, w_pad=0.1, h_pad=0.12)
    figure.savefig(png, metadata={"Software": None})
    figure.savefig(svg, metadata={"Date": None})
    plt.close(figure)


def draw_panel(axes: Axes, panel: dict, stale: bool, first: bool, text: Translations) -> None:
    """One direction and dtype: a line a kernel, its name at its end.

    Args:
        panel: as `shares` gives it.
        stale: marks are hollow.
        first: the panel is its row's first and has the axis' name.
        text: the picture's words.
    """
    widths = panel["widths"]
    axes.set_xscale("log")
    axes.set_yscale("function", functions=(stretched, unstretched))
    axes.set(xlim=(widths[0] / 1.55, widths[-1] * 1.12), ylim=(0, TOP))
    axes.set_yticks(TICKS)
    axes.set_xticks(
        widths, [text.number(cols, ",") for cols in widths], rotation=40, ha="right", rotation_mode="anchor"
    )
    axes.minorticks_off()
    axes.grid(axis="x", color=FAINT, linewidth=0.4, alpha=0.5)
    axes.axhline(100, color=INK, linewidth=1.0, linestyle=":", zorder=1)
    axes.axhline(BEND, color=FAINT, linewidth=0.6, zorder=0)
    direction = text(f"bandwidth.{panel['direction']}")
    title = text("bandwidth.panel", direction=direction, dtype=panel["dtype"])
    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_xlabel(text("bandwidth.columns"))
    if first:
        axes.set_ylabel(text("bandwidth.axis", bend=f"{BEND:g}"))
    _bars(axes, panel["bars"], text)
    for line in panel["lines"]:
        _line(axes, line, widths, stale)
    _crosses(axes, panel["left_out"])
    _labels(axes, panel["lines"])


def stretched(percent: np.ndarray) -> np.ndarray:
    """The axis: linear up to the bend, and linear again, but with more room, above it. 0 to 1 at the top."""
    below = percent / BEND * BEND_HEIGHT
    return np.where(percent < BEND, below, BEND_HEIGHT + (percent - BEND) / (TOP - BEND) * (1 - BEND_HEIGHT))


def unstretched(height: np.ndarray) -> np.ndarray:
    """The inverse of `stretched`."""
    below = height / BEND_HEIGHT * BEND
    return np.where(height < BEND_HEIGHT, below, BEND + (height - BEND_HEIGHT) / (1 - BEND_HEIGHT) * (TOP - BEND))


def paint(kernel: str) -> str:
    """A kernel's colour, in this picture also a peer's."""
    return PEERS.get(kernel) or colour(kernel)


def _bars(axes: Axes, bars: dict[int, float], text: Translations) -> None:
    before = None
    for cols, bar in bars.items():
        axes.plot([cols / 1.13, cols * 1.13], [bar, bar], color=FAINT, linewidth=5, alpha=0.55, zorder=0.5)
        if bar != before:  # said once for a run of widths with the same bar
            backing = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.5}
            axes.text(
                cols / 1.16, bar, text.number(bar, "g"), ha="right", va="center", fontsize=9, bbox=backing, zorder=4
            )
        before = bar


def _line(axes: Axes, line: dict, widths: list[int], stale: bool) -> None:
    ours = line["kernel"] in OURS
    axes.plot(
        widths,
        [line["percent"].get(cols, np.nan) for cols in widths],  # a width that was left out breaks the line
        marker="o" if ours else "s",
        color=paint(line["kernel"]),
        linewidth=2.2 if ours else 1.2,
        markersize=6 if ours else 4.5,
        markerfacecolor="white" if stale else paint(line["kernel"]),
        zorder=3 if ours else 2,
        clip_on=False,
    )


def _crosses(axes: Axes, left_out: list[dict]) -> None:
    stack: dict[int, int] = {}
    for entry in left_out:
        place = stack[entry["cols"]] = stack.get(entry["cols"], 0) + 1
        axes.annotate(
            "×", (entry["cols"], 0), xytext=(0, 9 * place - 4), textcoords="offset points",
            ha="center", va="center", fontsize=13, fontweight="bold", color=paint(entry["kernel"]),
        )  # fmt: skip


def _labels(axes: Axes, lines: list[dict]) -> None:
    ends = sorted(((*list(line["percent"].items())[-1], line) for line in lines), key=lambda end: end[1])
    heights = spread(stretched(np.array([percent for _, percent, _ in ends])), LABEL_GAP)
    heights += min(0.0, 1.0 - heights[-1])
    for (cols, percent, line), height in zip(ends, heights, strict=True):
        axes.annotate(
            line["kernel"],
            (cols, percent),
            xytext=(1.07, height),
            textcoords="axes fraction",
            va="center",
            color=paint(line["kernel"]),
            fontweight="bold" if line["kernel"] in OURS else "normal",
            fontsize=10.5,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": paint(line["kernel"]),
                "linewidth": 0.7,
                "shrinkB": 4,
                "relpos": (0, 0.5),
            },
        )
