"""A small `distributed.json` to write the survey from, as data."""

from collections.abc import Callable, Iterable

from minicompile.distributed.formulas import PIPELINES, expected, sent_bytes

SIZES = {"vocab_size": 48, "block_size": 8, "n_layer": 4, "n_head": 4, "n_embd": 32}
BATCH, MICROBATCHES = 8, 4
SPEED = {"single": 1000.0, "ddp": 1800.0, "fsdp": 1500.0, "tp": 1200.0, "fsdp_tp": 1300.0, "pp": 1100.0}
SPEED |= {"pp_interleaved": 1150.0, "pp_zb1p": 1125.0, "pp_zbv": 1175.0}
FOUR = ("ddp", "fsdp", "tp", "pp")  # as the first records have them


def run(pattern: str, ranks: int, dtype: str = "float32") -> dict:
    counts = [expected(pattern, SIZES, BATCH, MICROBATCHES, ranks, rank, dtype) for rank in range(ranks)]
    timed_alone = {"alone_seconds": [0.001] * 3} if pattern in ("tp", "pp") else {}
    busy = (
        {"busy_seconds_by_rank": [[0.03] * 4 for _ in range(ranks - 1)] + [[0.045] * 4]} if pattern in PIPELINES else {}
    )
    return {
        **timed_alone,
        **busy,
        **({} if pattern == "single" else {"loss_max_rel_difference": 2e-7}),
        "pattern": pattern,
        "dtype": dtype,
        "ranks": ranks,
        "tokens_per_s": SPEED[pattern],
        "step_seconds": [0.064, 0.064, 0.064, 0.064],
        "step_seconds_by_rank": [[0.064, 0.064, 0.064, 0.064]] * ranks,
        "peak_memory_bytes": [4_000_000 // ranks] * ranks,
        "collectives": counts,
        "formula": counts,
        "matches_formula": True,
        "sent_bytes": [sent_bytes(count, ranks, pattern) for count in counts],
        "losses": [3.5],
    }


def artefact(
    device: str = "cpu-test",
    ranks: tuple[int, ...] = (2,),
    dtypes: tuple[str, ...] = ("float32",),
    patterns: Callable[[int], Iterable[str]] = lambda ranks: FOUR,
) -> dict:
    gpu = None if device.startswith("cpu-") else {"name": f"NVIDIA {device.upper()}"}
    return {
        "backend": "nccl" if gpu else "gloo",
        "memory_from": "cuda_allocator" if gpu else "live_tensors",
        "threads": 1,
        "model": {**SIZES, "parameters": 55_000},
        "batch": BATCH,
        "microbatches": MICROBATCHES,
        "loss_rtol": dict.fromkeys(dtypes, 1e-5),
        "runs": [run("single", 1, dtype) for dtype in dtypes]
        + [run(pattern, n, dtype) for n in ranks for dtype in dtypes for pattern in patterns(n)],
        "left_out": [],
        "provenance": {
            "device": device,
            "date": "2026-01-02T03:04:05+00:00",
            "versions": {"python": "3.11.0", "torch": "2.13.0"},
            "hardware": {"cpu": "Acme", "cores": 2, "system": "test", "gpu": gpu},
            "sources": {},
            "params": {},
        },
    }
