"""The exercise's picture: the learner's dot on the roofline of this machine, and what a recorded GPU would allow."""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from minikernel.report.roofline import bars
from minikernel.report.roofline_plot import draw_bars, draw_roofline, label_slopes, words
from minilab.pages.style import colour, use_style

HEIGHT = 5.2  # inches a panel


def panel_of(row: dict, ceilings: dict, device: str, name: str, date: str) -> dict:
    """What a panel shows of one row of the bench: the kernel's own dot, and F.softmax's from the same process.

    Args:
        row: of `minikernel.measure.bench.bench_kernel`.
        ceilings: as `minikernel.measure.ceilings.measure_ceilings` gives them.
        device, name, date: the hardware's slug and name, and the day of the measurement.

    Returns:
        A panel, with the keys of `minikernel.report.roofline.panel`.
    """
    speeds = {row["kernel"]: 1.0, "F.softmax": row["ratio_to_reference"]}
    points = [
        {
            "kernel": kernel,
            "flop_per_byte": row["flop_per_byte"],
            "tflop_per_s": row["tflop_per_s"] * speed,
            "median_us": row["median_us"] / speed,
            "fraction_of_copy": row["fraction_of_copy"] * speed,
            "stale": False,
            "above_roof": kernel == row["kernel"] and row["above_roof"],
        }
        for kernel, speed in speeds.items()
    ]
    return {
        "device": device,
        "name": name,
        "date": date,
        "restored": False,
        "stale_ceilings": False,
        "shape": [row["rows"], row["cols"]],
        "dtype": row["dtype"],
        "ceilings": {key: value for key, value in ceilings.items() if key.endswith(("gb_per_s", "tflop_per_s"))},
        "datasheet": ceilings["datasheet"],
        "points": sorted(points, key=lambda point: point["median_us"]),
        "head": None,
        "bars": bars({point["kernel"]: point["median_us"] for point in points}, device),
        "fresh_copy": None,
        "streaming_copy": None,
    }


def draw_exercise(
    panels: list[dict], name: str, moved_ratio: float | None, png: str | Path, language: str = "en"
) -> None:
    """Draw a row for each panel; a restored one gets the highest place that the roof allows for the bytes counted.

    Args:
        panels: as `minikernel.report.roofline.panel` gives them.
        name: what the picture calls the learner's softmax.
        moved_ratio: bytes counted over the fewest possible; None where they were not counted.
        png: where to save it.
        language: of its words.
    """
    use_style()
    figure = plt.figure(figsize=(11, HEIGHT * len(panels)), layout="constrained")
    drawn = []
    for part, panel in zip(figure.subfigures(len(panels), 1, squeeze=False).flat, panels, strict=True):
        left, right = part.subplots(1, 2, width_ratios=(2.1, 1))
        draw_roofline(left, panel, language)
        draw_bars(right, panel, language)
        if panel["restored"] and moved_ratio:
            _draw_highest(left, panel, name, moved_ratio, language)
        drawn.append(left)
    figure.draw_without_rendering()
    for axes, panel in zip(drawn, panels, strict=True):
        label_slopes(axes, panel, language)
    figure.savefig(png, metadata={"Software": None})
    plt.close(figure)


def _draw_highest(axes: Axes, panel: dict, name: str, moved_ratio: float, language: str) -> None:
    text = words(language)
    intensity = panel["points"][0]["flop_per_byte"] / moved_ratio
    rate = intensity * panel["ceilings"]["copy_gb_per_s"] / 1e3
    axes.plot(intensity, rate, "v", markersize=10, color=colour(name), markerfacecolor="white", zorder=4)
    axes.annotate(
        text("exercise.highest", name=name, ratio=text.number(moved_ratio, ".3g")),
        (intensity, rate),
        xytext=(0.03, 0.9),
        textcoords="axes fraction",
        color=colour(name),
        fontweight="bold",
        arrowprops={"arrowstyle": "-", "color": colour(name), "linewidth": 0.9, "shrinkB": 6},
    )
