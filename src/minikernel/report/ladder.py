"""What a CPU's rungs gained and what they ran into: pages, the exponential, lines of memory, as plain data.

Each sentence is a code and fields, chosen by the figures; `templates/ladder_24.md` and its twin word them.
"""

from statistics import median, quantiles

from minikernel.ops.ladder.table import LADDERS
from minilab.device import short_name

RUNGS = LADDERS["C++"]
REFERENCE, COPY, FRESH_COPY, STREAMING_COPY = "F.softmax", "copy", "fresh_copy", "streaming_copy"
WAY = {REFERENCE: "fresh_softmax"}  # what a kernel of the bench is called among the calls that were counted
FEW_FAULTS = 0.01  # of a fresh copy's: who meets no more uses memory that is there


def ladder(bench: dict, allocation: dict, headline: list[int]) -> dict | None:
    """What there is to draw and to say of a CPU's rungs.

    Args:
        bench: a CPU's `bench.json`.
        allocation: its `allocation.json`.
        headline: [rows, cols] of the shape that is shown.

    Returns:
        name, date, shape, threads; `bars`, the rungs in their order, F.softmax and a plain copy, each with its time
        (milliseconds), whether that is shorter than a copy's could be, its speed in F.softmax's, its share of a copy's
        bandwidth that gets its memory alike, page faults, milliseconds in the operating system, bytes from memory
        (None where nothing counts them), and the cycles of its exponential (None where it has none of the lab's);
        `sentences`.
        None where no rung was timed.
    """
    rows = {row["kernel"]: row for row in bench["rows"] if [row["rows"], row["cols"]] == headline}
    rungs = [rung for rung in RUNGS if rung in rows and rung in allocation["ways"]]
    if not rungs:
        return None
    us = {name: rows[name]["median_us"] for name in (*rungs, REFERENCE)} | {COPY: rows[rungs[-1]]["copy_us"]}
    made = bench["provenance"]
    return {
        "name": short_name(made["hardware"]["cpu"]),
        "date": made["date"][:10],
        "shape": headline,
        "threads": allocation["threads"],
        "bars": [_bar(name, us[name], rows, allocation) for name in us],
        "sentences": sentences(allocation, rows[rungs[-1]]),
    }


def _bar(name: str, us: float, rows: dict[str, dict], allocation: dict) -> dict:
    way, alone = allocation["ways"][WAY.get(name, name)], allocation["exponential"]
    which = "libm" if name == RUNGS[0] else "vector" if name in RUNGS else None
    exponential = alone["of"][which] if alone and which else None
    above_roof = name in rows and rows[name]["above_roof"]
    return {
        "kernel": name,
        "ms": us / 1e3,
        "above_roof": above_roof,
        "speed_up": rows[REFERENCE]["median_us"] / us,
        "alike": share_alike(rows[name], allocation) if name in rows and not above_roof else None,
        "page_faults": way["page_faults"],
        "system_ms": way["system_us"] / 1e3,
        "gigabytes": gigabytes(way, allocation["line_bytes"]),
        "exponential_cycles": exponential and exponential["cycles"],
    }


def gigabytes(way: dict, line_bytes: int | None) -> float | None:
    """What a call fetched from memory, by the lines that no cache held; None where nothing counts them."""
    if way["cache_misses"] is None or line_bytes is None:
        return None
    return way["cache_misses"] * line_bytes / 1e9


def reuses(allocation: dict, kernel: str) -> bool:
    """Whether a kernel's result lies in memory that is there: it meets few of the page faults that a fresh one does."""
    ways = allocation["ways"]
    return ways[WAY.get(kernel, kernel)]["page_faults"] <= FEW_FAULTS * ways[FRESH_COPY]["page_faults"]


def share_alike(row: dict, allocation: dict) -> float | None:
    """A kernel's share of the bandwidth of a copy that gets its memory as it does, timed beside it; None if unknown."""
    if WAY.get(row["kernel"], row["kernel"]) not in allocation["ways"] or FRESH_COPY not in row.get("samples_us", {}):
        return None
    copy = COPY if reuses(allocation, row["kernel"]) else FRESH_COPY
    return median(row["samples_us"][copy]) / row["median_us"]


def sentences(allocation: dict, timed: dict) -> list[dict]:
    """What follows from the calls that were counted, each as a code with its fields.

    Args:
        allocation: a CPU's `allocation.json`.
        timed: a row of its bench, beside which copies were timed; empty where no rung was.
    """
    ways = allocation["ways"]
    rungs = [rung for rung in RUNGS if rung in ways]
    if not rungs:
        return [{"code": "no_compiler"}]
    return [
        *_pages(allocation, rungs),
        *_exponential(allocation["exponential"]),
        _memory(allocation, rungs, timed.get("samples_us", {})),
        *({"code": f"without_{code}"} for code in allocation["build"]["left_out"]),
        *([{"code": "one_thread"}] if allocation["threads"] == 1 else []),
    ]


def _pages(allocation: dict, rungs: list[str]) -> list[dict]:
    ways = allocation["ways"]
    faulting = [rung for rung in rungs if not reuses(allocation, rung)]
    if not faulting:
        return []
    last = ways[faulting[-1]]
    told = {
        "code": "pages",
        "kernel": faulting[-1],
        "faults": last["page_faults"],
        "pages": allocation["bytes"] / allocation["page_bytes"],
        "page_kb": allocation["page_bytes"] / 1024,
        "system_ms": last["system_us"] / 1e3,
        "ms": last["median_us"] / 1e3,
    }
    reusing = [rung for rung in rungs if rung not in faulting]
    none = [{"code": "no_pages", "kernel": rung, "faults": ways[rung]["page_faults"]} for rung in reusing]
    return [told, *none]


def _exponential(alone: dict) -> list[dict]:
    libm, vector = alone["of"]["libm"], alone["of"]["vector"]
    times = libm["ns"] / vector["ns"]
    told = {"libm": libm["cycles"], "vector": vector["cycles"], "times": times, "counted": alone["cycles_counted"]}
    return [{"code": "exponential", "clock_ghz": alone["clock_ghz"], **told}] if times > 1 else []


def _memory(allocation: dict, rungs: list[str], samples: dict[str, list[float]]) -> dict:
    ways = allocation["ways"]
    fetched = {rung: gigabytes(ways[rung], allocation["line_bytes"]) for rung in rungs}
    before, last = fetched[rungs[-2]], fetched[rungs[-1]]
    if before is not None and last is not None:
        told = {"before": rungs[-2], "last": rungs[-1], "before_gb": before, "last_gb": last}
        return {"code": "fetched", "logits_gb": allocation["bytes"] / 1e9, **told}
    told = {"state": allocation["counters"]["cache_misses"]}
    plain, streaming = samples.get(COPY, []), samples.get(STREAMING_COPY, [])
    if len(plain) > 1 and len(streaming) > 1 and quantiles(streaming, n=5)[-1] < quantiles(plain, n=5)[0]:
        return {"code": "copies", "share": median(streaming) / median(plain), **told}
    return {"code": "copies_level", **told}
