"""A small `distributed.json` to write the survey from, as data."""

from minicompile.distributed.collectives import sent_bytes
from minicompile.distributed.formulas import expected

SIZES = {"vocab_size": 48, "block_size": 8, "n_layer": 4, "n_head": 4, "n_embd": 32}
BATCH, MICROBATCHES = 8, 4
SPEED = {"single": 1000.0, "ddp": 1800.0, "fsdp": 1500.0, "tp": 1200.0, "pp": 1100.0}


def run(pattern: str, ranks: int) -> dict:
    counts = [expected(pattern, SIZES, BATCH, MICROBATCHES, ranks, rank) for rank in range(ranks)]
    return {
        "pattern": pattern,
        "ranks": ranks,
        "tokens_per_s": SPEED[pattern],
        "step_seconds": [0.064, 0.062, 0.066],
        "peak_memory_bytes": [4_000_000 // ranks] * ranks,
        "collectives": counts,
        "formula": counts,
        "matches_formula": True,
        "sent_bytes": [sent_bytes(count, ranks) for count in counts],
        "losses": [3.5],
    }


def artefact(device: str = "cpu-test", ranks: tuple[int, ...] = (2,)) -> dict:
    gpu = None if device.startswith("cpu-") else {"name": f"NVIDIA {device.upper()}"}
    patterns = ("ddp", "fsdp", "tp", "pp")
    return {
        "backend": "nccl" if gpu else "gloo",
        "memory_from": "cuda_allocator" if gpu else "live_tensors",
        "threads": 1,
        "model": {**SIZES, "parameters": 55_000},
        "batch": BATCH,
        "microbatches": MICROBATCHES,
        "loss_rtol": 1e-5,
        "single": run("single", 1),
        "runs": [{**run(pattern, n), "loss_max_rel_difference": 2e-7} for n in ranks for pattern in patterns],
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
