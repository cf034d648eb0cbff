"""Draws the port's training: the curves of the loss, how far they are apart, and what compiling gains.

On the right tokens are drawn against each side's own clock: the slope is tokens per second, the flat start is the
compile with its smoketest, and where the lines cross the compile has paid for itself.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from minicompile.report.words import is_stale, origin
from minilab.pages.style import FAINT, INK, PALETTE, use_style
from minilab.pages.translations import Translations

COLOURS = {"eager": "#E69F00", "compiled": "#0072B2", "NumPy": PALETTE["numpy"]}
RESOLUTION = 1e-7  # nats, half a unit in the last place of a float32 loss: equal losses are drawn there


def draw(training: dict, path: str | Path, language: str = "en") -> None:
    """Draw the port's `training.json` and save it as PNG.

    Args:
        training: measured or restored; a stale record is said to be one in the heading.
        path: of the picture.
        language: of its words.
    """
    text = Translations("minicompile.report", "training", language)
    use_style()
    figure = plt.figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(1.15, 1)).flat
    losses, apart = left.subplots(2, 1, sharex=True, height_ratios=(2.2, 1))
    draw_losses(losses, training, text)
    draw_differences(apart, training, text)
    draw_clocks(right.subplots(), training, text)
    figure.suptitle(heading(training, language), x=0.01, ha="left", fontsize=13)
    figure.savefig(path, metadata={"Software": None})
    plt.close(figure)


def heading(training: dict, language: str = "en") -> str:
    """Say what was trained where and when, and whether it still holds."""
    text = Translations("minicompile.report", "training", language)
    stale = text("picture.stale") if is_stale(training) else ""
    return text("picture.title", **origin(language, training), stale=stale)


def name_of(side: str, text: Translations) -> str:
    """Name a side in the picture."""
    return side if side == "NumPy" else text(f"picture.{side}")


def draw_losses(axes: Axes, training: dict, text: Translations) -> None:
    """Draw loss against step; the sides lie on one another, so the lower ones are drawn wider."""
    at = training["numpy"]["steps"]  # every so many: what single batches differ by would hide the curve
    for name, values, width, style in (
        ("NumPy", training["numpy"]["losses"], 7, "-"),
        ("eager", [training["eager"]["losses"][step - 1] for step in at], 3.5, "-"),
        ("compiled", [training["compiled"]["losses"][step - 1] for step in at], 1.5, "--"),
    ):
        axes.plot(at, values, color=COLOURS[name], linewidth=width, linestyle=style, label=name_of(name, text))
    entropy = training["conditional_entropy"]
    axes.axhline(entropy, color=FAINT, linewidth=1, linestyle=":")
    axes.annotate(
        text("picture.entropy", entropy=text.number(entropy, ".2f")),
        (0.02, entropy), xycoords=("axes fraction", "data"),
        xytext=(0, -13), textcoords="offset points", color=FAINT, fontsize=10,
    )  # fmt: skip
    axes.set_ylim(bottom=entropy - 0.15 * (axes.get_ylim()[1] - entropy))
    axes.set_ylabel(text("picture.loss"))
    axes.legend(frameon=False, loc="upper right")


def draw_differences(axes: Axes, training: dict, text: Translations) -> None:
    """Draw how far compiled and NumPy are from eager, on a logarithmic axis, at the steps that NumPy kept."""
    at = np.array(training["numpy"]["steps"])
    eager, compiled = (np.array(training[name]["losses"])[at - 1] for name in ("eager", "compiled"))
    for name, losses in (("NumPy", np.array(training["numpy"]["losses"])), ("compiled", compiled)):
        apart = np.maximum(np.abs(losses - eager), RESOLUTION)
        axes.plot(at, apart, color=COLOURS[name], linewidth=1.5, marker=".", markersize=4)
    axes.set(yscale="log", ylabel=text("picture.from_eager"), xlabel=text("picture.step"))


def draw_clocks(axes: Axes, training: dict, text: Translations) -> None:
    """Draw thousands of tokens against seconds, a line a side with its tokens per second at the end."""
    seconds = max(training[name]["seconds"][-1] for name in ("eager", "compiled"))
    tokens = np.array(training["tokens"]) / 1e3
    for name in ("eager", "compiled"):
        run = training[name]
        axes.plot([0, run["first_step_seconds"], *run["seconds"]], [0, 0, *tokens], color=COLOURS[name], linewidth=2.5)
        end = run["seconds"][-1]
        axes.annotate(
            text("picture.end", name=name_of(name, text), rate=text.number(run["tokens_per_second"], ",.0f")),
            (end, tokens[-1]), xytext=(0, 6),
            textcoords="offset points", color=INK, fontsize=11, ha="right" if end > 0.3 * seconds else "left",
        )  # fmt: skip
    axes.set(xlabel=text("picture.seconds"), ylabel=text("picture.thousands"), ylim=(0, 1.2 * tokens[-1]))
    axes.set_xlim(0, 1.03 * seconds)
    axes.set_title(text("picture.tokens"), loc="left", fontsize=12)
