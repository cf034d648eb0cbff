"""`model.json` as a GPU might have measured it, made up and consistent: what the pages of stage 26 are tested with.

Its figures follow from its samples by the functions that a measurement uses; nothing of it was measured.
"""

import random
from dataclasses import asdict

import yaml
from recorded_pages import RECORD

from minikernel.measure.model.bars import bars
from minikernel.measure.model.cost import fewest_bytes, flop
from minikernel.measure.model.recompute import model_contest
from minilab.records.provenance import provenance
from minilab.records.store import content_sha256
from minimodel.model_config import MiniGPTConfig

SIZES = MiniGPTConfig(vocab_size=600, block_size=128)
RATE, EMPTY_US = 1980.0, 3.55
RUNGS = ("eager", "compile", "compile-reduce-overhead", "compile-max-autotune", "graph", "one")
DEVICE_US = {
    (1, 16): (261.0, 139.0, 97.3, 91.1, 24.7, 13.1),
    (2, 16): (267.0, 151.0, 112.0, 118.0, 25.9, 13.9),
    (64, 64): (455.0, 301.0, 249.0, 257.0, 118.0, 74.1),
    (512, 128): (4466.0, 2507.0, 2451.0, 2279.0, 1102.0, 702.0),
}
KERNELS = dict(zip(RUNGS, (124, 28, 29, 31, 13, 1), strict=True))
HOST_US = (1340.0, 770.0, 190.0, 160.0, 17.1, 14.3)
LOSS = {"float32": 2.171, "bfloat16": 2.1716}
TOKEN_US = {1: (1180.0, 96.1, 6.31), 16: (1190.0, 101.0, 6.52), 128: (1230.0, 131.0, 9.87)}


def model_artefact(**changed) -> dict:
    """The artefact; `changed` parts stand in place of its own, and what follows from them follows."""
    shuffled, other = random.Random(7), random.Random(8)

    def samples(us: float, count: int = 20) -> list[float]:
        return [round(us * (1 + shuffled.gauss(0, 0.01)), 3) for _ in range(count)]

    forward = [row for dtype in LOSS for shape in DEVICE_US for row in _rows(shape, dtype, samples)]
    generate = []
    for sequences, times in TOKEN_US.items():
        for rung, us in zip(("eager", "compile", "one"), times, strict=True):
            sides = {rung: us} | ({"again": times[-1]} if rung == "eager" else {})
            texts = {side: samples(us * 127 + 30, 10) for side, us in sides.items()}
            first = {
                side: [round((us * 16 + 30) * other.gauss(1, 0.01), 3) for _ in range(10)] for side, us in sides.items()
            }
            shared = {"dtype": "float32", "given": 16, "new_tokens": 112, "duplicated": "one"}
            own = {"rung": rung, "sequences": sequences, "same_tokens": 1.0, "first_call_seconds": 1.7}
            generate.append({**own, **shared, "samples_us": texts, "first_samples_us": first})
    made = {
        "config": asdict(SIZES),
        "contract": {"atol": 1e-5, "rtol": 1e-5},
        "shapes": [list(shape) for shape in DEVICE_US],
        "cycles_per_us": RATE,
        "empty_samples_us": samples(EMPTY_US),
        "forward": forward,
        "generate": generate,
        "timelines": [line for shape in ((1, 16), (64, 64)) for line in _timelines(shape)],
        "left_out": [],
        "complete": True,
        "weights_sha256": "0123456789ab" + "0" * 52,
        "bars": [],
    } | changed
    again = model_contest(made)
    for part in ("forward", "generate"):
        for row, figures in zip(made[part], again[part], strict=True):
            row.update(figures)
    made |= {"empty_us": again["empty_us"], "bars": bars(made)}
    made["provenance"] = {**provenance([], {}, "cpu-here"), **elsewhere()}
    made["provenance"]["content_sha256"] = content_sha256(made)
    return made


def elsewhere() -> dict:
    """Device, date and hardware of the GPU's record."""
    made = yaml.safe_load((RECORD / "24/ceilings.json").read_text())["provenance"]
    return {name: made[name] for name in ("device", "date", "hardware")}


