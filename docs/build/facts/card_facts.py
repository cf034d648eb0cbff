"""The same kernels on two cards: what one record says, and what a second one adds where there is one."""

from pathlib import Path
from typing import cast

from minicompile.torch_private.simulated import PROPERTIES
from minikernel.measure.cost import softmax_bytes
from minikernel.ops.ladder.table import LADDERS
from minikernel.report.roofline import of_one_copy
from minikernel.report.two_cards import Card, expected, waits_for
from minilab.device import is_cpu, short_name
from minilab.files import read_json

KERNELS = (*LADDERS["CUDA C"], *LADDERS["Triton"])


def card_facts(record: Path, headline: list[int]) -> dict:
    """Collect what the page says of a card, and of another one beside it.

    Args:
        record: folder of the first card's record of stage 24, `.../{device}/24`; others lie beside `{device}`.
        headline: [rows, cols] of the softmax.

    Returns:
        `first`, and `second` where another GPU's record holds the same shape, else None. Of each card `name`, `date`,
        `copy_gb_per_s`, `multiprocessors`, `latency_ns` (None where it was not measured), `memory_row_ns`, what a copy
        of a row costs a multiprocessor's share, and `kernels`; of the second's kernels also what was expected of them.
    """
    found = [card_of(record, headline)]
    for other in sorted(record.parent.parent.glob("*/24")):
        if other.parent != record.parent and not is_cpu(other.parent.name) and (other / "ceilings.json").exists():
            found.append(card_of(other, headline))
    first, second = found[0], next((one for one in found[1:] if one["kernels"]), None)
    if second:
        rows, cols = headline
        of, on = (Card(*(one[field] for field in Card._fields)) for one in (first, second))
        for kernel, there in second["kernels"].items():
            if kernel in first["kernels"]:
                told = expected(first["kernels"][kernel]["us"], softmax_bytes(rows, cols, 4), of, on)
                there |= {**told._asdict(), "waits_for": waits_for(there["us"], told)}
    return {"rows": headline[0], "cols": headline[1], "first": first, "second": second}


def card_of(record: Path, headline: list[int]) -> dict:
    """What a card's record says by itself."""
    bench, ceilings = read_json(record / "bench.json"), read_json(record / "ceilings.json")
    gpu = bench["provenance"]["hardware"]["gpu"]
    rows, cols = headline
    card = Card(
        ceilings["copy_gb_per_s"],
        # records of before it was noted are of the H200 alone
        ceilings.get("multiprocessors") or cast(int, PROPERTIES["multi_processor_count"]),
        float(gpu["clocks.max.sm"].split()[0]),
    )
    timed = of_one_copy([row for row in bench["rows"] if row["direction"] == "forward"])
    at = {row["kernel"]: row for row in timed if [row["rows"], row["cols"]] == headline and row["dtype"] == "float32"}
    memory_row_ns = card.row_ns(card.memory_us(softmax_bytes(rows, cols, 4)), rows)
    latency = ceilings.get("latency_ns")
    return {
        **card._asdict(),
        "name": short_name(gpu["name"]),
        "date": bench["provenance"]["date"][:10],
        "latency_ns": latency,
        "memory_row_ns": memory_row_ns,
        # Little's law: how many rows a multiprocessor has to have asked for at once
        "rows_in_flight": latency and latency / memory_row_ns,
        "kernels": {
            kernel: {
                "us": at[kernel]["median_us"],
                "of_copy": at[kernel]["fraction_of_copy"],
                "row_ns": card.row_ns(at[kernel]["median_us"], rows),
            }
            for kernel in KERNELS
            if kernel in at
        },
    }
