"""Draws Inductor's kernels against the limits of the device: a row for each shape that was broken down.

On the left the roofline that stage 24 draws for the lab's own kernels, here with a dot for each kernel that computes;
on the right every kernel's bandwidth as a share of a copy's, those among them that only move data.
"""

import textwrap
from itertools import chain
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.layout_engine import ConstrainedLayoutEngine

from minicompile.report.profile_report import reliable, share
from minicompile.report.words import duration, fused_operations, kernel_number, origin
from minikernel.report.roofline import ridge
from minikernel.report.roofline_plot import INTENSITY, PEAKS, slopes, stale_mark
from minikernel.report.roofline_plot import words as roofline_words
from minilab.pages.style import INK, PALETTE, use_style
from minilab.pages.translations import Translations, number

SOFTMAX, OTHERS = PALETTE["triton"], PALETTE["fused"]
HEADROOM = 5  # factor between the highest ceiling and the end of the axis
LABELS = 150  # factor between the last ridge and the end of the axis: the ceilings are named there
NAME_WIDTH = 48  # characters of a line of a kernel's name
TOGETHER = 26  # pixels: dots that lie closer share a label
APART = 26  # pixels between the labels of dots, one above the other
CAPTION_WIDTH = 165  # characters of a line
UNRELIABLE_HATCH = "////"


def draw(profile: dict, png: str | Path, language: str = "en") -> None:
    """Draw a profile (profile.json) and save it as PNG; one in which no kernels were timed says so."""
    text = Translations("minicompile.report", "profile", language)
    use_style()
    if not any(shape["kernels"] for shape in profile["shapes"]):
        figure = plt.figure(figsize=(12, 1.5))
        why = "not_timed" if profile["left_out"] else "no_kernels"
        figure.text(0.02, 0.5, text(f"picture.{why}", model=profile["model"]), va="center")
        figure.savefig(png, metadata={"Software": None})
        plt.close(figure)
        return
    shapes = [shape for shape in profile["shapes"] if shape["kernels"]]
    names = [[_name(row["name"]) for row in shape["kernels"]] for shape in shapes]
    heights = [max(4.6, 0.2 * sum(name.count("\n") + 1.6 for name in each) + 1.6) for each in names]
    figure = plt.figure(figsize=(13, sum(heights)), layout=ConstrainedLayoutEngine(h_pad=0.1))
    parts = figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights).flat
    drawn = []
    for part, shape, labels in zip(parts, shapes, names, strict=True):
        roofline_axes, bar_axes = part.subplots(1, 2, width_ratios=(1.25, 1))
        _roofline(roofline_axes, profile, shape, text)
        _bars(bar_axes, shape["kernels"], labels, text)
        part.supxlabel(_caption(shape["kernels"], text), x=0.02, ha="left", fontsize=10)
        drawn.append((roofline_axes, shape["kernels"]))
    figure.draw_without_rendering()  # the layout, and so what lies close, is final
    for axes, kernels in drawn:
        _label_dots(axes, [row for row in kernels if row["flop"] > 0], 72 / figure.dpi)
    figure.savefig(png, metadata={"Software": None})
    plt.close(figure)


def _name(kernel: str) -> str:
    """A kernel's whole name, in as many lines as it takes."""
    return textwrap.fill(f"{kernel_number(kernel)}  {fused_operations(kernel)}", NAME_WIDTH)


def _colour(name: str) -> str:
    return SOFTMAX if "softmax" in name else OTHERS


def _roofline(axes: Axes, profile: dict, shape: dict, text: Translations) -> None:
    limits = profile["roofline"]
    ceilings = {key: value for key, value in limits["ceilings"].items() if value is not None}
    peaks = {key: ceilings[key] for key in PEAKS if key in ceilings}
    top = max(peaks.values())
    computing = [row for row in shape["kernels"] if row["flop"] > 0]
    slowest = min((row["tflop_per_s"] for row in computing), default=top)
    low = min(slowest / 2.5, INTENSITY[0] * ceilings["copy_gb_per_s"] / 1e3)
    end = LABELS * ridge(min(ceilings[key] for key in slopes(ceilings)), top)
    start = min([INTENSITY[0], *(row["flop_per_byte"] / 2 for row in computing)])
    axes.set(xscale="log", yscale="log", xlim=(start, end), ylim=(low, top * HEADROOM))
    named = roofline_words(text.language)
    for key, (name, style, _) in slopes(ceilings).items():
        reach = ridge(ceilings[key], top)
        rates = [intensity * ceilings[key] / 1e3 for intensity in (start, reach)]
        label = named(f"roofline.{name}", bandwidth=bandwidth(text.language, ceilings[key]))
        label += stale_mark(limits, text.language)
        axes.plot([start, reach], rates, style, color=INK, linewidth=1.6, label=label)
    for key, peak in peaks.items():
        begin = ridge(max(ceilings[slope] for slope in slopes(ceilings)), peak)
        axes.plot([begin, end], [peak, peak], color=INK, linewidth=1.6)
        label = f"{PEAKS[key]} {text.number(peak, ',.3g')} TFLOP/s{stale_mark(limits, text.language)}"
        highest = peak == top  # its name stands above it, so that there is room for the next one's
        axes.annotate(
            label, (end * 0.93, peak), xytext=(0, 2 if highest else -2), textcoords="offset points",
            ha="right", va="bottom" if highest else "top", fontsize=9,
        )  # fmt: skip
    for row in computing:
        at = (row["flop_per_byte"], row["tflop_per_s"])
        axes.plot(*at, "o", markersize=9, color=_colour(row["name"]), markeredgecolor="white", clip_on=False, zorder=3)
    axes.legend(loc="lower right", frameon=False, fontsize=10)
    title = text(
        "picture.title",
        model=profile["model"],
        size=" x ".join(str(axis) for axis in shape["shape"]),
        **origin(text.language, profile),
    )
    axes.set_title(title, loc="left", fontsize=12)
    axes.set(xlabel=text("picture.intensity"), ylabel="TFLOP/s")


