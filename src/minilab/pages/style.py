"""The palette and matplotlib settings of all pictures and pages, readable at 800 px and by colour-blind people.

It is here, in the lowest package, because pictures of all packages and the web pages take their colours from it.
"""

import textwrap
from typing import Any

# Okabe and Ito's palette; a kernel has the same colour in every picture.
PALETTE = {
    "naive": "#D55E00",
    "smem": "#E69F00",
    "fused": "#0072B2",
    "triton": "#009E73",
    "F.softmax": "#CC79A7",
    "compile": "#56B4E9",
    "compile-max-autotune": "#7F7F7F",
    "numpy": "#8C6D31",
    "warp": "#9A8C00",
    "triton_textbook": "#5AB98F",
    "loop": "#D55E00",  # a CPU's rungs are never drawn beside a GPU's
    "vectors": "#E69F00",
    "threads": "#9A8C00",
    "streaming": "#0072B2",
}
OTHER = "#000000"
INK, FAINT = "#222222", "#8A8A8A"


def colour(kernel: str) -> str:
    """Return a kernel's colour; black for one that is not in the palette, such as a user's own."""
    return PALETTE.get(kernel, OTHER)


def use_style() -> None:
    """Set matplotlib's parameters for the lab's pictures and choose the backend that needs no display."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update(
        {
            "font.size": 12,
            "axes.titlesize": 13,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": INK,
            "axes.labelcolor": INK,
            "text.color": INK,
            "figure.dpi": 110,
            "savefig.dpi": 110,
            "svg.hashsalt": "minigpt-lab",  # the same picture gives the same file
            "svg.fonttype": "none",
        }
    )


def fit_titles(figure: Any) -> None:
    """Break each title and label of an x axis that is wider than its axes into lines; the layout is made anew.

    Args:
        figure: a matplotlib figure with everything drawn on it.
    """
    figure.draw_without_rendering()
    for axes in figure.get_axes():
        titles, room = {axes.get_title(side) for side in ("left", "center", "right")} - {""}, axes.bbox.width
        # matplotlib has a getter of a title's words alone
        named = [text for text in axes.get_children() if titles & {getattr(text, "get_text", str)()}]
        for text in (*named, axes.xaxis.label):
            if (wide := text.get_window_extent().width) > room:
                letters = max(10, int(len(text.get_text()) * room / wide))
                text.set_text("\n".join(textwrap.wrap(text.get_text(), letters, break_long_words=False)))
    figure.draw_without_rendering()
