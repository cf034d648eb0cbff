"""The lab's standards for its softmax, held against a contest: each with our value, the bar, and whether it is met.

They are exact: a ratio of 1.003 misses 1. Beside each miss stands whether the noise floor could explain it.
What could not be measured is not met.
"""

from collections.abc import Iterator

from minikernel.measure.cost import softmax_bytes
from minikernel.measure.rows import Compared, Judgement, Standard, StandardPlace

OURS = ("fused", "triton", "smem", "naive")
DISPATCHED = "softmax"  # launches one of ours: a kernel that is timed twice would have two chances to be the best
LEFT_OUT_ALL = "all"  # stands in `left_out` for every kernel at a shape
REFERENCE, HEAD, HEAD_PEER = "F.softmax", "linear_softmax", "compile"
COPY = "copy"
CACHES = 3  # the data exceed three times the last-level cache
WIDE, GPT2_VOCABULARY = 32768, 50257
TRITON_SHARE, SPEED_RATIO, WIDE_SHARE = 0.95, 1.0, 0.95
COPY_SHARE = {"forward": 0.97, "backward": 0.98}
NUMBER = {"forward": 1, "backward": 4}
HEAD_SPEED_UP = {4096: 1.5, 65536: 2.5, 1048576: 2.5}  # rows -> times as fast as torch.compile
HEAD_COLS, HEAD_ERROR = 600, 1e-6
TIMINGS = {"events": ("median_us", "noise_floor"), "graphs": ("graph_us", "graph_noise_floor")}
ITEMSIZE = {"float32": 4, "bfloat16": 2, "float16": 2}


def standards(contest: dict) -> list[Standard]:
    """Every standard at every shape, dtype and direction that the contest meant to measure.

    Args:
        contest: `contest.json`, or what there is of it so far.

    Returns:
        Dictionaries: standard (1 to 6), what (the code of what is asked), direction, rows, cols, dtype, ours and peer
        (names), ours_us and peer_us (medians), value, bar, met, within_noise (missed, by no more than the noise
        floor), noise_floor, timing (`events`, `graphs` or `host`). `peer` is `copy` where bandwidth is the standard,
        and `peer_us` then the time in which a large copy moves the same bytes. Of what could not be measured, names
        and values are None.
    """
    found: list[Standard] = []
    for place, rows in by_place(contest):
        for timing in TIMINGS:
            found += of_softmax(place, rows, timing, contest["copy_gb_per_s"], contest["cache_bytes"])
    found += of_host(contest["host"])
    for timing in TIMINGS:
        found += of_head(contest["head"], timing)
    return found


def by_place(contest: dict) -> Iterator[tuple[dict, dict[str, dict]]]:
    """Each direction, shape and dtype of the softmaxes, with its rows by kernel; none where all were left out."""
    keys = ("direction", "rows", "cols", "dtype")
    # A place where all failed has no rows, and its standards are to be there all the same, unmet.
    lost = [
        out for out in contest["left_out"] if out.get("part", "softmax") == "softmax" and out["kernel"] == LEFT_OUT_ALL
    ]
    places: dict[tuple, dict[str, dict]] = {}
    for row in (*contest["rows"], *lost):
        kernels = places.setdefault(tuple(row[key] for key in keys), {})
        if row["kernel"] != LEFT_OUT_ALL:
            kernels[row["kernel"]] = row
    for place, kernels in places.items():
        yield dict(zip(keys, place, strict=True)), kernels


def of_softmax(
    place: dict, rows: dict[str, dict], timing: str, copy_gb_per_s: float, cache_bytes: int
) -> Iterator[Standard]:
    """Standards 1 to 4 at one place: against the best peer, against a copy, and Triton's against our best."""
    key, noise_key = TIMINGS[timing]
    timed = {name: row for name, row in rows.items() if row[key] is not None}
    direction, cols = place["direction"], place["cols"]
    number = NUMBER[direction]
    ours = min((row for name, row in timed.items() if name in OURS), key=lambda row: row[key], default=None)
    # Best against best: ours at this place against whoever is fastest of the others there.
    others = [row for name, row in timed.items() if name not in (*OURS, DISPATCHED)]
    peer = min(others, key=lambda row: row[key], default=None)
    noise = ours[noise_key] if ours else None
    at: StandardPlace = {
        "direction": direction,
        "rows": place["rows"],
        "cols": cols,
        "dtype": place["dtype"],
        "timing": timing,
        "noise_floor": noise,
    }
    ours_us, peer_us = ours[key] if ours else None, peer[key] if peer else None
    yield {
        "standard": number,
        "what": f"{direction}_time",
        **at,
        **named(ours, peer),
        **judged(ours_us, peer_us, quotient(ours_us, peer_us), SPEED_RATIO, noise, at_most=True),
    }
    moved = softmax_bytes(place["rows"], cols, ITEMSIZE[place["dtype"]], direction)
    # Bandwidth is a standard only where the data cannot lie in the cache.
    if moved > CACHES * cache_bytes:
        wide = cols > WIDE if direction == "forward" else cols == GPT2_VOCABULARY
        bar = WIDE_SHARE if wide else COPY_SHARE[direction]
        # the time in which a copy would move the bytes that the softmax has to: ours is a share of that rate
        copy_us = moved / copy_gb_per_s / 1e3
        yield {
            "standard": 2 if direction == "forward" else number,
            "what": f"{direction}_copy",
            **at,
            **named(ours, {"kernel": COPY}),
            **judged(ours_us, copy_us, quotient(copy_us, ours_us), bar, noise),
        }
    if direction == "forward" and cols <= WIDE:
        # Triton's kernel against the best of ours: readable code may cost a little, and no more than the bar says.
        triton = timed.get("triton")
        triton_us = triton[key] if triton else None
        yield {
            "standard": 3,
            "what": "triton",
            **at,
            **named(triton, ours),
            **judged(triton_us, ours_us, quotient(ours_us, triton_us), TRITON_SHARE, noise),
        }


