"""The picture of a training: its losses over the steps, and the grammar's entropy, below which none can stay."""

import math
from itertools import groupby

from minilab.files import replacing
from minilab.pages.translations import Translations


def plot_losses(record: dict, path: str, language: str = "en") -> None:
    """Draw training and held-out loss over the steps, with the grammar's entropy as a line (PNG).

    Held-out losses at rows of another length are not comparable, so each length has a line of its own.

    Args:
        record: of a run, as `minimodel.training.train` gives it; losses in nats.
        path: where to save the picture.
        language: of its words.
    """
    import matplotlib

    # no window: jobs run where there is no screen
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    text = Translations("minimodel", "loss", language)
    entropy, final = record["conditional_entropy"], record["held_out_cross_entropy"]
    fig, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    points, scored = record["losses"], record["held_out_losses"]
    axes.plot([p["step"] for p in points], [p["loss"] for p in points], color="#56b4e9", lw=0.8, label=text("losses"))
    for index, (_, same) in enumerate(
        groupby(scored, key=lambda p: p["time"])
    ):  # other rows: another score, a new line
        steps, losses = zip(*((p["step"], p["loss"]) for p in same), strict=True)
        label = None if index else text("held_out_losses")
        axes.plot(steps, losses, color="#0072b2", lw=2.2, marker="o", ms=4, clip_on=False, label=label)
    axes.axhline(entropy, color="#d55e00", ls="--", lw=1.6, label=text("entropy", entropy=text.number(entropy, ".3f")))
    top = 1.12 * max(p["loss"] for p in (*points, *scored))
    axes.set_yscale("log")
    axes.set_ylim(0.9 * entropy, top)
    axes.set_yticks(range(math.ceil(0.9 * entropy), math.floor(top) + 1))
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda loss, _: text.number(loss, "g"))
    # a thin line and a word where the length of the rows changes
    start = 0
    for phase in record["training"]["phases"]:
        axes.axvline(start, color="#bbbbbb", lw=0.8)
        axes.annotate(f" {text('rows', time=phase['time'])}", (start, 0.95 * top), color="#666666", fontsize=9)
        start += phase["steps"]
    axes.set_xlim(0, record["losses"][-1]["step"])
    axes.set_xlabel(text("step"))
    axes.set_ylabel(text("loss"))
    excess = text.number(record["excess_percent"], ".2f")
    axes.set_title(text("title", loss=text.number(final, ".3f"), excess=excess), loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right", bbox_to_anchor=(1, 0.92))
    with replacing(path) as temporary:
        fig.savefig(temporary, dpi=150)
    plt.close(fig)
