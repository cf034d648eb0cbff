"""Stage 26's picture: the time of a forward pass on every rung, what it consists of, and the model on the roofline."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from minikernel.report.model.views import Place, Shown, shown
from minikernel.report.roofline import ridge
from minikernel.report.roofline_plot import inside, set_padding, spread
from minilab.pages.style import FAINT, INK, use_style
from minilab.pages.translations import Translations

# Okabe and Ito's hues: of what a pass consists, and of the rungs.
PARTS = {
    "launches": "#7F7F7F", "waiting": "#E69F00", "memory": "#0072B2", "arithmetic": "#009E73", "kernels": "#C9D4DC",
}  # fmt: skip
RUNGS = {
    "eager": "#CC79A7", "compile": "#56B4E9", "compile-reduce-overhead": "#8C6D31", "compile-max-autotune": "#7F7F7F",
    "graph": "#E69F00", "one": "#D55E00",
}  # fmt: skip
PEAKS = {"fp32_tflop_per_s": "fp32", "tf32_tflop_per_s": "TF32", "bf16_tflop_per_s": "bf16"}
INTENSITY = (1.0, 3000.0)  # FLOP/byte
BAR = 0.66  # of the distance of two bars
ROOM = 1.34  # times the longest bar, for the words behind it
NAME_GAP = 0.065  # of the roofline's height, between two names
LEAST_LABELLED = 0.085  # of an axis' width that a part needs for its number
CAPTION_WIDTH = 122  # characters
ROW_INCHES, ROOF_INCHES = 2.15, 4.6


def words(language: str) -> Translations:
    """The words in stage 26's picture."""
    return Translations("minikernel.report", "model", language)


def draw(made: dict, ceilings: dict | None, png: str | Path, svg: str | Path, language: str = "en") -> None:
    """Draw `model.json`, beside the limits of its device, and save it as PNG and SVG.

    Args:
        made: `model.json`.
        ceilings: the device's `ceilings.json`; without it no roofline is drawn.
    """
    use_style()
    text, seen = words(language), shown(made)
    rows = len(seen.places)
    heights = [rows * ROW_INCHES, *([ROOF_INCHES] if ceilings else [])]
    figure = plt.figure(figsize=(11, sum(heights) + 0.7), layout="constrained")
    parts = figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights).flat
    date = text("date.record" if seen.restored else "date.measured", date=seen.date)
    stale = text("stale") if seen.stale else ""
    parts[0].suptitle(text("title", name=seen.name, date=date) + stale, x=0.02, ha="left", fontsize=13)
    legends, *panels = parts[0].subplots(
        rows + 1, 2, width_ratios=(1.62, 1), height_ratios=(0.16, *[1] * rows), squeeze=False
    )
    for (left, right), place in zip(panels, seen.places, strict=True):
        draw_rungs(left, place, seen, text)
        draw_parts(right, place, seen, text)
    draw_legend(legends[0], ("launches", "kernels"), text)
    draw_legend(legends[1], ("launches", "waiting", "memory", "arithmetic"), text, "right")
    for axes in panels[-1]:
        axes.set_xlabel(text("axis"))
    for axes in (axes for row in panels for axes in row):
        axes.xaxis.set_major_formatter(lambda us, _: text.number(us, ",g"))
    if ceilings:
        draw_roofline(parts[1].subplots(), seen, ceilings, text)
        caption = textwrap.fill(text("caption"), CAPTION_WIDTH)
        parts[1].supxlabel(caption, x=0.02, ha="left", fontsize=10.5, linespacing=1.35)
    set_padding(figure, h_pad=0.1)
    save(figure, png, svg)


def save(figure: Figure, png: str | Path, svg: str | Path) -> None:
    """Save the same picture as the same bytes."""
    figure.savefig(png, metadata={"Software": None})
    figure.savefig(svg, metadata={"Date": None})
    plt.close(figure)


