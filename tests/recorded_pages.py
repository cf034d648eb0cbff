"""The GPU's record, and the same as another device would have measured it: what the tests of pages are made with."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import yaml
from numbers_of_a_page import Source

from minicompile.lowering.capture import as_capture
from minicompile.lowering.simulated_vs_real import compare_with_real
from minicompile.profile.conclusions import profiled
from minicompile.report.first_look.page import write_first_look
from minicompile.report.first_look.records import recorded as recorded_for_a_first_look
from minicompile.watching.watched import read_watched
from minilab.files import read_json

RECORD = Path(__file__).parents[1] / "results/recorded/h200"
FRESH = {"restored": {"from": "results/recorded/h200", "stale": False, "reasons": []}}
GPU, CPU = ("h200", "NVIDIA H200"), ("cpu-a", "A Chip")  # what pages call them


def first_look(folder: Path) -> None:
    """Write the first look at the records into a folder, as look.html; for the fixture `once`."""
    config = yaml.safe_load((RECORD.parents[2] / "config.yaml").read_text())
    write_first_look(recorded_for_a_first_look(config), config, folder / "look.html", "en")


class Page(NamedTuple):
    """What writes a page in a language, the artefacts that it is written from, and words with digits that it has."""

    write: Callable[[str], str]
    sources: list[Source]
    spelled: tuple[str, ...] = ()


@cache
def recorded(path: str) -> dict:
    """What a record holds, or what is concluded from that: a capture.json, a profile.json, a simulated_vs_real.json."""
    place = RECORD / path
    if (concluded := CONCLUDED.get(place.name)) is not None:
        return {**concluded(place.parent), **FRESH}
    return {**read_json(place), **FRESH}


def watched(path: str) -> dict:
    return read_watched(RECORD / path)


def _capture(folder: Path) -> dict:
    made = watched(folder / "watched.json.xz")
    return {**as_capture(made), "provenance": made["provenance"]}


def _profile(folder: Path) -> dict:
    made = read_json(folder / "profile_samples.json.xz")
    return {**profiled(made), "provenance": made["provenance"]}


def _compared(folder: Path) -> dict:
    simulated = watched(folder / "watched_simulated.json.xz")
    found = compare_with_real(as_capture(simulated), as_capture(watched(folder / "watched.json.xz")))
    return {**found, "provenance": simulated["provenance"]}


CONCLUDED = {"capture.json": _capture, "profile.json": _profile, "simulated_vs_real.json": _compared}


def elsewhere(made: dict) -> dict:
    """A GPU's artefact as a CPU would have measured it: every fraction is another one, and so is every ratio of two."""
    moved = {**_moved(made), "provenance": {**made["provenance"], "device": CPU[0]}}
    moved["provenance"]["hardware"] = {**made["provenance"]["hardware"], "gpu": None, "cpu": CPU[1]}
    if "roofline" in made:
        moved["roofline"]["name"] = CPU[1]
    for row in moved.get("timings", []):
        row["speedup"] = row["eager"]["median_us"] / row["compiled"]["median_us"]
    return moved


def _moved(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: _times(_moved(value), 1 - crc32(name.encode()) % 97 / 1000) for name, value in tree.items()}
    if isinstance(tree, list):
        return [
            _times(value, 1 - place / 1000) if isinstance(value, dict) else value for place, value in enumerate(tree)
        ]
    return tree


def _times(tree: Any, factor: float) -> Any:
    if isinstance(tree, dict):
        return {name: _times(value, factor) for name, value in tree.items()}
    if isinstance(tree, list):
        return [_times(value, factor) for value in tree]
    return tree * factor if isinstance(tree, float) else tree
