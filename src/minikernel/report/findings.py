"""The five sentences that a report of stage 24 begins with: asked, found, surprising, not known, what to look at next.

Each is a code and fields, chosen by the figures; `templates/findings_24.md` and its twin word them.
"""

WRITTEN_BY_HAND = ("fused", "triton", "smem", "naive")
PLAINEST, COMPILED = "naive", "compile"
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
    best = min(rows.values(), key=lambda row: row["median_us"])
    plainest = rows.get(PLAINEST)
    return {
        "code": "near_a_copy",
        "name": device["name"],
        "shape": device["shapes"][-1],
        "kernel": best["kernel"],
        "share": best["fraction_of_copy"],
        "plainest": plainest and PLAINEST,
        "plainest_share": plainest and plainest["fraction_of_copy"],
    }


def _surprising(devices: list[dict], allocations: list[dict]) -> dict:
    for cost in allocations:
        ratio = cost["ms"]["fresh_copy"] / cost["ms"]["copy"]
        if ratio > SLOW_MEMORY:
            return {"code": "fresh_memory", "name": cost["name"], "ratio": ratio}
    for device in devices:
        rows = _largest(device)
        ours = [rows[name] for name in WRITTEN_BY_HAND if name in rows]
        if ours and COMPILED in rows:
            best = min(ours, key=lambda row: row["median_us"])
            # Each was timed in a process of its own, so each is held against F.softmax in that process.
            ratio = rows[COMPILED]["ratio_to_reference"] / best["ratio_to_reference"]
            return {"code": "compiler", "name": device["name"], "kernel": best["kernel"], "ratio": ratio}
    return {"code": "no_surprise"}


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
    return {"code": "misses", "count": len(missed), "of": sum(line["of"] for line in contest["standards"])}


def _largest(device: dict) -> dict[str, dict]:
    """A device's rows at its largest shape, by kernel."""
    return {kernel["name"]: kernel["rows"][-1] for kernel in device["kernels"] if kernel["rows"][-1]}
