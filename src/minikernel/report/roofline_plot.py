"""The lab's headline picture: a roofline for each device, and beside it how near each kernel is to a copy."""

import textwrap
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from minikernel.report.roofline import FUSED_HEAD, head_caption, ridge
from minilab.device import is_cpu
from minilab.pages.style import FAINT, INK, colour, fit_titles, use_style
from minilab.pages.translations import Translations

INTENSITY = (0.1, 3000.0)  # FLOP/byte
LABEL_GAP = 0.085  # of the axis' height, between two labels of the stack
LABELS_AT = {False: 0.42, True: 0.61}  # of the axis' width: the stack stands right of the LM head's dots, if any
HEAD_LABELS_AT, HEAD_LABEL_GAP = (0.46, 0.96), 0.072  # of the axis' width and height
SOFTMAX_OF_HEAD = {FUSED_HEAD: "fused", "eager": "F.softmax"}  # a head has the colour of its softmax
SLOPES_NAMED_AT = 0.115  # FLOP/byte: from the axis to the dots
BELOW_LEGEND = 0.8  # of the axis' height
LONGEST_NAME = 20  # characters of a kernel's name
CAPTION_WIDTH = 125  # characters
SLOPES = {"copy_gb_per_s": ("memory", "-", False), "l2_gb_per_s": ("cache", "-.", True)}  # name, line, label above it
OTHER_COPIES = {"fresh_copy": "--", "streaming_copy": ":"}  # other ways to copy on a CPU; line
APART = 0.05  # of a copy: what is nearer to it has no line of its own
OVER_LINES = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}  # the ground of words that a line would cross
PEAKS = {"fp32_tflop_per_s": "fp32", "tf32_tflop_per_s": "TF32", "bf16_tflop_per_s": "bf16"}


def words(language: str) -> Translations:
    """The words in stage 24's pictures."""
    return Translations("minikernel.report", "figures", language)


def draw(panels: list[dict], png: str | Path, svg: str | Path, language: str = "en") -> None:
    """Draw one row for each panel (see `roofline.panel`) and save it as PNG and SVG."""
    use_style()
    heights = [5.9 if panel["head"] else 5.2 for panel in panels]
    figure = plt.figure(figsize=(11, sum(heights)), layout="constrained")
    drawn = []
    for part, panel in zip(
        figure.subfigures(len(panels), 1, squeeze=False, height_ratios=heights).flat, panels, strict=True
    ):
        roofline_axes, bar_axes = part.subplots(1, 2, width_ratios=(2.1, 1))
        draw_roofline(roofline_axes, panel, language)
        draw_bars(bar_axes, panel, language)
        if panel["head"]:
            caption = textwrap.fill(head_caption(panel["head"], language), CAPTION_WIDTH)
            part.supxlabel(caption, x=0.06, ha="left", fontsize=11, linespacing=1.4)
        drawn.append(roofline_axes)
    set_padding(figure, h_pad=0.15)
    fit_titles(figure)
    for roofline_axes, panel in zip(drawn, panels, strict=True):
        label_slopes(roofline_axes, panel, language)
    figure.savefig(png, metadata={"Software": None})
    figure.savefig(svg, metadata={"Date": None})
    plt.close(figure)


def set_padding(figure: Figure, **inches: float) -> None:
    """Set the padding of a figure whose layout is constrained, `w_pad` and `h_pad` in inches."""
    engine: Any = figure.get_layout_engine()  # matplotlib's types know the engines' common base alone
    engine.set(**inches)


