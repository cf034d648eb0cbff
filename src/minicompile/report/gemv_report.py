"""Says and draws whether compiled matrix-vector products beat cuBLAS's; `templates/gemv_25.md` has the page's words."""

from pathlib import Path

import matplotlib.pyplot as plt

from minicompile.profile.verdict import SAME
from minicompile.report import words
from minicompile.report.words import is_stale, origin
from minilab.pages.style import INK, use_style
from minilab.pages.templates import render
from minilab.pages.translations import Translations, number

SIDES = ("compiled", "max_autotune")
LEAST = 0.01  # of a time: less is told as equal, though the clock may tell it apart; two runs differ by as much
COLOURS = {"compiled": "#0072B2", "max_autotune": "#E69F00"}


def report(artefact: dict, language: str = "en") -> str:
    """Write the page on one gemv.json, in Markdown."""
    values = {
        "artefact": artefact,
        "name": origin(language, artefact)["name"],
        "totals": totals(artefact),
        "answers": answers(artefact),
        "sides": SIDES,
        "bandwidth": bandwidth,
        "least": LEAST,
    }
    labels = {
        "side": lambda side: _labels(language)(f"side.{side}"),
        "percent": lambda part: number(language, part, ".0%"),
    }
    filters = {**words.filters(language), **labels}
    return render("minicompile.report", "gemv_25", language, values, filters=filters, trimmed=True)


def answers(artefact: dict) -> list[dict]:
    """For each dtype and side: at how many of the shapes it is `faster`, the `same` and `slower`, and `best`, `worst`
    speedup over cuBLAS."""
    found = []
    for dtype in dict.fromkeys(row["dtype"] for row in artefact["products"]):
        rows = [row for row in artefact["products"] if row["dtype"] == dtype]
        for side in SIDES:
            speedups = [row["speedup"][side] for row in rows]
            extremes = {"best": max(speedups), "worst": min(speedups)}
            counts = _counted([judged(row, side) for row in rows])
            found.append({"dtype": dtype, "side": side, "shapes": len(rows), **counts, **extremes})
    return found


def judged(row: dict, side: str) -> str:
    """The verdict on a side of a product; `same` also where its time is cuBLAS's but for less than `LEAST` of it."""
    return SAME if abs(row["speedup"][side] - 1) < LEAST else row["verdict"][side]


def totals(artefact: dict) -> list[dict]:
    """For each side: of how many `products` in all dtypes it is `faster` than cuBLAS, the `same` and `slower`."""
    verdicts = {side: [judged(row, side) for row in artefact["products"]] for side in SIDES}
    return [{"side": side, "products": len(told), **_counted(told)} for side, told in verdicts.items()]


def _counted(verdicts: list[str]) -> dict[str, int]:
    return {verdict: verdicts.count(verdict) for verdict in ("faster", "same", "slower")}


def bandwidth(row: dict, side: str) -> float:
    """GB/s at which a side reads the weights as they are stored; cuBLAS reads int8 ones as bfloat16."""
    width = 2 if side == "cublas" and row["dtype"] == "int8" else 1
    return width * row["weight_bytes"] / row["times_us"][side] / 1e3


def draw(artefact: dict, path: str | Path, language: str = "en") -> None:
    """Draw each side's speedup over cuBLAS, a panel for each dtype, and save it as PNG; of a stale record hollow."""
    text = _labels(language)
    use_style()
    dtypes = list(dict.fromkeys(row["dtype"] for row in artefact["products"]))
    figure, panels = plt.subplots(1, len(dtypes), figsize=(11, 4.2), layout="constrained", squeeze=False, sharey=True)
    for axes, dtype in zip(panels.flat, dtypes, strict=True):
        rows = [row for row in artefact["products"] if row["dtype"] == dtype]
        for place, row in enumerate(rows):
            axes.barh(place, 2 * row["noise_floor"], left=1 - row["noise_floor"], height=0.9, color=INK, alpha=0.15)
            for place_of_side, side in enumerate(SIDES):
                paint = "white" if is_stale(artefact) else COLOURS[side]
                where, label = place + 0.36 * (place_of_side - 0.5), text(f"side.{side}") if place == 0 else None
                axes.barh(where, row["speedup"][side], height=0.34, color=paint, edgecolor=COLOURS[side], label=label)
        axes.axvline(1, color=INK, linewidth=1)
        axes.set_title(dtype, loc="left", fontsize=12)
        axes.set_xlabel(text("speedup"))
        axes.set_yticks(range(len(rows)), [f"{row['rows']} × {row['cols']}" for row in rows])
    panels[0][0].invert_yaxis()
    panels[0][0].legend(loc="lower right")
    figure.suptitle(text("title", **origin(language, artefact)), x=0.01, ha="left", fontsize=13)
    figure.savefig(path, metadata={"Software": None})
    plt.close(figure)


def _labels(language: str) -> Translations:
    return Translations("minicompile.report", "gemv", language)