def bandwidth(language: str, gb_per_s: float) -> str:
    """Write a bandwidth with its unit."""
    if gb_per_s < 1000:
        return f"{number(language, gb_per_s, '.3g')} GB/s"
    return f"{number(language, gb_per_s / 1000, '.3g')} TB/s"


def clusters(places: np.ndarray) -> list[list[int]]:
    """Gather points (n, 2) that lie closer to one of their group than `TOGETHER`; indices, the highest group first."""
    groups: list[list[int]] = []
    for index, place in enumerate(places):
        near = [group for group in groups if any(np.hypot(*(places[one] - place)) < TOGETHER for one in group)]
        groups = [group for group in groups if group not in near] + [[*chain(*near), index]]
    return sorted(groups, key=lambda group: -places[group, 1].mean())


def _label_dots(axes: Axes, kernels: list[dict], scale: float) -> None:
    """Write the kernels' numbers beside their dots, one label where dots lie together, no label over another.

    `scale` is points a pixel.
    """
    if not kernels:
        return
    places = axes.transData.transform([[row["flop_per_byte"], row["tflop_per_s"]] for row in kernels])
    above = np.inf
    for group in clusters(places):
        right, middle = places[group, 0].max(), places[group, 1].mean()
        above = min(middle, above - APART)
        first = kernels[max(group, key=lambda index: places[index, 0])]
        at = (first["flop_per_byte"], first["tflop_per_s"])
        from_dot = axes.transData.transform(at)
        axes.annotate(
            ", ".join(kernel_number(kernels[index]["name"]) for index in sorted(group)), at,
            xytext=((right + 22 - from_dot[0]) * scale, (above - from_dot[1]) * scale), textcoords="offset points",
            fontsize=10, color=INK, va="center", ha="left", zorder=4,
            arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.6, "shrinkB": 5},
        )  # fmt: skip


def _bars(axes: Axes, kernels: list[dict], names: list[str], text: Translations) -> None:
    shares = [100 * row["fraction_of_copy"] for row in kernels]
    longest = 1.45 * max(100, *shares)
    for place, (row, width) in enumerate(zip(kernels, shares, strict=True)):
        hatch = None if reliable(row) else UNRELIABLE_HATCH
        axes.barh(place, width, color=_colour(row["name"]), height=0.66, hatch=hatch, edgecolor="white", linewidth=0)
        times = f" x {row['calls']}" if row["calls"] > 1 else ""
        percent = share(text.language, row["fraction_of_copy"])
        label = f"{percent}, {duration(text.language, row['median_us'])}{times}"
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        axes.text(width + 0.012 * longest, place, label, va="center", fontsize=9.5, color=INK, bbox=box)
    axes.axvline(100, color=INK, linewidth=1.2, linestyle=":", zorder=0)
    axes.set_yticks(range(len(kernels)), names, fontsize=9.5)
    axes.tick_params(axis="y", length=0)
    axes.set(xlim=(0, longest), ylim=(max(len(kernels), 4) - 0.4, -0.6), xlabel=text("picture.share_axis"))
    axes.set_title(text("picture.share"), loc="left", fontsize=12)


def _caption(kernels: list[dict], text: Translations) -> str:
    moving = [kernel_number(row["name"]) for row in kernels if row["flop"] == 0]
    told = f" {text('picture.moving', numbers=', '.join(moving))}" if moving else ""
    hatched = "" if all(map(reliable, kernels)) else f" {text('picture.unreliable')}"
    return textwrap.fill(text("picture.caption") + told + hatched, CAPTION_WIDTH)
