"""What there is to show of `model.json`: its rows by shape and rung, the best compiled mode, the floors."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from minikernel.measure.model.bars import best_compiled
from minikernel.measure.model.names import OURS
from minilab import LabError
from minilab.device import short_name

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Place:
    """One shape.

    Attributes:
        rows: rung -> its row in float32.
        coarse: rung -> its row in bfloat16.
        best: the row of torch.compile's fastest mode by the device's clock, in float32; None where none was timed.
        floor_us: what has been argued that a pass takes at least, from measured parts; None where nothing has been.
    """

    batch: int
    time: int
    rows: dict[str, dict]
    coarse: dict[str, dict]
    best: dict | None
    floor_us: float | None

    @property
    def shape(self) -> tuple[int, int]:
        return (self.batch, self.time)

    @property
    def ours(self) -> list[tuple[str, dict]]:
        """The lab's rungs with a name for each, those in bfloat16 last."""
        exact = [(rung, self.rows[rung]) for rung in OURS if rung in self.rows]
        return exact + [(f"{rung}, bf16", self.coarse[rung]) for rung in OURS[-1:] if rung in self.coarse]


@dataclass(frozen=True)
class Shown:
    """Everything of an artefact that a picture or page shows of its device."""

    name: str
    date: str
    restored: dict | None
    empty_us: float
    places: list[Place]

    @property
    def stale(self) -> bool:
        return bool(self.restored and self.restored["stale"])


def the_only(paths: Sequence[str], wanted: str) -> str:
    """The path of the headline GPU's `model.json`.

    Raises:
        LabError: no GPU is here or in the record.
    """
    if not paths:
        raise LabError(
            f"there is no GPU here or in the record, so the whole model was timed on none; on a machine with one run "
            f"`snakemake --cores 4 {wanted}`."
        )
    return paths[0]


def shown(made: dict) -> Shown:
    """Sort `model.json` by shape and rung."""
    provenance = made["provenance"]
    hardware = provenance["hardware"]
    return Shown(
        name=short_name((hardware["gpu"] or {}).get("name") or hardware["cpu"]),
        date=provenance["date"][:10],
        restored=made.get("restored"),
        empty_us=made["empty_us"],
        places=[place for batch, time in made["shapes"] if (place := _place(made, batch, time)).rows],
    )


def _place(made: dict, batch: int, time: int) -> Place:
    here = [row for row in made["forward"] if (row["batch"], row["time"]) == (batch, time)]
    rows, coarse = ({row["rung"]: row for row in here if row["dtype"] == dtype} for dtype in ("float32", "bfloat16"))
    at = {(batch, time, "float32", rung): row for rung, row in rows.items()}
    return Place(batch, time, rows, coarse, best_compiled(at, (batch, time), "float32"), floor(made, batch, time))


def floor(made: dict, batch: int, time: int) -> float | None:
    """The argued floor of a shape, microseconds; none on another GPU than the one whose parts were measured apart."""
    place = {"device": made["provenance"]["device"], "batch": batch, "time": time}
    return next((one["us"] for one in _floors() if place.items() <= one.items()), None)


@cache
def _floors() -> list[dict]:
    return yaml.safe_load((HERE / "data/floors.yaml").read_text())