def draw_legend(axes: Axes, parts: Sequence[str], text: Translations, side: Literal["left", "right"] = "left") -> None:
    """Parts by their colours, side by side, from one side of the axes on."""
    axes.set_axis_off()
    loc: Literal["center left", "center right"] = "center left" if side == "left" else "center right"
    swatches = [Patch(color=PARTS[part], label=text(f"part.{part}")) for part in parts]
    legend = axes.legend(
        handles=swatches, ncols=len(parts), loc=loc, frameon=False, fontsize=10.5, borderpad=0,
        borderaxespad=0, handlelength=1, handleheight=1, handletextpad=0.4, columnspacing=0.9,
    )  # fmt: skip
    legend.set_in_layout(False)


def draw_rungs(axes: Axes, place: Place, seen: Shown, text: Translations) -> None:
    """A bar for each rung in float32 with its time, the lab's own with how many times as fast they are."""
    rungs = list(place.rows)
    longest = max(row["device_us"] for row in place.rows.values())
    for height, (rung, row) in enumerate(reversed(place.rows.items())):
        stacked(axes, height, row, seen.stale)
        said = microseconds(row["device_us"], text)
        if place.best and rung in ("graph", "one"):
            said += "   " + text("times", times=text.number(place.best["device_us"] / row["device_us"], ".3g"))
        axes.text(
            row["device_us"] + 0.012 * longest, height, said, va="center", fontsize=11,
            fontweight="bold" if rung in ("graph", "one") else "normal",
        )  # fmt: skip
    axes.set_yticks(range(len(rungs)), list(reversed(rungs)))
    axes.tick_params(axis="y", length=0, labelsize=10.5)
    axes.set(xlim=(0, ROOM * longest), ylim=(-0.6, len(rungs) - 0.4))
    axes.set_title(text("shape", batch=place.batch, time=place.time), loc="left", fontsize=12)
    floors(axes, place, seen, text, named=False)


def draw_parts(axes: Axes, place: Place, seen: Shown, text: Translations) -> None:
    """The lab's rungs again at a scale of their own, each part with its microseconds."""
    bars = [(name, row) for name, row in place.ours if row["parts"]]
    if not bars:
        axes.text(0.5, 0.5, text("no_parts"), transform=axes.transAxes, ha="center", color=FAINT)
        axes.set_axis_off()
        return
    longest = max(row["device_us"] for _, row in bars)
    for height, (_, row) in enumerate(reversed(bars)):
        for part, start, us in stacked(axes, height, row, seen.stale):
            if us > LEAST_LABELLED * ROOM * longest:
                axes.text(
                    start + us / 2, height, text.number(us, ".2g" if us < 99.5 else ".0f"), va="center", ha="center",
                    fontsize=10, color=INK if seen.stale or part in ("waiting", "kernels") else "white",
                )  # fmt: skip
        axes.text(
            row["device_us"] + 0.015 * longest,
            height,
            microseconds(row["device_us"], text),
            va="center",
            fontsize=10.5,
            bbox={"color": "white", "pad": 0.6},
        )
    axes.set_yticks(range(len(bars)), [name for name, _ in reversed(bars)])
    axes.tick_params(axis="y", length=0, labelsize=10.5)
    axes.set(xlim=(0, ROOM * longest), ylim=(-0.6, len(bars) - 0.4))
    floors(axes, place, seen, text, named=True)


def stacked(axes: Axes, height: float, row: dict, stale: bool) -> list[tuple[str, float, float]]:
    """Draw a row's bar out of its parts, hollow where it is stale; return each part with its start and its length."""
    parts = row["parts"] or {"kernels_us": row["device_us"]}
    drawn, start = [], 0.0
    for part, hue in PARTS.items():
        us = parts.get(f"{part}_us")
        if not us:
            continue
        axes.barh(
            height, us, left=start, height=BAR, color="white" if stale else hue, edgecolor=hue if stale else "white",
            linewidth=1.4 if stale else 0.6,
        )  # fmt: skip
        drawn.append((part, start, us))
        start += us
    return drawn


def floors(axes: Axes, place: Place, seen: Shown, text: Translations, named: bool) -> None:
    """What no kernel can go below: an empty launch, and where one has been argued, the floor of this shape."""
    lines = [("empty", seen.empty_us, ":"), ("argued", place.floor_us, "--")]
    for line, (name, us, style) in enumerate(lines):
        if not us:
            continue
        axes.axvline(us, color=INK, linewidth=1.2, linestyle=style, zorder=0.5)
        if named:
            said = text(f"floor.{name}", us=text.number(us, ".3g"))
            axes.annotate(
                said, (us, axes.get_ylim()[1]), xytext=(0, 1 + 12 * line), textcoords="offset points", fontsize=9.5,
                va="bottom",
            )  # fmt: skip


