"""The facts of the page on the CPU's ladder, from a run here: what `docs/concepts/cpu_ladder.md` and its picture show.

A CPU's results are no record, so that what the page quotes of one run is kept in data/cpu_ladder.json. A run that is
found under results/ replaces it.
"""

from pathlib import Path

import matplotlib.pyplot as plt

from minikernel.ops.cpu.build import HERE as SOURCES
from minikernel.report.ladder import RUNGS, ladder
from minikernel.report.ladder_plot import figure_of
from minilab.files import digest, read_json, replacing, write_json

DATA = Path(__file__).parent / "data/cpu_ladder.json"


def remember(results: Path, headline: list[int], data: Path = DATA) -> None:
    """Keep what the page quotes of a CPU that was measured here.

    Nothing changes where none was with its rungs, or where a time is shorter than a copy's could be.
    """
    for folder in sorted((results / "24").glob("cpu-*/")):
        bench, allocation = folder / "bench.json", folder / "allocation.json"
        if bench.exists() and allocation.exists():
            shown = ladder(read_json(bench), read_json(allocation), headline)
            if shown and not any(bar["above_roof"] for bar in shown["bars"]):
                write_json(data, shown)


def ladder_facts(data: Path = DATA) -> dict:
    """What is kept, with each bar by its kernel's name, and the lines of each rung's file."""
    kept = read_json(data)
    lines = {rung: len((SOURCES / f"{rung}.cpp").read_text().splitlines()) for rung in RUNGS}
    told = {sentence["code"]: sentence for sentence in kept["sentences"]}
    return {**kept, "of": {bar["kernel"]: bar for bar in kept["bars"]}, "lines": lines, "told": told}


def drawn_from(facts: dict) -> str:
    """Write the description in the picture's file that says what it was drawn from."""
    return f"Drawn by docs/build/cpu_ladder.py from facts with digest {digest(facts['bars'])}"


def draw(facts: dict, svg: str | Path) -> None:
    """Draw the picture of a run and save it."""
    figure = figure_of(facts)
    with replacing(svg) as path:
        figure.savefig(path, metadata={"Date": None, "Description": drawn_from(facts)})
    plt.close(figure)
