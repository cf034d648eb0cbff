"""The roofline model of one device: measured ceilings, and where each kernel lies beneath them.

After Williams, Waterman and Patterson, "Roofline: an insightful visual performance model" (2009): a kernel
that does I operations for each byte it moves runs at no more than min(peak, I x bandwidth).
"""

from math import inf
from statistics import median

from minikernel.ops.ladder.table import LADDERS
from minilab import LabError
from minilab.device import is_cpu, short_name
from minilab.pages.translations import Translations


def ridge(bandwidth_gb_per_s: float, peak_tflop_per_s: float) -> float:
    """The intensity, in FLOP/byte, from which on arithmetic and no longer memory is the limit."""
    return peak_tflop_per_s * 1e3 / bandwidth_gb_per_s


FUSED_HEAD = "linear_softmax"  # in full accuracy; its opt-in modes are not drawn


def panel(ceilings: dict, bench: dict, headline: list[int], heads: dict | None = None) -> dict:
    """What one panel of the picture shows, as plain data.

    Args:
        ceilings: a device's `ceilings.json`, measured or restored.
        bench: its `bench.json`.
        headline: [rows, cols] of the dots that carry labels.
        heads: its `head.json`, where there is one.

    Returns:
        device, hardware name, ceilings, datasheet, and one point a kernel with intensity (FLOP/byte), rate
        (TFLOP/s), time (microseconds), fraction of the copy, and whether it is stale, or above the roof and so not to
        be trusted; `head`, as `head` gives it, or None; of a CPU `fresh_copy`, the bandwidth of a copy that allocates
        its result as most kernels do, in GB/s and as a fraction of one that does not, and `streaming_copy` likewise, of
        one that does not read what it overwrites, else None; `bars`, the kernels from top to bottom: the fastest first,
        a CPU's rungs in their order.

    Raises:
        LabError: the bench has no row at the headline shape.
    """
    rows = of_one_copy([row for row in bench["rows"] if row["direction"] == "forward"])
    rows = [row for row in rows if [row["rows"], row["cols"]] == headline]
    made = bench["provenance"]
    if not rows:
        raise LabError(
            f"bench.json of {made['device']} has no row at the headline shape {headline}; add the shape to "
            f"bench.*.shapes, or choose another in roofline.headline."
        )
    gpu = made["hardware"]["gpu"]
    return {
        "device": made["device"],
        "name": short_name(gpu["name"] if gpu else made["hardware"]["cpu"]),
        "date": made["date"][:10],
        "restored": "restored" in bench,
        "stale_ceilings": ceilings.get("restored", {}).get("stale", False),
        "shape": headline,
        "dtype": rows[0]["dtype"],
        "ceilings": roofs(ceilings, rows[0], made["device"]),
        "datasheet": ceilings["datasheet"],
        "points": [
            {
                "kernel": row["kernel"],
                "flop_per_byte": row["flop_per_byte"],
                "tflop_per_s": row["tflop_per_s"],
                "median_us": row["median_us"],
                "fraction_of_copy": row["fraction_of_copy"],
                "stale": row["stale"],
                "above_roof": row["above_roof"],
            }
            for row in sorted(rows, key=trusted_us)
        ],
        "head": head(heads) if heads else None,
        "bars": bars({row["kernel"]: trusted_us(row) for row in rows}, made["device"]),
        "fresh_copy": another_copy(rows[0], "fresh_copy"),
        "streaming_copy": another_copy(rows[0], "streaming_copy"),
    }


def roofs(ceilings: dict, row: dict, device: str) -> dict[str, float | None]:
    """The ceilings by name, in GB/s and TFLOP/s.

    A CPU's memory is the copy that took turns with the kernels, of which the bars are shares. One that another job
    timed in another minute could put a dot above the slope while its bar stays under 100 %.
    """
    found = {key: value for key, value in ceilings.items() if key.endswith(("gb_per_s", "tflop_per_s"))}
    return found | ({"copy_gb_per_s": row["gb_per_s"] / row["fraction_of_copy"]} if is_cpu(device) else {})


def of_one_copy(rows: list[dict]) -> list[dict]:
    """The rows, each with its share of one and the same copy's bandwidth, the median of those timed beside them.

    A job of a kernel's own times a copy of its own; a share of that could contradict the times.
    """
    if not rows:
        return []
    copy = median(row["gb_per_s"] / row["fraction_of_copy"] for row in rows)
    return [{**row, "fraction_of_copy": row["gb_per_s"] / copy} for row in rows]


def trusted_us(row: dict) -> float:
    """A kernel's time in microseconds; infinite where it is shorter than any copy of the same bytes could take."""
    return inf if row["above_roof"] else row["median_us"]


def bars(median_us: dict[str, float], device: str) -> list[str]:
    """The kernels from top to bottom: the fastest first; on a CPU its rungs, the last one first, then the others."""
    fastest = sorted(median_us, key=lambda kernel: median_us[kernel])
    rungs = [rung for rung in reversed(LADDERS["C++"]) if rung in median_us] if is_cpu(device) else []
    return [*rungs, *(kernel for kernel in fastest if kernel not in rungs)]


def another_copy(row: dict, way: str) -> dict | None:
    """The bandwidth of another way to copy that was timed beside a row, in GB/s and as a fraction of a copy's."""
    if way not in row.get("samples_us", {}):
        return None
    share = row["copy_us"] / median(row["samples_us"][way])
    return {"gb_per_s": share * row["gb_per_s"] / row["fraction_of_copy"], "fraction_of_copy": share}


def head(heads: dict) -> dict | None:
    """The LM head, softmax(linear(h)), fused and not, at the most rows timed: where fusion moves it, and why.

    Args:
        heads: a device's `head.json`.

    Returns:
        rows, points as in `panel`, whether they are stale, and the fused point's intensity and time against the
        fastest unfused one's; None where not both were timed.
    """
    shown = [row for row in heads["rows"] if not row["fused"] or row["kernel"] == FUSED_HEAD]
    most = max((row["rows"] for row in shown), default=0)
    timed = sorted((row for row in shown if row["rows"] == most), key=lambda row: row["median_us"])
    fused = next((row for row in timed if row["fused"]), None)
    apart = next((row for row in timed if not row["fused"]), None)
    if fused is None or apart is None:
        return None
    stale = heads.get("restored", {}).get("stale", False)
    keys = ("kernel", "flop_per_byte", "tflop_per_s", "median_us")
    return {
        "rows": most,
        "points": [{key: row[key] for key in keys} | {"stale": stale} for row in timed],
        "unfused": apart["kernel"],
        "flop_per_byte": [apart["flop_per_byte"], fused["flop_per_byte"]],
        "speedup": apart["median_us"] / fused["median_us"],
    }


def head_caption(head: dict, language: str = "en") -> str:
    """What fusing the LM head does, in a few sentences with the figures of `head`."""
    text = Translations("minikernel.report", "figures", language)
    apart, fused = (text.number(intensity, ".3g") for intensity in head["flop_per_byte"])
    share = text.number(1 / head["speedup"], ".0%")
    return text("roofline.caption", rows=text.number(head["rows"], ","), apart=apart, fused=fused, share=share)
