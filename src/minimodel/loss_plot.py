"""The picture of a training: its losses over the steps, and the grammar's entropy, below which none can stay."""

from minilab.files import replacing
from minilab.translations import Translations


def plot_losses(record: dict, path: str, language: str = "en") -> None:
    """Draw training and held-out loss over the steps, with the grammar's entropy as a line (PNG).

    Args:
        record: of a run, as `minimodel.training.train` gives it; losses in nats.
        path: where to save the picture.
        language: of its words.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    text = Translations("minimodel", "loss", language)
    entropy, final = record["conditional_entropy"], record["held_out_cross_entropy"]
    fig, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for key, color, width in (("losses", "#56b4e9", 0.8), ("held_out_losses", "#0072b2", 2.2)):
        points = record[key]
        axes.plot([p["step"] for p in points], [p["loss"] for p in points], color=color, lw=width, label=text(key))
    axes.axhline(entropy, color="#d55e00", ls="--", lw=1.6, label=text("entropy", entropy=text.number(entropy, ".3f")))
    axes.set_ylim(0.9 * entropy, 2 * entropy)
    axes.yaxis.set_major_formatter(lambda loss, _: text.number(loss, "g"))
    start = 0
    for phase in record["training"]["phases"]:
        axes.axvline(start, color="#bbbbbb", lw=0.8)
        axes.annotate(f" {text('rows', time=phase['time'])}", (start, 1.93 * entropy), color="#666666", fontsize=9)
        start += phase["steps"]
    axes.set_xlim(0, record["losses"][-1]["step"])
    axes.set_xlabel(text("step"))
    axes.set_ylabel(text("loss"))
    excess = text.number(record["excess_percent"], ".2f")
    axes.set_title(text("title", loss=text.number(final, ".3f"), excess=excess), loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right", bbox_to_anchor=(1, 0.93))
    with replacing(path) as temporary:
        fig.savefig(temporary, dpi=150)
    plt.close(fig)
