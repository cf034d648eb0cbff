"""Trains the port eager and compiled, in turn, on the same rows, and compares both with NumPy's run.

The two take turns a few steps at a time, so that a drifting clock hurts both alike. They may differ by rounding, which
training magnifies step by step; how far they end apart on text that was held out says whether it matters.
"""

import logging
import statistics
import time
from dataclasses import asdict
from itertools import pairwise

import torch

from minicompile.safe.compile_config import CompileConfig
from minicompile.safe.compile_record import compile_report
from minicompile.safe.safe_compile import uncompile
from minicompile.training.trainer import Trainer, batches
from minilab import LabError
from minilab.progress import progress
from minimodel.corpus import TokenStream
from minimodel.model_config import MiniGPTConfig


def measure(
    config: MiniGPTConfig,
    text: TokenStream,
    held_out: TokenStream,
    params: dict,
    numpy_run: dict,
    device: str,
    log: logging.Logger,
) -> dict:
    """Train the port eager and compiled.

    Args:
        text, held_out: what is trained on, and what the trained models are judged by.
        params: `training`, of the config; `steps` of it to take, None for all; `loss`, one of the trainer's
            `LOSSES`; `compile`, fields of `CompileConfig`.
        numpy_run: stage 17's `training.json`.
        device: a torch device.

    Returns:
        `training.json` as schemas/port_training.schema.yaml describes it, without its provenance.

    Raises:
        LabError: a configuration cannot be, or a loss is no longer finite.
    """
    training = params["training"]
    torch.set_num_threads(training["threads"])
    plan = list(batches(text, training, params["steps"], device))
    ends = recorded_steps(len(plan), training["record_every"])
    sides = {name: Trainer(config, training, device, params["loss"]) for name in ("eager", "compiled")}
    sides["compiled"].compile(CompileConfig.from_dict(params["compile"], "config.yaml: compile"), plan[0], log)
    reported = time.monotonic()
    for begin, end in pairwise([0, *ends]):
        for trainer in sides.values():
            trainer.stretch(plan[begin:end])
        if time.monotonic() - reported > training["report_seconds"]:
            reported = time.monotonic()
            log.info("step %d of %d, eager and compiled", end, len(plan), extra=progress(end, len(plan)))
    report = compile_report(sides["compiled"].module)
    uncompile(sides["compiled"].module)
    longest = max(batch.ids.shape[1] for batch in plan)  # positions that were never trained would say nothing
    rows = held_out.rows(held_out.consecutive_places(longest))
    tokens = [sum(batch.ids.numel() for batch in plan[:end]) for end in ends]
    made = {name: run(trainer, tokens, trainer.cross_entropy(*rows)) for name, trainer in sides.items()}
    log.info(
        "%d steps: %.0f tokens/s eager, %.0f compiled; held-out cross-entropy %.4f and %.4f nats",
        len(plan), made["eager"]["tokens_per_second"], made["compiled"]["tokens_per_second"],
        made["eager"]["held_out_cross_entropy"], made["compiled"]["held_out_cross_entropy"],
    )  # fmt: skip
    return {
        "model": asdict(config),
        "threads": torch.get_num_threads(),
        "loss": params["loss"],
        "steps": ends,
        "tokens": tokens,
        **made,
        "compile": report.to_dict(),
        "largest_difference": largest_difference(sides["eager"].losses, sides["compiled"].losses),
        "numpy": beside_numpy(numpy_run, sides["eager"].losses, whole=len(plan) == numpy_run["losses"][-1]["step"]),
        "conditional_entropy": numpy_run["conditional_entropy"],
    }


def recorded_steps(steps: int, every: int) -> list[int]:
    """List the steps at whose ends the clocks are read, as the NumPy training keeps its losses: the first, each `every`
    after it, and the last.

    Raises:
        LabError: one step alone, which has no steady state to time.
    """
    if steps < 2:
        raise LabError("the port is to be trained for a single step; raise port_training.steps to at least 2.")
    return sorted({*range(1, steps + 1, every), steps})


def run(trainer: Trainer, tokens: list[int], held_out_cross_entropy: float) -> dict:
    """Sum up one side's run: the `losses` of every step, the clock in `seconds` whenever it was read, and the rates.

    Args:
        tokens: that were trained on by each reading of the clock.
    """
    return {
        **rates(trainer.marks, tokens),
        "losses": trainer.losses,
        "seconds": trainer.marks,
        "held_out_cross_entropy": held_out_cross_entropy,
    }


def rates(seconds: list[float], tokens: list[int]) -> dict[str, float]:
    """Compute `first_step_seconds`, and the median `tokens_per_second` after that, from the readings of a clock."""
    spans = [after - before for before, after in pairwise(seconds)]
    counts = [after - before for before, after in pairwise(tokens)]
    per_second = statistics.median(count / span for count, span in zip(counts, spans, strict=True))
    return {"first_step_seconds": seconds[0], "tokens_per_second": per_second}


def largest_difference(ours: list[float], theirs: list[float]) -> dict:
    """Find where two curves of the loss are furthest apart: `step`, from 1, and `nats`."""
    differences = [abs(a - b) for a, b in zip(ours, theirs, strict=True)]
    nats = max(differences)
    return {"step": differences.index(nats) + 1, "nats": nats}


def beside_numpy(numpy_run: dict, losses: list[float], whole: bool) -> dict:
    """Take the NumPy run at the steps that both have.

    Args:
        losses: the port's, of every step.
        whole: whether the port took as many steps as NumPy, so that the trained models can be compared.
    """
    points = [point for point in numpy_run["losses"] if point["step"] <= len(losses)]
    steps, theirs = [point["step"] for point in points], [point["loss"] for point in points]
    return {
        "steps": steps,
        "losses": theirs,
        "largest_difference": apart_at(steps, theirs, losses),
        "held_out_cross_entropy": numpy_run["held_out_cross_entropy"] if whole else None,
    }


def apart_at(steps: list[int], theirs: list[float], ours: list[float]) -> dict:
    """Find the `largest_difference` of a curve that is known at some steps only from one that is known at all."""
    apart = largest_difference(theirs, [ours[step - 1] for step in steps])
    return {**apart, "step": steps[apart["step"] - 1]}
