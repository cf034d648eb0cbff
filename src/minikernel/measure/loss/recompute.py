"""What follows from the raw samples of `loss.json`, computed again: for records that are verified."""

from minikernel.measure.loss.contest import figures
from minikernel.measure.noise import DUPLICATE


def loss(artefact: dict) -> dict:
    """The figures of every row that was timed, from the samples in it and in the row that was timed twice."""
    at = ("m", "d", "v", "dtype", "direction")
    twice = {tuple(row[key] for key in at): row for row in artefact["rows"] if DUPLICATE in row["samples_us"]}
    rows = []
    for row in artefact["rows"]:
        if row["refused"] is None:
            kept = twice[tuple(row[key] for key in at)]["samples_us"]
            found = figures(row["samples_us"][row["who"]], kept[row["duplicated"]], kept[DUPLICATE])
            rows.append({**row, **found})
        else:
            rows.append(row)
    return {**artefact, "rows": rows}
