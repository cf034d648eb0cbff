"""What the contest of a GPU says: standards met and missed, gains, who was left out. Figures in, plain data out."""

import math
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path

import yaml

from minikernel.measure.contest.standards import DISPATCHED, HEAD, ITEMSIZE, OURS, REFERENCE
from minilab.device import short_name

HERE = Path(__file__).parent
PLACE = ("standard", "direction", "rows", "cols", "dtype")  # what an explanation in data/missed.yaml is found by


def explanations(language: str = "en") -> list[dict]:
    """Why standards are missed, as written in `data/missed.yaml`; in English where it lacks the language."""
    found = yaml.safe_load((HERE / "data/missed.yaml").read_text()) or []
    return [{key: entry[key] for key in (*PLACE, "tried", "profiler")} | entry.get(language, {}) for entry in found]


def contest_view(contest: dict, heads: dict | None, explained: list[dict]) -> dict:
    """What there is to say about one contest.

    Args:
        contest: a GPU's `contest.json`, measured or restored.
        heads: its `head.json`, where there is one.
        explained: as `explanations` gives them.
    """
    contest = with_heads(contest, heads)
    made = contest["provenance"]
    return {
        "device": made["device"],
        "name": short_name(made["hardware"]["gpu"]["name"]),
        "date": made["date"][:10],
        "restored": contest.get("restored"),
        "complete": contest["complete"],
        "copy_gb_per_s": contest["copy_gb_per_s"],
        "peers": {name: version for name, version in contest["peers"].items() if version},
        "missing_peers": [name for name, version in contest["peers"].items() if not version],
        "standards": standards(contest["standards"]),
        "missed": missed(contest["standards"], explained),
        "tables": tables(contest["rows"]),
        "layouts": {
            direction: by_layout(contest["rows"], direction, layout_of(direction, made))
            for direction in ("forward", "backward")
        },
        "head": head_gains(contest["head"]),
        "host": host_costs(contest["host"]),
        "left_out": left_out(contest["left_out"]),
    }


def with_heads(contest: dict, heads: dict | None) -> dict:
    """A contest whose LM heads are those that were timed by themselves, which all pages and pictures show."""
    if heads is None:
        return contest
    standards = [entry for entry in contest["standards"] if not entry["what"].startswith("head")]
    left_out = [out for out in contest["left_out"] if out.get("part") != "head"]
    return {
        **contest,
        "head": heads["rows"],
        "standards": [*standards, *heads["standards"]],
        "left_out": [*left_out, *heads["left_out"]],
    }


def is_peer(kernel: str) -> bool:
    """Whether a contestant is not the lab's: torch's own, or other people's."""
    return kernel not in (*OURS, DISPATCHED)


def distance(entry: dict) -> float:
    """How far an entry of `standards` is from its bar, as a share of it; below 0 where met, infinite if unmeasured."""
    if entry["value"] is None:
        return math.inf
    away = abs(entry["value"] / entry["bar"] - 1)
    return -away if entry["met"] else away


def standards(entries: list[dict]) -> list[dict]:
    """One line a standard and thing asked for: how many entries meet it, and the entry that is worst off."""
    asked = [(*key, list(held)) for key, held in groupby(sorted(entries, key=_asked), key=_asked)]
    return [
        {
            "standard": number,
            "what": what,
            "met": sum(entry["met"] for entry in held),
            "of": len(held),
            "within_noise": sum(entry["within_noise"] for entry in held),
            "worst": max(held, key=distance),
        }
        for number, what, held in asked
    ]