def _rows(shape: tuple[int, int], dtype: str, samples) -> list[dict]:
    rows = []
    faster = 1.0 if dtype == "float32" else 0.81
    for rung, us, host in zip(RUNGS, DEVICE_US[shape], HOST_US, strict=True):
        if dtype == "bfloat16" and rung == "compile-max-autotune":
            continue
        first = {"again": samples(DEVICE_US[shape][-1] * faster)} if not rows else {}
        first_wall = {"again": samples(DEVICE_US[shape][-1] * faster + HOST_US[-1])} if not rows else {}
        own = rung in ("graph", "one")
        work = flop(SIZES, *shape)
        moved = fewest_bytes(SIZES, *shape, 4 if dtype == "float32" else 2)
        inside = us * faster - EMPTY_US
        stamped = {
            "blocks": 8 * shape[0],
            "side_by_side": min(8 * shape[0], 264),
            "covered_us": inside,
            "memory_us": 0.21 * inside * min(8 * shape[0], 264),
            "arithmetic_us": 0.43 * inside * min(8 * shape[0], 264),
            "waiting_us": 0.31 * inside * min(8 * shape[0], 264),
        }
        error = {"float32": 3.1e-6 if own else 1.7e-6, "bfloat16": 0.0421}[dtype]
        rows.append(
            {
                "rung": rung,
                "batch": shape[0],
                "time": shape[1],
                "dtype": dtype,
                "in_graph": rung == "one",
                "max_rel_err": error * (1 + len(rows) / 17),
                "tolerance_used": 0.0437 * (1 + len(rows) / 13) if dtype == "float32" else None,
                "loss": LOSS[dtype] * (1 + len(rows) / 1e5),
                "loss_tokens": 30208,
                "first_call_seconds": 0.7 + len(rows),
                "launches": 20,
                "duplicated": "one",
                "flop": work,
                "bytes": moved,
                "flop_per_byte": work / moved,
                "stamped": stamped if own else None,
                "kernels": None if dtype == "bfloat16" else KERNELS[rung],
                "kernels_us": None if dtype == "bfloat16" else 0.73 * us,
                "parts": None,
                "samples_us": {rung: samples(us * faster)} | first,
                "wall_samples_us": {rung: samples(us * faster + host)} | first_wall,
            }
        )
    return rows


def _timelines(shape: tuple[int, int]) -> list[dict]:
    """One pass by its blocks for both of the lab's rungs, and by its kernels for two of torch.compile's modes."""
    lines = []
    for rung in ("compile", "compile-reduce-overhead", "compile-max-autotune", "graph", "one"):
        if rung == ("compile-max-autotune" if shape == (64, 64) else "compile-reduce-overhead"):
            continue
        us = DEVICE_US[shape][RUNGS.index(rung)]
        line = {"rung": rung, "batch": shape[0], "time": shape[1], "dtype": "float32", "tick_ns": None}
        line |= {"blocks": None, "kernels": None}
        if rung in ("graph", "one"):
            line |= {"tick_ns": 32, "blocks": _blocks(shape, us, 13 if rung == "graph" else 1)}
        else:
            line["kernels"] = _kernels(us)
        lines.append(line)
    return lines


def _blocks(shape: tuple[int, int], us: float, launches: int) -> list[dict]:
    count, each = min(4 * shape[0], 132), (us - EMPTY_US) * RATE / launches
    codes = [1, 256 + 2, 256 + 3, 512 + 2, 512 + 3, 768 + 2, 1280 + 1]
    shares = [0.12, 0.2, 0.17, 0.23, 0.1, 0.12, 0.06]
    return [
        {
            "sm": (7 * number) % 132,
            "start_ns": 32 * round(launch * each / RATE * 1e3 / 32) + 32 * (number % 3),
            "codes": codes,
            "cycles": [round(share * each * (0.9 + 0.001 * (number % 9))) for share in shares],
        }
        for launch in range(launches)
        for number in range(count)
    ]


def _kernels(us: float) -> list[dict]:
    names = (
        "triton_per_fused_add_embedding_native_layer_norm_0",
        "triton_tem_fused_addmm_1",
        "triton_per_fused_softmax_2",
    )
    each = us / 30
    return [
        {
            "name": names[number % 3],
            "start_us": round(number * each, 3),
            "duration_us": round(each * (0.6 + 0.05 * (number % 4)), 3),
        }
        for number in range(28)
    ]
