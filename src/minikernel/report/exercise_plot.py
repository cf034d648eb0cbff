"""The exercise's picture: the learner's dot on the roofline of this machine, and what a recorded GPU would allow."""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from minikernel.report.roofline import panel
from minikernel.report.roofline_plot import draw_bars, draw_roofline, label_slopes, words
from minilab.pages.style import colour, use_style

HEIGHT = 5.2  # inches a panel


def panel_of(row: dict, ceilings: dict, device: str, hardware: dict, date: str) -> dict:
    """What a panel shows of one row of the bench: the kernel's own dot, and F.softmax's from the same process.

    Args:
        row: of `minikernel.measure.bench.bench_kernel`.
        ceilings: as `minikernel.measure.ceilings.measure_ceilings` gives them.
        device, hardware, date: the hardware's slug and facts (`minilab.device.hardware`), and the day.

    Returns:
        As `minikernel.report.roofline.panel`.
    """
    times = row["ratio_to_reference"]
    rates = {key: row[key] * times for key in ("gb_per_s", "tflop_per_s", "fraction_of_copy")}
    reference = {**row, **rates, "kernel": "F.softmax", "median_us": row["median_us"] / times, "above_roof": False}
    rows = [reference] if row["kernel"] == "F.softmax" else [row, reference]
    made = {"device": device, "hardware": hardware, "date": date}
    return panel(ceilings, {"provenance": made, "rows": rows}, [row["rows"], row["cols"]])


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
    for part, shown in zip(figure.subfigures(len(panels), 1, squeeze=False).flat, panels, strict=True):
        left, right = part.subplots(1, 2, width_ratios=(2.1, 1))
        draw_roofline(left, shown, language)
        draw_bars(right, shown, language)
        if shown["restored"] and moved_ratio:
            _draw_highest(left, shown, name, moved_ratio, language)
        drawn.append(left)
    figure.draw_without_rendering()
    for axes, shown in zip(drawn, panels, strict=True):
        label_slopes(axes, shown, language)
    figure.savefig(png, metadata={"Software": None})
    plt.close(figure)


def _draw_highest(axes: Axes, shown: dict, name: str, moved_ratio: float, language: str) -> None:
    text = words(language)
    intensity = shown["points"][0]["flop_per_byte"] / moved_ratio
    rate = intensity * shown["ceilings"]["copy_gb_per_s"] / 1e3
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