def draw_roofline(axes: Axes, panel: dict, language: str = "en") -> None:
    """Draw measured ceilings as lines, datasheet thin and dashed, one labelled dot a kernel."""
    text = words(language)
    ceilings = {key: value for key, value in panel["ceilings"].items() if value is not None}
    peaks = {key: ceilings[key] for key in PEAKS if key in ceilings}
    top = max(peaks.values())
    slowest = min(point["tflop_per_s"] for point in panel["points"])
    low = min(slowest / 2.5, INTENSITY[0] * ceilings["copy_gb_per_s"] / 1e3)
    high = top * 6
    if other_copies(panel):  # their legend is above the words on the slopes, however far down the dots are
        named = 8 * SLOPES_NAMED_AT * max(ceilings[key] for key in slopes(ceilings)) / 1e3
        high = max(high, low * (named / low) ** (1 / BELOW_LEGEND))
    axes.set(xscale="log", yscale="log", xlim=INTENSITY, ylim=(low, high))
    for key, (_, style, _) in slopes(ceilings).items():
        _slope(axes, ceilings[key], top, style)
    for name, style in other_copies(panel).items():
        said = text(f"roofline.{name}", bandwidth=_bandwidth(panel[name]["gb_per_s"], text))
        _slope(axes, panel[name]["gb_per_s"], top, style, said + stale_mark(panel, language))
    if other_copies(panel):
        axes.legend(loc="upper left", frameon=False, fontsize=10)  # no slope reaches that corner, and no dot's name
    for key, peak in peaks.items():
        start = ridge(max(ceilings[slope] for slope in slopes(ceilings)), peak)
        axes.plot([start, INTENSITY[1]], [peak, peak], color=INK, linewidth=1.6)
        label = f"{PEAKS[key]} {text.number(peak, ',.3g')} TFLOP/s{stale_mark(panel, language)}"
        axes.text(INTENSITY[1] * 0.93, peak * 0.93, label, ha="right", va="top", fontsize=10)
    if panel["datasheet"]:
        _datasheet(axes, panel["datasheet"])
    # of a CPU nobody expects one
    word = "datasheet" if panel["datasheet"] else None if is_cpu(panel["device"]) else "no_datasheet"
    if word:
        axes.text(
            0.985, 0.02, text(f"roofline.{word}"), transform=axes.transAxes, ha="right", color=FAINT, fontsize=9.5
        )
    roof = axes.transAxes.inverted().transform(axes.transData.transform((1.0, min(peaks.values()))))[1]
    bounds = (0.09 if word else 0.03, min(roof - 0.075, 0.97))
    _dots(axes, panel["points"], LABELS_AT[bool(panel["head"])], bounds, text)
    if panel["head"]:
        _head(axes, panel["head"], text)
    shape = " x ".join(text.number(size, ",") for size in panel["shape"])
    date = text("date.record" if panel["restored"] else "date.measured", date=panel["date"])
    title = text("roofline.title", name=panel["name"], shape=shape, dtype=panel["dtype"], date=date)
    axes.set_title(title, loc="left")
    axes.set(xlabel=text("roofline.intensity"), ylabel="TFLOP/s")


def other_copies(panel: dict) -> dict[str, str]:
    """The other ways to copy that can be told from a plain copy, and the line of each."""
    return {
        name: style
        for name, style in OTHER_COPIES.items()
        if panel[name] and abs(panel[name]["fraction_of_copy"] - 1) > APART
    }


def slopes(ceilings: dict) -> dict[str, tuple[str, str, bool]]:
    """The slopes that limit: a cache that came out slower than memory, as on a busy machine, is none."""
    return {key: way for key, way in SLOPES.items() if ceilings[key] >= ceilings["copy_gb_per_s"]}


def _slope(axes: Axes, bandwidth: float, top: float, style: str, said: str | None = None) -> None:
    end = min(ridge(bandwidth, top), INTENSITY[1])
    rates = [INTENSITY[0] * bandwidth / 1e3, end * bandwidth / 1e3]
    axes.plot([INTENSITY[0], end], rates, style, color=INK, linewidth=1.6, label=said)


def stale_mark(panel: dict, language: str = "en") -> str:
    """What a roof's label ends in when the code that measured it has changed since."""
    return words(language)("stale") if panel["stale_ceilings"] else ""


def label_slopes(axes: Axes, panel: dict, language: str = "en") -> None:
    """Write each slope's bandwidth along it; to be called once the layout, and so the angle, is final."""
    text, ceilings, at = words(language), panel["ceilings"], SLOPES_NAMED_AT
    for key, (name, _, above) in slopes(ceilings).items():
        bandwidth = ceilings[key]
        ends = np.array([[x, x * bandwidth / 1e3] for x in INTENSITY])
        across, up = np.diff(axes.transData.transform(ends), axis=0)[0]
        axes.annotate(
            text(f"roofline.{name}", bandwidth=_bandwidth(bandwidth, text)) + stale_mark(panel, language),
            (at, at * bandwidth / 1e3),
            xytext=(0, 4 if above else -4),
            textcoords="offset points",
            rotation=np.degrees(np.arctan2(up, across)),
            rotation_mode="anchor",
            ha="left",
            va="bottom" if above else "top",
            fontsize=9.5,
            annotation_clip=True,
        )