def missed(entries: list[dict], explained: list[dict]) -> dict:
    """Every missed entry, worst first within its standard, and why: each explanation once, with its places.

    Returns:
        rows: the missed entries, each with `by`, how far from the bar as a share of it, and `explained`.
        reasons: tried, profiler, the places of the missed entries that they are about, and if these are the LM head's.
    """
    at = {tuple(entry[key] for key in PLACE): entry for entry in explained}
    rows: list[dict] = []
    reasons: dict[tuple[str, str], dict[tuple, dict]] = {}
    for entry in sorted(entries, key=lambda entry: (*_asked(entry), -distance(entry))):
        if entry["met"]:
            continue
        place = tuple(entry[key] for key in PLACE)
        rows.append(entry | {"by": distance(entry), "explained": place in at})
        if place in at:
            why = at[place]["tried"].strip(), at[place]["profiler"].strip()
            reasons.setdefault(why, {})[place] = entry
    return {
        "rows": rows,
        "reasons": [
            {
                "tried": tried,
                "profiler": profiler,
                "places": list(places.values()),
                "of_head": all(entry["what"].startswith("head") for entry in places.values()),
            }
            for (tried, profiler), places in reasons.items()
        ],
    }


def tables(rows: list[dict]) -> list[dict]:
    """For each direction and dtype, a line a shape: the lab's best, the best of the others, and their ratio."""
    found: dict[tuple, dict[tuple, list]] = {}
    for row in rows:
        found.setdefault((row["direction"], row["dtype"]), {}).setdefault((row["cols"], row["rows"]), []).append(row)
    return [
        {"direction": direction, "dtype": dtype, "lines": [_line(shapes[shape]) for shape in sorted(shapes)]}
        for (direction, dtype), shapes in found.items()
    ]


def _line(rows: list[dict]) -> dict:
    ours = _fastest(row for row in rows if row["kernel"] in OURS)
    peer = _fastest(row for row in rows if is_peer(row["kernel"]))
    return {
        "rows": rows[0]["rows"],
        "cols": rows[0]["cols"],
        "ours": ours,
        "peer": peer,
        "ratio": ours["median_us"] / peer["median_us"] if ours and peer else None,
        "noise": max(row["noise_floor"] for row in rows),
    }


# Of a block at most, by compute capability: CUDA's programming guide, table of technical specifications.
SHARED_KB = {"8.0": 163, "8.6": 99, "8.7": 163, "8.9": 99, "9.0": 227, "10.0": 227, "10.3": 227, "12.0": 99, "12.1": 99}


def layout_of(direction: str, made: dict) -> Callable[[int, int], str]:
    """(columns, bytes of an element) -> the CUDA C kernel that takes such rows on the device of a provenance."""
    from minikernel.ops import softmax_cuda, softmax_fused
    from minikernel.ops import softmax_cuda_backward as softmax_backward

    capability = made["hardware"]["gpu"]["compute_cap"]
    clusters = softmax_cuda.largest_cluster(int(capability.split(".")[0]))

    def forward(cols: int, itemsize: int) -> str:
        aligned = cols * itemsize % softmax_cuda.VECTOR_BYTES == 0
        room = softmax_cuda.Limits(SHARED_KB.get(capability, min(SHARED_KB.values())) * 1024, clusters)
        return softmax_fused.layout_for(cols, itemsize, aligned, room).kernel

    def backward(cols: int, itemsize: int) -> str:
        return softmax_backward.layout_for(cols, itemsize, clusters).kernel

    return forward if direction == "forward" else backward


def by_layout(rows: list[dict], direction: str, layout: Callable[[int, int], str]) -> list[dict]:
    """`fused` by the kernel that its table picks: the widths it took, and its gains there, least and most.

    At each width the shape with the most rows counts, where memory and not the launch is the limit.
    """
    held = [row for row in rows if row["direction"] == direction]
    most = {row["cols"]: max(other["rows"] for other in held if other["cols"] == row["cols"]) for row in held}
    times: dict[tuple, dict[str, float]] = {}
    for row in held:
        times.setdefault((row["rows"], row["cols"], row["dtype"]), {})[row["kernel"]] = row["median_us"]
    found: dict[str, list[dict]] = {}
    for row in sorted(held, key=lambda row: (row["cols"], row["dtype"] != "float32")):
        if row["kernel"] != "fused" or row["rows"] != most[row["cols"]]:
            continue
        others = times[row["rows"], row["cols"], row["dtype"]]
        peers = [us for kernel, us in others.items() if is_peer(kernel)]
        found.setdefault(layout(row["cols"], ITEMSIZE[row["dtype"]]), []).append(
            {
                "cols": row["cols"],
                "dtype": row["dtype"],
                "fraction_of_copy": row["fraction_of_copy"],
                "to_reference": others[REFERENCE] / row["median_us"] if REFERENCE in others else None,
                "to_peer": min(peers) / row["median_us"] if peers else None,
            }
        )
    return [
        {"kernel": kernel, "shapes": shapes}
        | {key: _span(shapes, key) for key in ("fraction_of_copy", "to_reference", "to_peer")}
        for kernel, shapes in found.items()
    ]


