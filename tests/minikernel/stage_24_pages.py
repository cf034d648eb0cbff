"""Stage 24's pages, each with the artefacts that it is written from and what follows from them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from statistics import median

import artefacts
from numbers_of_a_page import Source
from recorded_pages import CPU, GPU, Page, elsewhere, recorded

from minikernel.exercise.marks import LEAST_NOISE, exercise_of, wrong_cases
from minikernel.measure.choice import HOST_US, WORTH
from minikernel.report.contest_report import explanations, with_heads
from minikernel.report.exercise_report import report as exercise
from minikernel.report.stage_24 import Artefacts, contest_24, report_24

PLACE = ("direction", "dtype", "rows", "cols")
LADDERS = (
    ("naive", "smem", "warp", "fused"),
    ("triton_textbook", "triton"),
    ("loop", "vectors", "threads", "streaming"),
)
OURS = ("naive", "smem", "fused", "triton")  # in the contest
PEERS = ("F.softmax", "compile", "compile-max-autotune", "quack", "liger")


def report_24_page() -> Page:
    return stage_24(report_24)


def contest_24_page() -> Page:
    return stage_24(contest_24)


def stage_24(write: Callable[[Artefacts, str], str]) -> Page:
    """Both pages of stage 24, of the recorded GPU and of a CPU with its rungs, F.softmax and what calls run into."""
    gpu = {name: recorded(f"24/{name}.json") for name in ("bench", "ceilings", "contest", "head", "autotune")}
    gpu["ceilings"] = {**gpu["ceilings"], "noise": artefacts.NOISE}  # which the record does not have yet
    swaps = [recorded("24/kernel_swap.json"), elsewhere(recorded("24/kernel_swap.json"))]
    swaps[1] |= {"device": CPU[0], "executed_by": "cpu"}
    bench = elsewhere(gpu["bench"])
    bench["rows"] = [row for row in bench["rows"] if row["kernel"] in ("F.softmax", "compile")]
    bench["rows"] += [rung(row, *one) for one in RUNGS for row in bench["rows"] if row["kernel"] == "F.softmax"]
    fresh, contest = artefacts.allocation(rungs=True), with_heads(gpu["contest"], gpu["head"])
    made = Artefacts(
        training=artefacts.TRAINING,
        port=artefacts.PORT,
        equivalence=artefacts.EQUIVALENCE,
        benches=[gpu["bench"], bench],
        swaps=swaps,
        ceilings=[gpu["ceilings"]],
        allocations=[fresh],
        autotune=gpu["autotune"],
        contest=gpu["contest"],
        heads=gpu["head"],
        explained=explanations("en"),
    )
    sources = [
        Source(gpu["bench"], {"device": GPU}, bench_derived(gpu["bench"], gpu["ceilings"])),
        Source(artefacts.NOISE, {"device": GPU}, {"a time beside jobs, of one alone": [11.43 / 11.4 - 1, 9 / 602]}),
        Source(bench, {"device": CPU}, bench_derived(bench, None)),
        *(Source(swap, {"device": names}) for swap, names in zip(swaps, (GPU, CPU), strict=True)),
        Source(fresh, {"device": CPU}, allocation_derived(fresh)),
        Source(gpu["autotune"], {"device": GPU}),
        Source(contest, {"device": GPU}, contest_derived(contest)),
        Source([{"host_us": HOST_US, "worth": WORTH}, *explanations("en"), *explanations("es")]),
        Source([artefacts.TRAINING, artefacts.PORT, artefacts.EQUIVALENCE]),
    ]
    return Page(lambda language: write(replace(made, explained=explanations(language)), language), sources)


def one_copy(rows: list[dict]) -> float:
    """The bandwidth, GB/s, that all rows are held against: the median of the copies that were timed beside them."""
    return median(row["gb_per_s"] / row["fraction_of_copy"] for row in rows)


RUNGS = (("loop", 3.17), ("vectors", 1.29), ("threads", 1.13), ("streaming", 0.373))  # times F.softmax's time


def rung(row: dict, name: str, times: float) -> dict:
    """A rung's row, so many times as slow as F.softmax's."""
    slower = {key: row[key] * times for key in ("median_us", "ratio_to_reference")}
    faster = {key: row[key] / times for key in ("gb_per_s", "fraction_of_copy", "tflop_per_s")}
    copies = {"copy": row["samples_us"]["copy"], "fresh_copy": [2.7 * us for us in row["samples_us"]["copy"]]}
    return row | slower | faster | {"kernel": name, "samples_us": copies}


def bench_derived(made: dict, ceilings: dict | None) -> dict:
    rows = [row for row in made["rows"] if row["direction"] == "forward"]
    most = max(row["rows"] for row in rows)
    at = {row["kernel"]: row for row in rows if row["rows"] == most}
    ladders = [[at[name] for name in ladder if name in at] for ladder in LADDERS]
    rungs = [row for ladder in ladders for row in ladder]
    best = min(rungs, key=lambda row: row["median_us"], default=None)
    sheet = ceilings and ceilings["datasheet"]["memory_gb_per_s"]
    copy = one_copy(rows)
    alike = [
        median(row["samples_us"]["copy" if row["kernel"] == "streaming" else "fresh_copy"]) / row["median_us"]
        for row in rungs
        if "fresh_copy" in row["samples_us"]
    ]
    triton = [at[name]["ratio_to_reference"] for name in LADDERS[1] if name in at]
    return {
        "times as fast as the one before": [
            a["ratio_to_reference"] / b["ratio_to_reference"] for ladder in ladders for a, b in pairwise(ladder)
        ],
        "of one copy": [row["gb_per_s"] / copy for row in rows],
        "of a copy that gets its memory alike": alike,
        "F.softmax's speed: expected of Triton, and measured": [0.80, 0.95, *(1 / ratio for ratio in triton)],
        "of the datasheet": [row["gb_per_s"] / sheet for row in rungs if sheet],
        "missed by": [row["ratio_to_reference"] - 1 for row in rows],
        "compiled, times as long as the best by hand": [
            at["compile"]["ratio_to_reference"] / best["ratio_to_reference"] for _ in [1] if best and "compile" in at
        ],
        "shapes": [len({row["rows"] for row in rows})],
    }


def allocation_derived(made: dict) -> dict:
    ways, of = made["ways"], made["exponential"]["of"]
    return {
        "a fresh copy, times as long": [ways["fresh_copy"]["median_us"] / ways["copy"]["median_us"]],
        "kB of a page, by 1024": [made["page_bytes"] / 1024 * 1e3],
        "pages": [made["bytes"] / made["page_bytes"]],
        "library's exponential, times as long": [of["libm"]["ns"] / of["vector"]["ns"]],
        "a copy past the caches, of a plain one's time": [
            ways["streaming_copy"]["median_us"] / ways["copy"]["median_us"]
        ],
    }


def contest_derived(made: dict) -> dict:
    """What follows from a contest with its heads."""
    asked = {}
    for entry in made["standards"]:
        asked.setdefault((entry["standard"], entry["what"]), []).append(entry)
    best = {way: dict(best_by_width(made["rows"], way)) for way in ("forward", "backward")}
    timed = {(row["rows"], row["kernel"]): row for row in made["head"]}
    top = max(rows for rows, _ in timed)
    fused = {rows: row["median_us"] for (rows, name), row in timed.items() if name == "linear_softmax"}
    apart = min(row["median_us"] for (rows, _), row in timed.items() if rows == top and not row["fused"])
    return {
        "ours over the best peer's": [ours / peer for ours, peer, _ in ours_and_peers(made["rows"]) if ours and peer],
        "noise at a place": [noise for *_, noise in ours_and_peers(made["rows"])],
        "standards met": [sum(entry["met"] for entry in entries) for entries in asked.values()],
        "of how many": [len(entries) for entries in asked.values()],
        "missed within the noise": [sum(entry["within_noise"] for entry in entries) for entries in asked.values()],
        "missed": [sum(not entry["met"] for entry in made["standards"])],
        "missed by, of the bar": [
            abs(entry["value"] / entry["bar"] - 1) for entry in made["standards"] if not entry["met"] and entry["value"]
        ],
        "fused, times as fast": [
            at[kernel] / at["fused"] for ways in best.values() for at in ways.values() for kernel in at
        ],
        "head, times as fast": [row["median_us"] / fused[rows] for (rows, _), row in timed.items() if not row["fused"]],
        "head, of the unfused one's time": [fused[top] / apart],
    }


def ours_and_peers(rows: list[dict]) -> Iterator[tuple[float | None, float | None, float]]:
    """At each place the least time of ours and of the others', and the largest noise."""
    places = {tuple(row[name] for name in PLACE): [] for row in rows}
    for row in rows:
        places[tuple(row[name] for name in PLACE)].append(row)
    for here in places.values():
        ours = [row["median_us"] for row in here if row["kernel"] in OURS]
        peers = [row["median_us"] for row in here if row["kernel"] in PEERS]
        yield min(ours, default=None), min(peers, default=None), max(row["noise_floor"] for row in here)


