"""One look for all pictures: colour-blind-safe palette, fonts that stay readable at 800 px."""

# Okabe and Ito's palette, each colour tied to one kernel in every picture.
PALETTE = {
    "naive": "#D55E00",
    "smem": "#E69F00",
    "fused": "#0072B2",
    "triton": "#009E73",
    "F.softmax": "#CC79A7",
    "compile": "#56B4E9",
    "compile-max-autotune": "#7F7F7F",
    "numpy": "#8C6D31",
}
OTHER = "#000000"
INK, FAINT = "#222222", "#8A8A8A"


def colour(kernel: str) -> str:
    """A kernel's colour; black for one that the palette does not know, such as a user's own."""
    return PALETTE.get(kernel, OTHER)


def use_style() -> None:
    """Set matplotlib up for the lab's pictures, drawn without a display."""
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
