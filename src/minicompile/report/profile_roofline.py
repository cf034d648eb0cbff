"""Draws Inductor's kernels against the limits of the device: a row for each shape that was broken down.

On the left the roofline that stage 24 draws for the lab's own kernels, here with a dot for each kernel that computes;
on the right every kernel's bandwidth as a share of a copy's, those among them that only move data.
"""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.layout_engine import ConstrainedLayoutEngine

from minicompile.report.words import duration, kernel_number, short_kernel
from minikernel.report.roofline import ridge
from minikernel.report.roofline_plot import INTENSITY, PEAKS, label_slopes, slopes, stale_mark
from minilab.style import INK, PALETTE, use_style
from minilab.translations import Translations

SOFTMAX, OTHERS = PALETTE["triton"], PALETTE["fused"]
HEADROOM = 5  # factor between the highest ceiling and the end of the axis
LABELS = 20  # factor between the last ridge and the end of the axis: the ceilings are named there


def draw(profile: dict, png: str | Path, language: str = "en") -> None:
    """Draw a profile (profile.json) and save it as PNG; one in which no kernels were timed says so."""
    text = Translations("minicompile.report", "profile", language)
    use_style()
    if not profile["shapes"]:
        figure = plt.figure(figsize=(12, 1.5))
        figure.text(0.02, 0.5, text("picture.no_kernels", model=profile["model"]), va="center")
        figure.savefig(png, metadata={"Software": None})
        plt.close(figure)
        return
    heights = [max(4.4, 0.31 * len(shape["kernels"]) + 1.6) for shape in profile["shapes"]]
    figure = plt.figure(figsize=(12, sum(heights)), layout=ConstrainedLayoutEngine(h_pad=0.1))
    parts = figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights).flat
    drawn = []
    for part, shape in zip(parts, profile["shapes"], strict=True):
        roofline_axes, bar_axes = part.subplots(1, 2, width_ratios=(1.25, 1))
        _roofline(roofline_axes, profile, shape, text)
        _bars(bar_axes, shape["kernels"], text)
        part.supxlabel(_caption(shape["kernels"], text), x=0.02, ha="left", fontsize=10)
        drawn.append(roofline_axes)
    figure.draw_without_rendering()
    for axes in drawn:
        label_slopes(axes, profile["roofline"], language)
    figure.savefig(png, metadata={"Software": None})
    plt.close(figure)


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
    axes.set(xscale="log", yscale="log", xlim=(INTENSITY[0], end), ylim=(low, top * HEADROOM))
    for key, (_, style, _) in slopes(ceilings).items():
        reach = ridge(ceilings[key], top)
        rates = [intensity * ceilings[key] / 1e3 for intensity in (INTENSITY[0], reach)]
        axes.plot([INTENSITY[0], reach], rates, style, color=INK, linewidth=1.6)
    for key, peak in peaks.items():
        start = ridge(max(ceilings[slope] for slope in slopes(ceilings)), peak)
        axes.plot([start, end], [peak, peak], color=INK, linewidth=1.6)
        label = f"{PEAKS[key]} {text.number(peak, ',.3g')} TFLOP/s{stale_mark(limits, text.language)}"
        axes.text(end * 0.93, peak * 0.93, label, ha="right", va="top", fontsize=10)
    for row in computing:
        at = (row["flop_per_byte"], row["tflop_per_s"])
        axes.plot(*at, "o", markersize=14, color=_colour(row["name"]), markeredgecolor="white", clip_on=False, zorder=3)
        axes.annotate(
            kernel_number(row["name"]), at, color="white", fontsize=8.5, ha="center", va="center_baseline", zorder=4
        )
    title = text(
        "picture.title",
        name=limits["name"],
        model=profile["model"],
        size=" x ".join(str(axis) for axis in shape["shape"]),
        source=text("picture.restored" if "restored" in profile else "picture.measured"),
        date=profile["provenance"]["date"][:10],
    )
    axes.set_title(title, loc="left", fontsize=12)
    axes.set(xlabel=text("picture.intensity"), ylabel="TFLOP/s")


def _bars(axes: Axes, kernels: list[dict], text: Translations) -> None:
    shares = [100 * row["fraction_of_copy"] for row in kernels]
    longest = 1.25 * max(100, *shares)
    for place, (row, share) in enumerate(zip(kernels, shares, strict=True)):
        axes.barh(place, share, color=_colour(row["name"]), height=0.66)
        times = f" x {row['calls']}" if row["calls"] > 1 else ""
        percent = text.number(share, ",.0f" if share >= 100 else ".2g")
        label = f"{percent} %, {duration(text.language, row['median_us'])}{times}"
        inside = share > 0.6 * longest
        axes.text(
            share + (-0.01 if inside else 0.01) * longest, place, label, va="center", fontsize=9.5,
            ha="right" if inside else "left", color="white" if inside else INK,
        )  # fmt: skip
    axes.axvline(100, color=INK, linewidth=1.2, linestyle=":")
    axes.set_yticks(range(len(kernels)), [short_kernel(row["name"]) for row in kernels], fontsize=9.5)
    axes.tick_params(axis="y", length=0)
    axes.set(xlim=(0, longest), ylim=(max(len(kernels), 4) - 0.4, -0.6), xlabel=text("picture.share_axis"))
    axes.set_title(text("picture.share"), loc="left", fontsize=12)


def _caption(kernels: list[dict], text: Translations) -> str:
    moving = [kernel_number(row["name"]) for row in kernels if row["flop"] == 0]
    told = f" {text('picture.moving', numbers=', '.join(moving))}" if moving else ""
    return text("picture.caption") + told