def _datasheet(axes: Axes, datasheet: dict) -> None:
    faint: dict[str, Any] = {"color": FAINT, "linewidth": 0.8, "linestyle": "--", "zorder": 0}
    bandwidth = datasheet["memory_gb_per_s"]
    top = max(datasheet[key] for key in PEAKS)
    end = ridge(bandwidth, top)
    axes.plot([INTENSITY[0], end], [INTENSITY[0] * bandwidth / 1e3, top], **faint)
    for key in PEAKS:
        axes.plot([ridge(bandwidth, datasheet[key]), INTENSITY[1]], [datasheet[key]] * 2, **faint)


def spread(values: np.ndarray, gap: float) -> np.ndarray:
    """Move sorted `values` apart until neighbours differ by `gap`, as little and as evenly as possible."""
    # Clusters of labels that touch share one centre: pool-adjacent-violators on values minus rank * gap.
    clusters: list[list[float]] = []
    for value in values - gap * np.arange(len(values)):
        clusters.append([value])
        while len(clusters) > 1 and np.mean(clusters[-2]) > np.mean(clusters[-1]):
            last = clusters.pop()
            clusters[-1] += last
    return np.concatenate([np.full(len(c), np.mean(c)) for c in clusters]) + gap * np.arange(len(values))


def inside(labels: np.ndarray, gap: float, least: float, most: float) -> np.ndarray:
    """Move sorted labels that are `gap` apart between two bounds, without bringing them nearer to one another."""
    rank = np.arange(len(labels))
    labels = np.minimum(labels, most - gap * rank[::-1])
    return np.maximum(labels, least + gap * rank)


def _dots(axes: Axes, points: list[dict], labels_at: float, bounds: tuple[float, float], text: Translations) -> None:
    points = sorted(points, key=lambda point: point["tflop_per_s"])
    to_axes = axes.transAxes.inverted()
    x, y = points[0]["flop_per_byte"], np.array([point["tflop_per_s"] for point in points])
    heights = to_axes.transform(axes.transData.transform(np.column_stack([np.full(len(y), x), y])))
    gap = min(LABEL_GAP, (bounds[1] - bounds[0]) / max(len(points) - 1, 1))
    labels = inside(spread(heights[:, 1], gap), gap, *bounds)
    for point, label_height in zip(points, labels, strict=True):
        paint = colour(point["kernel"])
        axes.plot(
            x, point["tflop_per_s"], "X" if point["above_roof"] else "o", markersize=9, color=paint, zorder=3,
            markerfacecolor="white" if point["stale"] or point["above_roof"] else paint, markeredgewidth=1.8,
            clip_on=False,
        )  # fmt: skip
        axes.annotate(
            _label(point, text),
            (x, point["tflop_per_s"]),
            xytext=(labels_at, label_height),
            textcoords="axes fraction",
            va="center",
            color=paint,
            fontweight="bold",
            fontsize=11,
            bbox=OVER_LINES,
            arrowprops={"arrowstyle": "-", "color": paint, "linewidth": 0.9, "shrinkB": 6, "relpos": (0, 0.5)},
        )


