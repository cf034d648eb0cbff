"""Computes the figures of stage 25's artefacts again from the raw samples beside them, a function for each artefact.

Each takes an artefact and returns, in the artefact's own form, the figures that its samples give; where they differ,
somebody has changed one of the two. `minilab.records.verify` compares. `minikernel.measure.recompute` has stage 24's.
"""

from minicompile.distributed.formulas import sent_bytes
from minicompile.distributed.measure import loss_difference, slowest_steps, speed
from minicompile.distributed.rows import Run
from minicompile.profile import gemv as products
from minicompile.profile.figures import compared, side
from minicompile.profile.rows import Side
from minicompile.safe.compile_benchmark import spread_of_steps
from minicompile.training.measure import apart_at, largest_difference, rates


def profile(artefact: dict) -> dict:
    """Both sides of every mode."""
    modes = []
    for mode in artefact["timings"]:
        eager, compiled = (_side(mode[name]) for name in ("eager", "compiled"))
        modes.append({**compared(eager, compiled), "eager": eager, "compiled": compiled})
    return {"timings": modes}


def _side(stored: dict) -> Side:
    return {**side(stored["samples_us"], stored["again_us"], stored["tokens"]), "peak_bytes": stored["peak_bytes"]}


def distributed(artefact: dict) -> dict:
    """Speed, bytes sent, and whether the patterns compute the same and communicate what they must."""
    tokens = artefact["batch"] * artefact["model"]["block_size"]
    alone = {run["dtype"]: run for run in artefact["runs"] if run["pattern"] == "single"}

    def losses(found: Run) -> dict:
        dtype = found["dtype"]
        return {"loss_max_rel_difference": loss_difference(found, alone[dtype], artefact["loss_rtol"][dtype])}

    def run(found: Run) -> dict:
        slowest = slowest_steps(found["step_seconds_by_rank"])
        return {
            **({} if found["pattern"] == "single" else losses(found)),
            "step_seconds": slowest,
            "tokens_per_s": speed(tokens, slowest),
            "matches_formula": found["collectives"] == found["formula"],
            "sent_bytes": [sent_bytes(counts, found["ranks"], found["pattern"]) for counts in found["collectives"]],
        }

    return {"runs": list(map(run, artefact["runs"]))}


def training(artefact: dict) -> dict:
    """Both sides' speed, and how far the three curves are apart."""
    losses = {side: artefact[side]["losses"] for side in ("eager", "compiled")}
    numpy = artefact["numpy"]
    return {
        **{side: rates(artefact[side]["seconds"], artefact["tokens"]) for side in losses},
        "largest_difference": largest_difference(losses["eager"], losses["compiled"]),
        "numpy": {"largest_difference": apart_at(numpy["steps"], numpy["losses"], losses["eager"])},
    }


def gemv(artefact: dict) -> dict:
    """Every product's times, what compiling it gained, and the verdicts."""
    return {"products": [products.recomputed(row) for row in artefact["products"]]}


def compile_health(artefact: dict) -> dict:
    """Both sides' steps, what compiling gained, and the verdict."""
    timed = artefact["benchmark"]
    sides = {side: timed[side] for side in ("eager", "compiled") if timed[side] is not None}
    rows = {side: spread_of_steps(found["seconds"], timed["tokens"]) for side, found in sides.items()}
    medians = [row["step_seconds"] for row in rows.values()]
    speedup = medians[0] / medians[1] if len(medians) == 2 else None
    return {"healthy": not artefact["complaints"], "benchmark": {**rows, "speedup": speedup}}
