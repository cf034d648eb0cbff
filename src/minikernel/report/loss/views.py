"""What there is to show of `loss.json` and `loss_correctness.json`: places with all rows, cases with verdicts."""

import math
from dataclasses import dataclass, field
from typing import Any

from minilab import LabError
from minilab.device import short_name

LAB, EAGER = "lab", "eager"  # as the artefacts name them
BOTH, FORWARD = "both", "forward"
RIGHT, WRONG, REFUSED = "right", "wrong", "refused"
SHORT = {"bfloat16": "bf16", "float32": "fp32", "float16": "fp16"}


@dataclass(frozen=True)
class Place:
    """One shape and dtype.

    Attributes:
        rows: who -> the row of a loss with its gradients, of those who were timed.
        forward: who -> the row of a loss alone.
        refused: who -> why not.
    """

    m: int
    d: int
    v: int
    dtype: str
    rows: dict[str, dict]
    forward: dict[str, dict]
    refused: dict[str, dict]

    @property
    def flop(self) -> int:
        """Of the three products: the logits, and both gradients."""
        return 6 * self.m * self.d * self.v

    def fastest(self, others: bool = False) -> dict | None:
        """The row of whoever is fastest, or of the fastest of the others than the lab."""
        rows = (row for who, row in self.rows.items() if not (others and who == LAB))
        return min(rows, key=lambda row: row["median_us"], default=None)

    def leanest(self) -> dict | None:
        """The row of whoever takes least memory; None where nothing tells."""
        rows = (row for row in self.rows.values() if row["peak_mib"] is not None)
        return min(rows, key=lambda row: row["peak_mib"], default=None)


@dataclass(frozen=True)
class Shown:
    """What a picture or page shows of one device's `loss.json`."""

    name: str
    date: str
    restored: dict | None
    places: list[Place]
    versions: dict[str, str | None] = field(default_factory=dict)
    complete: bool = True

    @property
    def stale(self) -> bool:
        return bool(self.restored and self.restored["stale"])


def shown(made: dict) -> Shown:
    """Sort a device's `loss.json` by place."""
    at: dict[tuple, list[dict]] = {}
    for row in made["rows"]:
        at.setdefault((row["m"], row["d"], row["v"], row["dtype"]), []).append(row)
    return Shown(
        **origin(made),
        places=[place(key, rows) for key, rows in at.items()],
        versions=made["versions"],
        complete=made["complete"],
    )


def origin(made: dict) -> dict[str, Any]:
    """Of an artefact's device: its name, the date, and from where it was restored."""
    hardware = made["provenance"]["hardware"]
    name = short_name((hardware["gpu"] or {}).get("name") or hardware["cpu"])
    return {"name": name, "date": made["provenance"]["date"][:10], "restored": made.get("restored")}


def place(key: tuple, rows: list[dict]) -> Place:
    """One place, from its rows."""
    timed: dict[str, dict] = {BOTH: {}, FORWARD: {}}
    for row in rows:
        if row["refused"] is None:
            timed[row["direction"]][row["who"]] = row
    refused = {row["who"]: row["refused"] for row in rows if row["refused"] and row["direction"] == BOTH}
    m, d, v, dtype = key
    return Place(m, d, v, dtype, timed[BOTH], timed[FORWARD], refused)


def table(made: dict) -> dict:
    """`loss_correctness.json` as a table.

    Returns:
        `who`: those with a verdict; `cases`: code -> {who: what the verdicts are}, as `cell` gives them; `left`: who
        was refused or is absent everywhere, with the reasons; `counts`: who -> right, wrong and refused.
    """
    by: dict[str, dict[str, list[dict]]] = {}
    for row in made["cases"]:
        by.setdefault(row["case"], {}).setdefault(row["who"], []).append(row)
    everybody = list(dict.fromkeys(row["who"] for row in made["cases"]))
    judged = {row["who"] for row in made["cases"] if row["verdict"] in (RIGHT, WRONG)}
    reasons = {
        who: next(row["reason"] for row in made["cases"] if row["who"] == who) for who in everybody if who not in judged
    }
    counts = {who: counted([row for row in made["cases"] if row["who"] == who]) for who in everybody}
    return {
        "who": [who for who in everybody if who in judged],
        "cases": {case: {who: cell(rows) for who, rows in by_who.items()} for case, by_who in by.items()},
        "left": reasons,
        "counts": counts,
    }


def cell(rows: list[dict]) -> dict:
    """One's verdicts on a case, over its dtypes: the dtypes in which it is right, those with how far over, refusals.

    Of several widths in one dtype the worst counts.
    """
    worst: dict[str, dict] = {}
    for row in rows:
        if row["dtype"] not in worst or badness(row) > badness(worst[row["dtype"]]):
            worst[row["dtype"]] = row
    return {
        "right": [SHORT[name] for name, row in worst.items() if row["verdict"] == RIGHT],
        "wrong": [{"dtype": SHORT[name], "over": over(row)} for name, row in worst.items() if row["verdict"] == WRONG],
        "refused": [name for name, row in worst.items() if row["verdict"] not in (RIGHT, WRONG) and not untried(row)],
    }


def badness(row: dict) -> float:
    """How much a row weighs beside others of its case: not tried least, then right, refused, and wrong by its error."""
    if row["verdict"] == WRONG:
        return over(row) or math.inf
    return -1.0 if untried(row) else 0.0 if row["verdict"] == RIGHT else 0.5


def counted(rows: list[dict]) -> dict[str, int]:
    """How many of one's cases are right, wrong and refused; the rest was not tried."""
    tried = [row["verdict"] for row in rows if not untried(row)]
    return {kind: tried.count(kind) for kind in (RIGHT, WRONG, REFUSED)}


def untried(row: dict) -> bool:
    """Whether somebody was not asked, because the time for compiling was over; that is no refusal of its own."""
    return bool(row["reason"]) and row["reason"]["code"] == "compile_time_used_up"


def over(row: dict) -> float | None:
    """How many times what is allowed an error is; None where it is wrong in kind."""
    return row["error"] / row["allowed"] if row["error"] is not None and row["allowed"] else None


def some(paths: list[str], wanted: str) -> list[str]:
    """The paths, if there are any.

    Raises:
        LabError: nothing is measured here, and no record holds it.
    """
    if not paths:
        raise LabError(
            "there is no device here or in the record on which the head's loss was timed; on one that measures, run "
            f"`snakemake --cores 4 {wanted}`."
        )
    return paths
