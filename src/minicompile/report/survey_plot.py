"""Draws what each pattern yields, holds and sends: a row of panels for each device, number of ranks and dtype."""

from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.layout_engine import ConstrainedLayoutEngine

from minicompile.distributed.formulas import PIPELINES, sent_bytes
from minicompile.report.profile_report import reliable
from minicompile.report.survey import Group, grouped, in_order, labels, where
from minicompile.report.words import is_stale, origin, size
from minilab.pages.style import INK, use_style
from minilab.pages.translations import Translations

# Okabe and Ito's colours, one a pattern; a pipeline's schedules share theirs.
COLOURS = {
    "single": "#7F7F7F",
    "ddp": "#0072B2",
    "fsdp": "#009E73",
    "tp": "#E69F00",
    "fsdp_tp": "#56B4E9",
    **dict.fromkeys(PIPELINES, "#CC79A7"),
}
PANELS = ("tokens", "memory", "sent")
UNRELIABLE_HATCH = "////"
BAR_HEIGHT, HEADING = 0.5, 0.5  # inches


class Bar(NamedTuple):
    """A bar's length, what is written at its end, and where it is marked (0: nowhere)."""

    length: float
    label: str
    mark: float = 0.0


def draw(artefacts: list[dict], path: str | Path, language: str = "en") -> None:
    """Draw every `distributed.json` given and save the picture as PNG; runs of a stale record are hollow."""
    text = labels(language)
    use_style()
    rows = [group for artefact in in_order(artefacts) for group in grouped(artefact)]
    heights = [HEADING + BAR_HEIGHT * (1 + len(group.runs)) for group in rows]
    figure = plt.figure(figsize=(11, sum(heights)), layout=ConstrainedLayoutEngine(h_pad=0.12))
    parts = figure.subfigures(len(rows), 1, squeeze=False, height_ratios=heights)
    for part, group in zip(parts.flat, rows, strict=True):
        artefact = group.artefact
        told = {"where": where(text, group), "noise": text.number(100 * group.noise, ".1f")}
        title = text("picture.title", **told, **origin(language, artefact))
        part.suptitle(title, x=0.01, ha="left", fontsize=13)
        stale = is_stale(artefact)
        shown = [group.single, *group.runs.values()]
        panels = part.subplots(1, 3, sharey=True)
        for axes, name, bars in zip(panels, PANELS, quantities(text, group), strict=True):
            noisy = name == "tokens" and not reliable({"noise": group.noise})
            draw_bars(axes, [run["pattern"] for run in shown], bars, stale, noisy)
            axes.set_title(text(f"picture.{name}"), loc="left", fontsize=12)
        panels[0].set_yticks(range(len(shown)), [text(f"names.{run['pattern']}") for run in shown])
        panels[0].invert_yaxis()
    figure.savefig(path, metadata={"Software": None})
    plt.close(figure)


def quantities(text: Translations, group: Group) -> list[list[Bar]]:
    """Return for each panel one bar a run, the worst rank's where ranks differ; speeds are told over one process's."""
    runs = [group.single, *group.runs.values()]
    speeds = [text.number(group.single["tokens_per_s"], ",.0f")]
    speeds += [
        text(
            "picture.speed", rate=text.number(run["tokens_per_s"], ",.0f"), times=text.number(group.times(name), ".2f")
        )
        for name, run in group.runs.items()
    ]
    sent = [max(run["sent_bytes"]) for run in runs]
    formula = [max(sent_bytes(counts, run["ranks"], run["pattern"]) for counts in run["formula"]) for run in runs]
    return [
        [Bar(run["tokens_per_s"], speed) for run, speed in zip(runs, speeds, strict=True)],
        [Bar(peak, size(text.language, peak)) for peak in (max(run["peak_memory_bytes"]) for run in runs)],
        [
            Bar(count, size(text.language, count) if count else text("picture.nothing"), mark)
            for count, mark in zip(sent, formula, strict=True)
        ],
    ]


def draw_bars(axes: Axes, patterns: list[str], bars: list[Bar], hollow: bool, hatched: bool = False) -> None:
    """Draw horizontal bars from the top, each with its mark, and its label beyond both."""
    longest = max(max(bar.length, bar.mark) for bar in bars)
    for row, (pattern, bar) in enumerate(zip(patterns, bars, strict=True)):
        paint = COLOURS[pattern]
        inside, hatch = "white" if hollow or hatched else paint, UNRELIABLE_HATCH if hatched else None
        axes.barh(row, bar.length, color=inside, edgecolor=paint, linewidth=1.5, height=0.66, hatch=hatch)
        if bar.mark:
            axes.plot([bar.mark] * 2, [row - 0.42, row + 0.42], color=INK, linewidth=2)
        end = max(bar.length, bar.mark) + 0.025 * longest
        axes.text(end, row, bar.label, va="center", fontsize=11, color=INK)
    axes.set(xlim=(0, 1.55 * longest), xticks=[])
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", length=0)