def _head(axes: Axes, head: dict, text: Translations) -> None:
    """The LM head's dots, squares, named above the slope, and the step that fusion takes to the right."""
    points = sorted(head["points"], key=lambda point: -point["tflop_per_s"])
    named = text("roofline.head") + (text("stale") if points[0]["stale"] else "")  # all are of one measurement
    axes.text(*HEAD_LABELS_AT, named, transform=axes.transAxes, ha="right", va="center", fontsize=11)
    for place, point in enumerate(points, 1):
        paint = colour(SOFTMAX_OF_HEAD.get(point["kernel"], point["kernel"]))
        at = (point["flop_per_byte"], point["tflop_per_s"])
        axes.plot(
            *at, "s", markersize=8, color=paint, zorder=3, markerfacecolor="white" if point["stale"] else paint,
            markeredgewidth=1.8,
        )  # fmt: skip
        axes.annotate(
            _label({**point, "stale": False}, text),
            at,
            xytext=(HEAD_LABELS_AT[0], HEAD_LABELS_AT[1] - HEAD_LABEL_GAP * place),
            textcoords="axes fraction",
            ha="right",
            va="center",
            color=paint,
            fontweight="bold",
            fontsize=11,
            arrowprops={"arrowstyle": "-", "color": paint, "linewidth": 0.9, "shrinkB": 6, "relpos": (1, 0.5)},
        )
    ends = {point["kernel"]: (point["flop_per_byte"], point["tflop_per_s"]) for point in points}
    step = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.4, "shrinkA": 6, "shrinkB": 6}
    axes.annotate("", ends[FUSED_HEAD], xytext=ends[head["unfused"]], arrowprops=step)


def draw_bars(axes: Axes, panel: dict, language: str = "en") -> None:
    """Each kernel's bandwidth as a share of a plain copy's, from top to bottom as the panel says."""
    text = words(language)
    points = sorted(panel["points"], key=lambda point: panel["bars"].index(point["kernel"]), reverse=True)
    copies = other_copies(panel)
    trusted = [point for point in points if not point["above_roof"]]
    shares = [drawn["fraction_of_copy"] for drawn in (*trusted, *(panel[name] for name in copies))]
    longest = max(112, *(106 * share for share in shares))
    for place, point in enumerate(points):
        paint, share = colour(point["kernel"]), 100 * point["fraction_of_copy"]
        if point["above_roof"]:
            axes.text(0.02 * longest, place, text("bars.above_roof"), va="center", fontsize=11, bbox=OVER_LINES)
            continue
        axes.barh(place, share, color="white" if point["stale"] else paint, edgecolor=paint, linewidth=1.5, height=0.62)
        inside = share > 0.27 * longest
        axes.text(
            share + (-0.02 if inside else 0.02) * longest, place, f"{text.number(share, '.3g')} %",
            va="center", ha="right" if inside else "left", fontsize=11, fontweight="bold",
            color="white" if inside and not point["stale"] else INK, bbox=None if inside else OVER_LINES,
        )  # fmt: skip
    axes.axvline(100, color=INK, linewidth=1.2)
    for place, (name, style) in enumerate(copies.items(), 1):
        share = 100 * panel[name]["fraction_of_copy"]
        axes.axvline(share, color=INK, linewidth=1.4, linestyle=style, zorder=0.9)
        right = share < 0.5 * longest
        axes.annotate(
            text(f"bars.{name}"), (share, 0.15 - 0.8 * place), xytext=(5 if right else -5, 0),
            textcoords="offset points", va="center", ha="left" if right else "right", bbox=OVER_LINES,
        )  # fmt: skip
    axes.set_yticks(range(len(points)), [_short(point["kernel"]) for point in points])
    axes.tick_params(axis="y", length=0)
    drawn = max(len(points) + len(copies), 6)
    axes.set(xlim=(0, longest), ylim=(len(points) - 0.5 - drawn, len(points) - 0.5))
    axes.set(xlabel=text("bars.axis"))
    axes.set_title(text("bars.title"), loc="left")


def _bandwidth(gb_per_s: float, text: Translations) -> str:
    if gb_per_s >= 1000:
        return f"{text.number(gb_per_s / 1e3, ',.3g')} TB/s"
    return f"{text.number(gb_per_s, ',.3g')} GB/s"


def _label(point: dict, text: Translations) -> str:
    """A dot's kernel and time, and that it is stale or not to be trusted."""
    us = point["median_us"]
    time = f"{text.number(us, ',.3g')} µs" if us < 999.5 else f"{text.number(us / 1e3, ',.4g')} ms"
    marks = [mark for mark in ("stale", "above_roof") if point.get(mark)]
    return f"{_short(point['kernel'])}  {time}" + "".join(text(mark) for mark in marks)


def _short(kernel: str) -> str:
    """A kernel's name, its middle left out where it would take the room of what it names."""
    half = (LONGEST_NAME - 1) // 2
    return kernel if len(kernel) <= LONGEST_NAME else f"{kernel[:half]}…{kernel[-half:]}"