def best_by_width(rows: list[dict], way: str) -> Iterator[tuple[tuple, dict]]:
    """At each width and dtype of a direction, with most rows: the times of `fused`, F.softmax and the best peer."""
    here = [row for row in rows if row["direction"] == way]
    for cols, dtype in {(row["cols"], row["dtype"]) for row in here}:
        most = max(row["rows"] for row in here if row["cols"] == cols)
        at = {r["kernel"]: r["median_us"] for r in here if (r["rows"], r["cols"], r["dtype"]) == (most, cols, dtype)}
        peers = [us for kernel, us in at.items() if kernel in PEERS]
        yield (cols, dtype), {"fused": at["fused"], "F.softmax": at["F.softmax"], "best peer": min(peers)}


def exercise_page() -> Page:
    marks = artefacts.ladder(timed={"noise_floor": 0.017, "ratio_to_reference": 1.183, "fraction_of_copy": 0.4711})
    passes = artefacts.ladder(traffic={"reads": 3.25, "writes": 1.75})
    predicted = artefacts.ladder(
        exercise="machine",
        predicted={"reads": 1.5, "writes": 1.25, "megabytes": 27.03, "share_of_copy": 0.37},
        timed={"noise_floor": 0.013, "ratio_to_reference": 0.711, "fraction_of_copy": 0.8642},
    )
    all_marks = (marks, passes, predicted)
    derived = {
        "bytes moved, of the least": [(row["reads"] + row["writes"]) / 2 for row in passes["traffic"]],
        "of a copy at most": [2 / (row["reads"] + row["writes"]) for row in passes["traffic"]],
        "cases that are right, of each of two steps": [len(marks["cases"]) - len(wrong_cases(marks)), 0],
        "noise at least": [LEAST_NOISE],
        "megabytes": [(row["reads"] + row["writes"]) * 4096 * 600 * 4 / 1e6 for row in predicted["traffic"]],
        "steps": [1, 2, 3, 4, 5],
        "reads and writes that are allowed": [
            most for marks in all_marks for most in (exercise_of(marks).reads, exercise_of(marks).writes)
        ],
    }
    return Page(
        lambda language: "\n".join(exercise(one, "h200", "roofline.png", language) for one in all_marks),
        [Source(all_marks, derived=derived)],
        ("step 1", "step 2", "paso 1", "paso 2", "16-byte", "16 bytes", "Exercise 5", "Ejercicio 5"),
    )


