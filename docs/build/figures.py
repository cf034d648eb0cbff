"""Draw the concept pages' figures from the facts that the pages quote.

Each SVG holds a digest of the facts it was drawn from, so that a test finds an old figure without comparing pixels.
"""

from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from minilab.files import digest, replacing
from minilab.pages.style import FAINT, INK, colour, use_style

SIZE = (8.2, 3.9)  # inches; legible at 800 px
Figure = Callable[[Axes, dict], None]


def memory_bound(axes: Axes, facts: dict) -> None:
    """Draw the times of the arithmetic alone, the memory alone and two real kernels."""
    softmax = facts["softmax"]
    fastest, reference = softmax["fastest"], softmax["kernels"]["F.softmax"]
    bars = [
        ("arithmetic alone", softmax["arithmetic_us"], FAINT),
        ("memory alone", softmax["memory_us"], INK),
        *((point["kernel"], point["median_us"], colour(point["kernel"])) for point in (fastest, reference)),
    ]
    _bars(axes, bars, "µs")
    axes.set(xlabel="µs")
    axes.set_title(
        loc="left", label=f"softmax of {softmax['rows']:,} x {softmax['cols']:,} {softmax['dtype']}, {softmax['name']}"
    )


def _bars(axes: Axes, bars: list[tuple[str, float, str]], unit: str) -> None:
    longest = max(length for _, length, _ in bars)
    for place, (_, length, paint) in enumerate(bars):
        axes.barh(place, length, color=paint, height=0.6)
        axes.text(length + 0.01 * longest, place, f"{length:,.0f} {unit}", va="center", fontsize=11)
    axes.set_yticks(range(len(bars)), [name for name, _, _ in bars])
    axes.tick_params(axis="y", length=0)
    axes.set(ylim=(len(bars) - 0.5, -0.5), xlim=(0, 1.18 * longest))


def reading_a_roofline(axes: Axes, facts: dict) -> None:
    """Draw a roofline with its ridge and two kernels, each labelled with what to read off it."""
    softmax = facts["softmax"]
    copy, peak, edge = softmax["copy_gb_per_s"] / 1e3, softmax["fp32_tflop_per_s"], softmax["ridge"]
    intensity = np.array([0.05, edge, 1000])
    axes.plot(intensity, np.minimum(intensity * copy, peak), color=INK, linewidth=2)
    axes.set(xscale="log", yscale="log", xlim=(0.05, 1000), xlabel="FLOP per byte", ylabel="TFLOP/s")
    axes.set_ylim(softmax["slowest"]["tflop_per_s"] / 3, peak * 8)
    axes.plot([edge, edge], [peak / 8, peak], color=FAINT, linestyle=":")
    axes.text(edge * 1.2, peak * 0.15, f"ridge: {edge:.3g} FLOP per byte", color=INK, fontsize=11)
    axes.text(0.3, peak * 1.3, f"slope: memory, {copy:.3g} TB/s", fontsize=11)
    axes.text(edge * 1.2, peak * 1.3, f"flat: fp32, {peak:.3g} TFLOP/s", fontsize=11)
    for point in (softmax["fastest"], softmax["slowest"]):
        at = (point["flop_per_byte"], point["tflop_per_s"])
        axes.plot(*at, "o", markersize=9, color=colour(point["kernel"]))
        said = f"{point['kernel']}: {100 * point['fraction_of_copy']:.3g} % of the roof"
        axes.text(at[0] * 1.4, at[1], said, va="center", fontweight="bold", fontsize=11)
    axes.set_title(loc="left", label=f"{softmax['name']}, softmax of {softmax['rows']:,} x {softmax['cols']:,}")