def head_gains(head: list[dict]) -> dict | None:
    """The LM head: names of the contestants, and a line for each number of rows.

    A line's `at` has the contestants' rows by name; its `gains`, how many times as fast as each unfused one the
    fused one is. `unfused` are the numbers of rows that the lab does not fuse. None where no head was timed.
    """
    if not head:
        return None
    lines: dict[int, dict] = {}
    for row in sorted(head, key=lambda row: row["rows"]):
        lines.setdefault(row["rows"], {})[row["kernel"]] = row
    return {
        "kernels": list(dict.fromkeys(row["kernel"] for row in head)),
        "lines": [{"rows": rows, "at": at, "gains": _gains(at)} for rows, at in lines.items()],
        "unfused": [_unfused(rows, at) for rows, at in lines.items() if HEAD in at and not at[HEAD]["fused"]],
    }


def _gains(at: dict[str, dict]) -> dict[str, float]:
    """How many times as fast as each unfused head the lab's is; nothing where it was not timed."""
    apart = {name: row["median_us"] for name, row in at.items() if not row["fused"]}
    return {name: us / at[HEAD]["median_us"] for name, us in apart.items()} if HEAD in at else {}


def _unfused(rows: int, at: dict[str, dict]) -> dict:
    """A number of rows at which the lab's head computes as eager does, and who is faster there beyond the noise."""
    us = at[HEAD]["median_us"]
    return {"rows": rows, "faster": [name for name, r in at.items() if us / r["median_us"] - 1 > r["noise_floor"]]}


def host_costs(rows: list[dict]) -> dict | None:
    """What a call costs the host: names of the callers, and a line a shape, dtype and whether a gradient is asked for.

    A line's `at` has the callers' rows by name. `without_gradient` are those that were never asked for one, while
    others were. None where no call was timed.
    """
    if not rows:
        return None
    asked = {row["kernel"] for row in rows if row["requires_grad"]}
    keys = ("rows", "cols", "dtype", "requires_grad", "noise_floor")
    lines: dict[tuple, dict] = {}
    for row in rows:
        lines.setdefault(tuple(row[key] for key in keys), {})[row["kernel"]] = row
    return {
        "kernels": list(dict.fromkeys(row["kernel"] for row in rows)),
        "lines": [dict(zip(keys, place, strict=True)) | {"at": at} for place, at in lines.items()],
        "without_gradient": sorted({row["kernel"] for row in rows} - asked) if asked else [],
    }


def left_out(entries: list[dict]) -> list[dict]:
    """Who was left out of which part, why, and where: shapes of the same part, kernel and reason together."""
    keys = ("part", "direction", "kernel", "reason")
    found: dict[tuple, list[dict]] = {}
    for entry in entries:
        found.setdefault(tuple(str(entry[key]) for key in keys), []).append(entry)
    return [{key: shapes[0][key] for key in keys} | {"shapes": shapes} for shapes in found.values()]


def _asked(entry: dict) -> tuple:
    return entry["standard"], entry["what"]


def _fastest(rows: Iterable[dict]) -> dict | None:
    return min(rows, key=lambda row: row["median_us"], default=None)


def _span(shapes: list[dict], key: str) -> tuple[float, float] | None:
    values = [shape[key] for shape in shapes if shape[key] is not None]
    return (min(values), max(values)) if values else None
