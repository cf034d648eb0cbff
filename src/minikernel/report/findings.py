"""The five sentences that a report of stage 24 begins with: asked, found, surprising, not known, what to look at next.

Each is a code and fields, chosen by the figures; `templates/findings_24.md` and its twin word them.
"""

from minikernel.ops.ladder.table import LADDERS

WRITTEN_BY_HAND = [rung for ladder in LADDERS.values() for rung in ladder]
PLAINEST = [LADDERS[language][0] for language in ("CUDA C", "C++")]  # the loop from the textbook
COMPILED = "compile"
SLOW_MEMORY = 1.5  # times a copy's time from which on a fresh result is a surprise


def findings(devices: list[dict], allocations: list[dict], contest: dict | None) -> list[dict]:
    """What the report begins with.

    Args:
        devices: as `stage_24.device_view` gives them, the most telling one first.
        allocations: as `stage_24.allocation_view` gives them.
        contest: as `contest_report.contest_view` gives it, or None.
    """
    return [
        {"code": "asked"},
        _found(devices[0]),
        _surprising(devices, allocations),
        _not_known(devices[0], contest),
        _next(contest),
    ]


def _found(device: dict) -> dict:
    rows = _largest(device)
    if not rows:
        return {"code": "none_trusted", "name": device["name"]}
    best = min(rows.values(), key=lambda row: row["median_us"])
    plainest = next((rows[name] for name in PLAINEST if name in rows), None)
    return {
        "code": "near_a_copy",
        "name": device["name"],
        "shape": device["shapes"][-1],
        "kernel": best["kernel"],
        "share": best["fraction_of_copy"],
        "plainest": plainest and plainest["kernel"],
        "plainest_share": plainest and plainest["fraction_of_copy"],
    }


def _surprising(devices: list[dict], allocations: list[dict]) -> dict:
    for cost in allocations:
        ratio = cost["ms"]["fresh_copy"] / cost["ms"]["copy"]
        if cost["slower"] and ratio > SLOW_MEMORY:
            return {"code": "fresh_memory", "name": cost["name"], "ratio": ratio}
    for device in devices:
        rows = _largest(device)
        ours = [rows[name] for name in WRITTEN_BY_HAND if name in rows]
        if ours and COMPILED in rows:
            best, compiled = min(ours, key=lambda row: row["median_us"]), rows[COMPILED]
            told = {"name": device["name"], "kernel": best["kernel"]}
            if is_within_noise(compiled, best):
                return {"code": "compiler_level", **told}
            return {"code": "compiler", **told, "ratio": times_as_long(compiled, best)}
    return {"code": "no_surprise"}


def times_as_long(row: dict, other: dict) -> float:
    """How many times as long as another kernel one takes at the same shape.

    Each was timed in a process of its own, so each is held against F.softmax in that process.
    """
    return row["ratio_to_reference"] / other["ratio_to_reference"]


def is_within_noise(row: dict, other: dict) -> bool:
    """Whether two kernels differ by no more than timing one of them twice does."""
    return abs(times_as_long(row, other) - 1) <= max(row["noise_floor"], other["noise_floor"])


def _not_known(device: dict, contest: dict | None) -> dict:
    if contest is None:
        return {"code": "no_contest"}
    unexplained = sum(not row["explained"] for row in contest["missed"]["rows"])
    if unexplained:
        return {"code": "unexplained", "count": unexplained}
    return {"code": "one_machine", "name": device["name"]}


def _next(contest: dict | None) -> dict:
    if contest is None or not contest["missed"]["rows"]:
        return {"code": "why_memory"}
    missed = contest["missed"]["rows"]
    explained = all(row["explained"] for row in missed)
    of = sum(line["of"] for line in contest["standards"])
    return {"code": "misses", "count": len(missed), "of": of, "explained": explained}


def _largest(device: dict) -> dict[str, dict]:
    """A device's rows at its largest shape, by kernel, without those that are faster than a copy could be."""
    rows = {kernel["name"]: kernel["rows"][-1] for kernel in device["kernels"] if kernel["rows"][-1]}
    return {name: row for name, row in rows.items() if not row["above_roof"]}