def reducing_a_row(axes: Axes, facts: dict) -> None:
    """Draw the share of a copy's bandwidth against the number of rows, for the CUDA C kernels."""
    softmax = facts["softmax"]
    for kernel, measured in softmax["ladder"].items():
        rows, shares = zip(*measured, strict=True)
        axes.plot(rows, [100 * share for share in shares], "o-", color=colour(kernel), linewidth=2)
        over_line = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        axes.text(
            rows[-1] * 1.3,
            100 * shares[-1],
            kernel,
            color=colour(kernel),
            va="center",
            fontweight="bold",
            bbox=over_line,
        )
    axes.axhline(100, color=INK, linewidth=1, linestyle=":")
    axes.set(xscale="log", xlabel=f"rows of {softmax['cols']:,}", ylabel="% of a plain copy's bandwidth", ylim=(0, 112))
    axes.set_xlim(right=rows[-1] * 6)
    axes.set_title(loc="left", label=f"{softmax['name']}, {softmax['dtype']}")


def floating_point(axes: Axes, facts: dict) -> None:
    """Draw the relative error that an absolute tolerance lets pass, beside the spacing of float32."""
    floats = facts["floats"]
    probability = np.logspace(-8, 0, 200)
    axes.loglog(probability, floats["atol"] / probability, color=colour("naive"), linewidth=2)
    axes.loglog(
        probability, np.full_like(probability, floats["tolerance"]["float32"]), color=colour("fused"), linewidth=2
    )
    spacing = np.spacing(probability.astype(np.float32)) / probability / 2
    axes.loglog(probability, spacing, color=FAINT, linewidth=1)
    axes.axvline(floats["evenly"], color=INK, linewidth=1, linestyle=":")
    axes.text(floats["evenly"] * 1.15, 30, f"1 in {floats['vocabulary']}", fontsize=11)
    axes.text(2e-7, 200, f"atol = {floats['atol']:g}", fontsize=11, fontweight="bold")
    axes.text(
        1.3e-8, floats["tolerance"]["float32"] * 1.6, f"the proof: relative {floats['tolerance']['float32']:g}",
        fontsize=11, fontweight="bold",
    )  # fmt: skip
    axes.text(1.3e-8, 8e-9, "half the spacing of float32", color=INK, fontsize=11)
    axes.set(xlabel="probability", ylabel="relative error let pass", xlim=(1e-8, 1), ylim=(3e-9, 1e3))


def inductor(axes: Axes, facts: dict) -> None:
    """Draw the bytes of each operation of a softmax apart, and of the one kernel that Inductor writes."""
    compiler = facts["compiler"]
    apart = [(name, n_bytes, FAINT) for name, n_bytes in compiler["apart"]]
    whole = sum(n_bytes for _, n_bytes in compiler["apart"])
    bars = [*apart, ("all five apart", whole, INK), ("fused", compiler["fused_bytes"], colour("compile"))]
    _bars(axes, bars, "bytes")
    axes.set(xlabel="bytes read and written")
    axes.set_title(loc="left", label=f"softmax of {compiler['rows']:,} x {compiler['cols']:,} float32")


# name -> what draws it, and the part of the facts that it is drawn from
FIGURES: dict[str, tuple[Figure, str]] = {
    "memory_bound": (memory_bound, "softmax"),
    "reading_a_roofline": (reading_a_roofline, "softmax"),
    "reducing_a_row": (reducing_a_row, "softmax"),
    "floating_point": (floating_point, "floats"),
    "inductor": (inductor, "compiler"),
}


def drawn_from(name: str, facts: dict) -> str:
    """Write the description in a figure's file that says what it was drawn from."""
    part = FIGURES[name][1]
    return f"Drawn by docs/build/figures.py from facts with digest {digest(facts[part])}"


def draw(name: str, facts: dict, svg: str | Path) -> None:
    """Draw a figure of `FIGURES` and save it."""
    use_style()
    figure, axes = plt.subplots(figsize=SIZE, layout="constrained")
    FIGURES[name][0](axes, facts)
    with replacing(svg) as path:
        figure.savefig(path, metadata={"Date": None, "Description": drawn_from(name, facts)})
    plt.close(figure)
