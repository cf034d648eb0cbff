"""`training.json` as a GPU might have measured it, made up and consistent; nothing of it was measured."""

import random
from dataclasses import asdict

from model_artefact import SIZES, elsewhere

from minikernel.measure.training.figures import training_contest
from minilab.records.provenance import provenance
from minilab.records.store import content_sha256

RUNGS = ("eager", "compile", "graph-of-compiled-step", "graph", "one")
STEP_US = {(64, 16): (9100.0, 7700.0, 611.0, 141.0, 131.0), (8, 128): (9900.0, 8300.0, 801.0, 342.3, 161.7)}
IN_A_ROW = (10, 10, 50, 200, 200)
# seconds of each training, and whether it came to its end
CURVES = {
    "numpy": (20.2, False), "torch-cpu": (20.1, False), "eager": (16.3, True), "compile": (13.1, True),
    "graph-of-compiled-step": (1.21, True), "graph": (0.31, True), "one": (0.2716, True),
}  # fmt: skip
LIMIT = 1.731
RATE = 1980.0  # cycles a microsecond


def blocks(us: float, rung: str) -> list[dict]:
    """A step's blocks: two with tiles, six that wait and sum; of the graph each launch's in turn."""
    whole = {  # kind and part of each span, and its share of the step
        "tiles": [(2, 6, 0.2), (3, 6, 0.05), (2, 7, 0.1), (2, 8, 0.35)],
        "sums": [(3, 9, 0.4), (2, 9, 0.3)],
        "update": [(2, 9, 0.1), (1, 9, 0.05), (3, 10, 0.05), (1, 10, 0.1)],
    }

    def block(sm: int, start: float, *spans) -> dict:
        cycles = [round(share * us * RATE) for *_, share in spans]
        return {
            "sm": sm, "start_ns": round(start * us * 1000), "codes": [kind + 256 * part for kind, part, _ in spans],
            "cycles": cycles,
        }  # fmt: skip

    first = [block(sm, 0, *whole["tiles" if sm < 2 else "sums"]) for sm in range(8)]
    if rung == "graph":
        return first + [block(sm, 0.71, *whole["update"]) for sm in range(8)]
    return [block(sm, 0, *whole["tiles" if sm < 2 else "sums"], *whole["update"]) for sm in range(8)]


def training_artefact(**changed) -> dict:
    """The artefact; `changed` parts stand in place of its own, and what follows from them follows."""
    shuffled = random.Random(9)

    def samples(us: float) -> list[float]:
        return [round(us * (1 + shuffled.gauss(0, 0.004)), 3) for _ in range(20)]

    steps = [
        {
            "rung": rung, "batch": shape[0], "time": shape[1], "in_a_row": many,
            "samples_us": {rung: samples(us)} | ({"again": samples(us)} if rung == "one" else {}),
        }
        for shape, times in STEP_US.items()
        for rung, us, many in zip(RUNGS, times, IN_A_ROW, strict=True)
    ]  # fmt: skip
    whole = [
        {
            "rung": "one", "seed": seed, "seconds": seconds, "steps": 1600, "tokens": 1638400, "held_out_nats": nats,
            "held_out": [{"steps": 0, "tokens": 0, "nats": 6.41}, {"steps": 1600, "tokens": 1638400, "nats": nats}],
        }
        for seed, seconds, nats in ((42, 0.2714, 1.7487), (43, 0.2723, 1.7512), (44, 0.2717, 1.7476))
    ]  # fmt: skip
    curves = [
        {
            "rung": rung, "seed": 42, "complete": complete,
            "prepared_seconds": None if rung in ("graph", "one") else round(0.01 * seconds + 0.3, 3),
            "points": [
                {"steps": steps if complete else steps // 4, "seconds": steps / 1600 * seconds, "nats": nats}
                for steps, nats in ((0, 6.41), (400, 2.31), (800, 1.92), (1600, 1.7487 if complete else 1.8723))
            ],
        }
        for rung, (seconds, complete) in CURVES.items()
    ]  # fmt: skip
    lines = [
        {
            "rung": rung,
            "batch": shape[0],
            "time": shape[1],
            "tick_ns": 32,
            "blocks": blocks(times[RUNGS.index(rung)], rung),
        }
        for shape, times in STEP_US.items()
        for rung in ("graph", "one")
    ]
    made = {
        "cycles_per_us": RATE,
        "timelines": lines,
        "config": asdict(SIZES),
        "limit_nats": LIMIT,
        "steps": steps,
        "whole": whole,
        "curves": curves,
        "left_out": [],
        "complete": True,
    } | changed
    again = training_contest(made)
    for part in ("steps", "timelines", "whole"):
        made[part] = [{**row, **figures} for row, figures in zip(made[part], again[part], strict=True)]
    made |= {"bars": again["bars"]}
    made["provenance"] = {**provenance([], {}, "cpu-here"), **elsewhere()}
    made["provenance"]["content_sha256"] = content_sha256(made)
    return made
