"""The CPU's ladder in one picture: what each rung takes, and what it ran into, a bar for each."""

import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from minikernel.report.roofline_plot import words
from minilab.pages.style import FAINT, INK, colour, use_style
from minilab.pages.translations import Translations

# what has a panel, from left to right, and how its numbers are written
PANELS = {"ms": ".3g", "alike": ".0%", "page_faults": ",.0f", "exponential_cycles": ".2g", "gigabytes": ".2g"}
ROOM = 1.32  # of the longest bar, for its number
TITLE_WIDTH = 20  # characters
FIRST_ROOM, FIRST_WIDTH = 1.55, 1.6  # the first panel's numbers have the gain beside them


def draw(shown: dict, png: str | Path, svg: str | Path, language: str = "en") -> None:
    """Draw what `ladder.ladder` gives, a panel for each thing that was measured, and save it as PNG and SVG."""
    figure = figure_of(shown, language)
    figure.savefig(png, metadata={"Software": None})
    figure.savefig(svg, metadata={"Date": None})
    plt.close(figure)


def figure_of(shown: dict, language: str = "en") -> plt.Figure:
    """The picture, not yet saved."""
    use_style()
    text = words(language)
    keys = [key for key in PANELS if any(bar[key] is not None for bar in shown["bars"])]
    widths = [FIRST_WIDTH, *[1.0] * (len(keys) - 1)]
    figure, panels = plt.subplots(1, len(keys), figsize=(11, 4.1), width_ratios=widths, layout="constrained")
    for key, axes in zip(keys, panels, strict=True):
        draw_panel(axes, shown["bars"], key, text)
    names = [text(f"ladder.{bar['kernel']}") if bar["kernel"] == "copy" else bar["kernel"] for bar in shown["bars"]]
    panels[0].set_yticks(range(len(names)), names)
    for axes in panels[1:]:
        axes.set_yticks([])
    shape = " x ".join(text.number(size, ",") for size in shown["shape"])
    threads = text("ladder.threads", count=shown["threads"])
    figure.suptitle(
        text("ladder.title", name=shown["name"], shape=shape, threads=threads, date=shown["date"]),
        x=0.01,
        ha="left",
        fontsize=13,
    )
    return figure


def draw_panel(axes: Axes, bars: list[dict], key: str, text: Translations) -> None:
    """One bar for each way; none where there is nothing to measure."""
    longest = max(bar[key] or 0 for bar in bars) or 1.0
    for place, bar in enumerate(bars):
        value, paint = bar[key], FAINT if bar["kernel"] == "copy" else colour(bar["kernel"])
        if value is None:
            continue
        distrusted = key == "ms" and bar["above_roof"]
        axes.barh(place, value, color="white" if distrusted else paint, edgecolor=paint, height=0.62)
        said = text.number(value, PANELS[key])
        if distrusted:
            said += text("above_roof")
        elif key == "ms" and bar["kernel"] != "F.softmax":
            said = text("ladder.gain", ms=said, times=text.number(bar["speed_up"], ".2f"))
        axes.text(value + 0.02 * longest, place, said, va="center", fontsize=11, color=INK)
    axes.set(xlim=(0, longest * (FIRST_ROOM if key == "ms" else ROOM)), ylim=(len(bars) - 0.4, -0.6), xticks=[])
    title = textwrap.fill(text(f"ladder.{key}"), TITLE_WIDTH)
    axes.set_title(title, loc="left", fontsize=11.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["bottom"].set_visible(False)
