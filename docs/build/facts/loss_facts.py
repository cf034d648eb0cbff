"""The figures of the head's loss that its concept page quotes: worked out from a GPU's measured limits."""

from itertools import groupby
from pathlib import Path

from minikernel.ops.linear_cross_entropy.paths import WIDEST
from minilab.device import short_name
from minilab.files import read_json

# a head of a usual size: tokens of a step, width, words
TOKENS, WIDTH, WORDS = 8192, 768, 50257
BYTES = 2  # of a logit in bfloat16
PASSES = 2  # over the logits by whoever writes them once and reads them once
PLAIN_PASSES = (
    6  # by plain PyTorch: logits written; read and written as log-probabilities; read, written and read as gradients
)
PICO = 1e12  # picoseconds in a second
STEADY = 1.1  # times the 20th percentile of one's calls the 80th may be


def loss_facts(record: Path) -> dict:
    """Collect what the page quotes.

    Args:
        record: folder of a GPU's record of stage 24.

    Returns:
        Sizes of a head in MiB; per logit in picoseconds, a product of some widths and a pass over memory; the width at
        which a product takes as long as writing the logit and reading it again; and what was timed, where a record of
        stage 27 lies beside.
    """
    made = read_json(record / "ceilings.json")
    copy, rate = made["copy_gb_per_s"] * 1e9, made["bf16_tflop_per_s"] * 1e12
    moved = BYTES / copy * PICO
    return {
        "name": short_name(made["provenance"]["hardware"]["gpu"]["name"]),
        "tokens": TOKENS,
        "width": WIDTH,
        "words": WORDS,
        "logits_mib": TOKENS * WORDS * BYTES / 2**20,
        "states_mib": TOKENS * WIDTH * BYTES / 2**20,
        "weight_mib": WORDS * WIDTH * BYTES / 2**20,
        "pass_ps": moved,
        "products": [{"width": width, "ps": 2 * width / rate * PICO} for width in (64, 256, 1024, 4096)],
        "measured": measured(record.parent / "27/loss.json"),
        "date": timed_on(record.parent / "27/loss.json"),
        "widest": WIDEST,
        "crossing": PASSES * moved / PICO * rate / 2,
    }


def timed_on(path: Path) -> str:
    """The day of a record, as a date; nothing where there is none."""
    return read_json(path)["provenance"]["date"][:10] if path.exists() else ""


def measured(path: Path) -> list[dict]:
    """What a logit took whoever computes it twice and whoever writes it, by width: a row for each shape of 16 bits.

    Args:
        path: of a GPU's `loss.json`; nothing where there is none.

    Returns:
        `width`, `words`; `lab` and `other`, picoseconds of a logit, loss and gradients; `who` is the fastest other;
        `lab_right` and `other_right`: whether the results have no larger error than their dtype must have; `ratio`,
        None where one's own calls differ by more than a tenth.
    """
    if not path.exists():
        return []
    timed = [
        row
        for row in read_json(path)["rows"]
        if row["refused"] is None and (row["dtype"], row["direction"]) == ("bfloat16", "both")
    ]
    found = []
    for (m, width, words), rows in groupby(timed, key=lambda row: (row["m"], row["d"], row["v"])):
        at = {row["who"]: row for row in rows}
        ours = at.pop("lab", None)
        if ours is not None and at:
            other = min(at.values(), key=lambda row: row["median_us"])
            own, others = (row["median_us"] / (m * words) / 1e6 * PICO for row in (ours, other))
            right = {"lab_right": ours["verdict"] == "right", "other_right": other["verdict"] == "right"}
            steady = all(row["p80_us"] <= STEADY * row["p20_us"] for row in (ours, other))
            found.append({"width": width, "words": words, "lab": own, "who": other["who"], "other": others, **right,
                          "ratio": others / own if steady else None})  # fmt: skip
    return sorted(found, key=lambda one: (one["width"], one["words"]))