def draw_roofline(axes: Axes, seen: Shown, ceilings: dict, text: Translations) -> None:
    """The model's dots: one column a shape, which the rungs climb."""
    peaks = {key: ceilings[key] for key in PEAKS if ceilings[key]}
    top, copy = max(peaks.values()), ceilings["copy_gb_per_s"]
    lowest = min(row["tflop_per_s"] for place in seen.places for row in place.rows.values())
    axes.set(xscale="log", yscale="log", xlim=INTENSITY, ylim=(lowest / 4, top * 3))
    end = ridge(copy, top)
    axes.plot([INTENSITY[0], end], [INTENSITY[0] * copy / 1e3, top], color=INK, linewidth=1.6)
    for key, peak in peaks.items():
        axes.plot([ridge(copy, peak), INTENSITY[1]], [peak, peak], color=INK, linewidth=1.6)
        said, above = f"{PEAKS[key]} {text.number(peak, ',.3g')} TFLOP/s", peak in (top, min(peaks.values()))
        axes.annotate(
            said, (INTENSITY[1], peak), xytext=(-4, 2 if above else -3), textcoords="offset points", ha="right",
            va="bottom" if above else "top", fontsize=10,
        )  # fmt: skip
    for place in seen.places:
        intensity = next(iter(place.rows.values()))["flop_per_byte"]
        climbed = [row["tflop_per_s"] for row in place.rows.values()]
        axes.plot([intensity] * len(climbed), climbed, color=FAINT, linewidth=1.0, zorder=1)
        for rung, row in place.rows.items():
            axes.plot(
                intensity, row["tflop_per_s"], "o", markersize=8, color=RUNGS[rung], zorder=3, clip_on=False,
                markerfacecolor="white" if seen.stale else RUNGS[rung], markeredgewidth=1.6,
            )  # fmt: skip
        last = place is seen.places[-1]  # whose dots' names stand where its own would
        axes.annotate(
            text("shape", batch=place.batch, time=place.time), (intensity, max(climbed) if last else min(climbed)),
            xytext=(-4, 13) if last else (8, -9), textcoords="offset points", ha="left" if last else "right",
            va="bottom" if last else "top", fontsize=10.5,
        )  # fmt: skip
    _name_dots(axes, seen.places[-1], min(peaks.values()))
    stale = text("stale") if ceilings.get("restored", {}).get("stale") or seen.stale else ""
    axes.set_title(text("roofline", name=seen.name) + stale, loc="left")
    axes.set(xlabel=text("intensity"), ylabel="TFLOP/s")


def _name_dots(axes: Axes, place: Place, roof: float) -> None:
    """The rungs' names, right of the last column and below a roof, so far apart that they can be read."""
    rows = sorted(place.rows.items(), key=lambda item: item[1]["tflop_per_s"])
    intensity = rows[0][1]["flop_per_byte"]
    points = [(intensity, row["tflop_per_s"]) for _, row in rows]
    heights = axes.transAxes.inverted().transform(axes.transData.transform([*points, (intensity, roof)]))[:, 1]
    labels = inside(spread(heights[:-1], NAME_GAP), NAME_GAP, 0.03, heights[-1] - NAME_GAP)
    for (rung, _), point, height in zip(rows, points, labels, strict=True):
        line: dict[str, Any] = {"arrowstyle": "-", "color": RUNGS[rung], "linewidth": 0.9, "shrinkB": 5, "shrinkA": 2}
        line["relpos"] = (0, 0.5)  # where the name begins
        axes.annotate(
            rung, point, xytext=(0.8, height), textcoords="axes fraction", va="center", color=INK, fontsize=10.5,
            arrowprops=line,
        )  # fmt: skip


def microseconds(us: float, text: Translations) -> str:
    """Write a time: `13.1 µs`, `2.28 ms`."""
    return f"{text.number(us, '.3g')} µs" if us < 999.5 else f"{text.number(us / 1e3, '.3g')} ms"