def of_host(rows: list[dict]) -> Iterator[Standard]:
    """Standard 5: what a call of ours costs the host, over what F.softmax's does."""
    # each place on the host has one row of F.softmax, and ours with the same dtype, shape and gradient
    for peer in (row for row in rows if row["kernel"] == REFERENCE):
        keys = ("rows", "cols", "dtype", "requires_grad")
        same = [row for row in rows if row["kernel"] == DISPATCHED and all(row[key] == peer[key] for key in keys)]
        ours = same[0] if same else None
        us, peer_us = ours["median_us"] if ours else None, peer["median_us"]
        yield {
            "standard": 5,
            "what": "host_gradient" if peer["requires_grad"] else "host",
            "direction": "forward",
            "rows": peer["rows"],
            "cols": peer["cols"],
            "dtype": peer["dtype"],
            "timing": "host",
            "noise_floor": peer["noise_floor"],
            **named(ours, peer),
            **judged(us, peer_us, quotient(us, peer_us), SPEED_RATIO, peer["noise_floor"], at_most=True),
        }


def of_head(rows: list[dict], timing: str) -> Iterator[Standard]:
    """Standard 6: the fused LM head's speed-up over torch.compile, and its error."""
    key, noise_key = TIMINGS[timing]
    timed = {(row["kernel"], row["rows"]): row for row in rows if row[key] is not None}
    # held at the numbers of rows that have a bar, whatever else was measured
    for n_rows, bar in HEAD_SPEED_UP.items():
        ours, peer = timed.get((HEAD, n_rows)), timed.get((HEAD_PEER, n_rows))
        noise = ours[noise_key] if ours else None
        at: StandardPlace = {
            "direction": "forward",
            "rows": n_rows,
            "cols": HEAD_COLS,
            "dtype": "float32",
            "timing": timing,
            "noise_floor": noise,
        }
        us, peer_us = ours[key] if ours else None, peer[key] if peer else None
        yield {
            "standard": 6,
            "what": "head_time",
            **at,
            **named(ours, peer),
            **judged(us, peer_us, quotient(peer_us, us), bar, noise),
        }
        if timing == "events":
            error = ours["max_rel_err"] if ours else None
            exact: StandardPlace = {**at, "noise_floor": None}  # an error is no time
            yield {
                "standard": 6,
                "what": "head_error",
                **exact,
                **named(ours, None),
                **judged(us, None, error, HEAD_ERROR, None, at_most=True),
            }


def named(ours: dict | None, peer: dict | None) -> Compared:
    """The names of the two that are compared; None for one that is not there."""
    return {"ours": ours["kernel"] if ours else None, "peer": peer["kernel"] if peer else None}


def quotient(numerator: float | None, denominator: float | None) -> float | None:
    """A quotient of times; None where one of them was not measured."""
    return None if numerator is None or denominator is None else numerator / denominator


def judged(
    ours_us: float | None,
    peer_us: float | None,
    value: float | None,
    bar: float,
    noise: float | None,
    at_most: bool = False,
) -> Judgement:
    """Hold a value against its bar, at least it or `at_most` it; the bar is exact, the noise is said beside it."""
    # None, which could not be measured, is not met: a bar is never passed by not looking.
    met = value is not None and (value <= bar if at_most else value >= bar)
    near = value is not None and noise is not None and abs(value / bar - 1) <= noise
    return {
        "ours_us": ours_us,
        "peer_us": peer_us,
        "value": value,
        "bar": bar,
        "met": met,
        "within_noise": near and not met,
    }
