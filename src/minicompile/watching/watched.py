"""`Watched`: what the hooks saw of a compile, and nothing that is concluded from it. Plain data; no torch is needed.

schemas/watched.schema.yaml describes every field. A file of one is JSON, packed with xz where its name ends in `.xz`.
Names of graphs are numbers, folders of the machine and addresses of its memory are left out, so that two watches of one
compile are alike.
"""

import json
import lzma
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict, cast

from minilab import LabError
from minilab.files import read_object, write_bytes, write_json

FORMAT = 1
Kind = Literal["cpu", "cuda", "simulated"]
PRESET = 6  # of xz: the strongest takes ten times as long for a twentieth


class Watched(TypedDict):
    """What one compile of one model left in the hooks."""

    format: int
    model: dict[str, Any]  # `name`, `class`, `train`, `inputs`
    target: Kind
    device: str  # slug of what the code was made for
    gpu: str | None  # name of one that is here
    environment: dict[str, Any]
    seconds: float
    phases: dict[str, float]
    missing_hooks: list[str]
    absent: list[str]  # private functions of torch's that the watch on choices wanted
    compiles: list[dict]
    graph_breaks: list[dict]
    guards: list[str]
    sources: dict[str, list[str]]  # the lines of each file of the user's
    bytecode: list[dict]
    dynamo: list[dict]
    joint: list[dict]
    lowered: list[dict]
    warnings: list[dict]
    provenance: NotRequired[dict[str, Any]]
    restored: NotRequired[dict[str, Any]]


def is_watched(value: object) -> bool:
    """Whether a JSON object is a `Watched`, of whatever format, rather than a capture."""
    return isinstance(value, dict) and "lowered" in value and "panes" not in value


def checked(value: dict, what: str) -> Watched:
    """A `Watched` of today's format.

    Args:
        value: that `is_watched`.
        what: names it in a refusal.

    Raises:
        LabError: it is of a format that this version does not read, or lacks a part.
    """
    if (made := value.get("format")) != FORMAT:
        older = isinstance(made, int) and made < FORMAT
        advice = "watch the compile again" if older else "install a newer version of the lab"
        raise LabError(f"{what} was watched in format {made!r}, and this version reads {FORMAT}; {advice}.")
    if lacking := sorted(Watched.__required_keys__ - value.keys()):
        raise LabError(f"{what} is no whole watch of a compile: it has no {lacking[0]!r}; watch it again.")
    return cast(Watched, value)


def read_watched(path: str | Path) -> Watched:
    """Read a file of a `Watched`.

    Raises:
        LabError: there is none, it is no JSON object, or no `Watched` that this version reads.
    """
    value = read_object(path, "watch the compile again, or name another file.")
    if not is_watched(value):
        raise LabError(f"{path} holds no watched compile; name a watched.json.xz.")
    return checked(value, str(path))


def write_watched(path: str | Path, watched: Watched) -> None:
    """Write a `Watched`, packed where the name ends in `.xz`."""
    if Path(path).suffix == ".xz":
        text = json.dumps(watched, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        write_bytes(path, lzma.compress(text.encode(), preset=PRESET))
    else:
        write_json(path, watched)
