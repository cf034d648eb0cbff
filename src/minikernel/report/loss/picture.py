"""Stage 27's picture: time against memory, everybody a dot at each shape, and the floor of the three products."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

from minikernel.report.loss.views import RIGHT, SHORT, Place, Shown, shown
from minilab.pages.style import FAINT, INK, use_style
from minilab.pages.translations import Translations

HUES = {
    "eager": "#CC79A7", "compile": "#56B4E9", "torch": "#8C6D31", "liger": "#009E73", "liger-sm90": "#5AB98F",
    "quack": "#E69F00", "quack-scaled": "#9A8C00", "cce": "#7F7F7F", "lab": "#D55E00",
}  # fmt: skip
RATES = {"float32": "fp32_tflop_per_s", "bfloat16": "bf16_tflop_per_s", "float16": "bf16_tflop_per_s"}
LEAST_MIB = 0.25  # a logarithm has no zero
COLUMNS, INCHES = 3, 3.3
CAPTION_WIDTH = 156  # characters, below three columns
NARROW = 200  # an axis whose end is fewer times its beginning
TITLE_WIDTH = 34


def draw(
    losses: Sequence[dict], ceilings: Sequence[dict | None], png: str | Path, svg: str | Path, language: str = "en"
) -> None:
    """Draw each device's `loss.json`, and save it as PNG and SVG.

    Args:
        losses: of each device.
        ceilings: of the same devices; None where there are none, and no floor is drawn.
    """
    use_style()
    text = Translations("minikernel.report", "loss", language)
    panels = [
        (seen, place, roofs)
        for seen, roofs in zip(map(shown, losses), ceilings, strict=True)
        for place in seen.places
        if any(row["peak_mib"] is not None for row in place.rows.values())
    ]
    columns = min(COLUMNS, max(1, len(panels)))
    rows = -(-len(panels) // columns) or 1
    figure, axes = plt.subplots(
        rows, columns, figsize=(3.9 * columns + 0.4, INCHES * rows + 1.6), layout="constrained", squeeze=False
    )
    for one in axes.flat[len(panels) :]:
        one.set_axis_off()
    for one, panel in zip(axes.flat, panels, strict=False):
        draw_place(one, *panel, text)
    names = list(dict.fromkeys(who for _, place, _ in panels for who in HUES if who in place.rows))
    handles = [
        Line2D([], [], marker="o", linestyle="", color=HUES[who], label=who)
        for who in sorted(names, key=list(HUES).index)
    ]
    handles += [
        Line2D([], [], marker="o", linestyle="", markerfacecolor="white", color=INK, label=text("ring")),
        Line2D([], [], linestyle="--", color=INK, label=text("floor")),
    ]
    figure.legend(
        handles=handles, loc="outside upper left", ncols=min(len(handles), 2 * columns), frameon=False, fontsize=10
    )
    figure.supxlabel(textwrap.fill(text("caption"), CAPTION_WIDTH * columns // COLUMNS), x=0.02, ha="left", fontsize=10)
    figure.savefig(png, metadata={"Software": None})
    figure.savefig(svg, metadata={"Date": None})
    plt.close(figure)


def draw_place(axes: Axes, seen: Shown, place: Place, ceilings: dict | None, text: Translations) -> None:
    """One shape of one device: a dot each, a ring where the verdict is not `right`."""
    dots = [row for row in place.rows.values() if row["peak_mib"] is not None]
    for row in dots:
        hue = HUES[row["who"]]
        axes.plot(
            row["median_us"] / 1e3, max(row["peak_mib"], LEAST_MIB), "o", markersize=10, color=hue, markeredgewidth=2,
            markerfacecolor=hue if row["verdict"] == RIGHT else "white", clip_on=False, zorder=3,
        )  # fmt: skip
    times = [row["median_us"] / 1e3 for row in dots]
    floor = floor_us(place, ceilings)
    if floor is not None:
        axes.axvline(floor / 1e3, color=INK, linestyle="--", linewidth=1.2, zorder=1)
        times.append(floor / 1e3)
    axes.set(xscale="log", yscale="log", xlim=(min(times) / 2, max(times) * 2))
    low, high = min(max(row["peak_mib"], LEAST_MIB) for row in dots), max(row["peak_mib"] for row in dots)
    axes.set_ylim(low / 3, max(high, LEAST_MIB) * 3)
    for axis, (least, most) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        if most / least < NARROW:  # where powers of ten alone would leave a number or two
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(lambda value, _: text.number(value, ",g"))
        axis.set_minor_formatter(lambda value, _: "")
    axes.grid(color=FAINT, alpha=0.25)
    axes.set_xlabel(text("axis.time"), fontsize=10)
    axes.set_ylabel(text("axis.memory"), fontsize=10)
    shape = " x ".join(text.number(size, ",") for size in (place.m, place.d, place.v))
    device = textwrap.fill(seen.name + (text("stale") if seen.stale else ""), TITLE_WIDTH)
    axes.set_title(f"{device}\n{shape}, {SHORT[place.dtype]}", loc="left", fontsize=10.5)


def floor_us(place: Place, ceilings: dict | None) -> float | None:
    """The time of the three products at the rate that was measured of the device; None where none was."""
    rate = (ceilings or {}).get(RATES[place.dtype])
    return place.flop / rate / 1e6 if rate else None