def concepts_derived(facts: dict) -> dict:
    """What the concept pages say of softmax besides the record: bytes and operations by the count, and their times."""
    bench, ceilings = recorded("24/bench.json")["rows"], recorded("24/ceilings.json")
    copy, peak = ceilings["copy_gb_per_s"], ceilings["fp32_tflop_per_s"]
    rows, cols = max(row["rows"] for row in bench), bench[0]["cols"]
    at = {row["kernel"]: row["median_us"] for row in bench if row["rows"] == rows}
    least, apart = 8 * facts["compiler"]["rows"] * facts["compiler"]["cols"], facts["compiler"]["apart"]
    return {
        "of an element: operations, bytes, bytes of it, their ratio": [5, 8, 4, 5 / 8],
        "of all: bytes and operations, in G": [8 * rows * cols, 8 * rows * cols / 1e9, 5 * rows * cols / 1e9],
        "a row on each of 132 multiprocessors, ns": [
            132e3 * us / rows for us in (*at.values(), 8 * rows * cols / copy / 1e3)
        ],
        "multiprocessors": [132],
        "their times": [(memory := 8 * rows * cols / copy / 1e9), (arithmetic := 5 * rows * cols / peak / 1e12)],
        "memory, times as long": [memory / arithmetic],
        "ridge, and how far left of it": [peak / copy * 1e3, peak / copy * 1e3 / (5 / 8)],
        "roof at softmax": [5 / 8 * copy / 1e3],
        "of one copy": [row["gb_per_s"] / one_copy(bench) for row in bench],
        "times as fast": [at[a] / at[b] for a, b in pairwise(rung for rung in LADDERS[0] if rung in at)],
        "few rows": [64 * 8 * cols / copy / 1e9],
        "threads of smem, and steps of its tree": [256, 8],
        "noise": [max(row["noise_floor"] for row in bench)],
        "five operations apart": [sum(n_bytes for _, n_bytes in apart), sum(n_bytes for _, n_bytes in apart) / least],
        "decisions": [len(facts["compiler"]["decisions"]), sum(one["taken"] for one in facts["compiler"]["decisions"])],
        "removed": [sum(one["bytes"] for one in facts["compiler"]["removed"])],
    }
