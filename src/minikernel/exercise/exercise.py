"""Mark a learner's softmax: right where, how many passes, how fast.

The proof's cases and the bench are those that every kernel of the lab goes through; here a wrong case does not end
the proof, because a learner wants to see all of them. What the learner wrote runs in a sandbox
(`minikernel.proof.sandbox`), since it may hang or crash its process.
"""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from minikernel.exercise.marks import INTERPRETER, borrowed, is_right
from minikernel.exercise.traffic import count_traffic
from minikernel.ops.registry import load_user_kernel
from minikernel.proof.proof import REFERENCE_TOLERANCE, SEED, adversarial_cases, prove
from minikernel.proof.sandbox import Outcome, run_in_sandbox
from minikernel.reasons import Place, in_words, of_exception
from minilab import LabError

NAME = "mine"  # what figures and sentences call the learner's softmax
WIDTHS = (600, 50257)  # at which passes are counted: the lab's vocabulary, and a row too long for one tile
ROWS = 4
log = logging.getLogger("minilab")


def mark(source: str, function: str, torch_device: str, limits: dict[str, float], bench: dict) -> dict:
    """Find out everything about a learner's softmax, as far as this machine can.

    Args:
        source, function: the learner's file and the function in it.
        torch_device: where it runs: `cpu`, with Triton interpreted, or `cuda:N`.
        limits: seconds that the proof and the bench may take, under `proof` and `bench`.
        bench: what the bench measures, as `minikernel.measure.bench.bench_kernel` takes it.

    Returns:
        `source`; `executed_by`: what ran it, `cpu`, `cuda` or `triton-interpreter`; `unfilled` and `cases`, as
        `mark_cases` gives them; `ended`: the reason why the proof did not end, or None; `traffic`: the rows of
        `mark_traffic`, none where nothing was counted; `timed`: the rows of `bench_kernel`, none where nothing was
        timed, and then `untimed` may be the reason.
    """
    on_cpu = torch_device == "cpu"

    def sandboxed(task: str, stage: str, interpreted: bool, **arguments) -> Outcome:
        call = {"name": NAME, "entry": {"source": source, "function": function}, **arguments}
        with _interpreter(interpreted):
            return run_in_sandbox(task, call, NAME, torch_device, limits[stage], f"{stage}.time_limit_seconds")

    proof, ended = sandboxed(
        "minikernel.exercise.exercise:mark_cases", "proof", interpreted=on_cpu, device=torch_device
    )
    marks: dict[str, Any] = {"source": source, "executed_by": "cpu" if on_cpu else "cuda", "ended": ended}
    marks |= {"traffic": [], "timed": [], "untimed": None, **(proof or {"unfilled": False, "cases": []})}
    if not is_right(marks):
        return marks
    counted, uncounted = sandboxed("minikernel.exercise.exercise:mark_traffic", "proof", interpreted=True)
    if uncounted:
        log.info("its passes were not counted: %s", in_words(uncounted))
    marks["traffic"] = counted or []
    if on_cpu and any(row["launches"] for row in marks["traffic"]):
        marks["executed_by"] = INTERPRETER  # whose time says nothing
    elif not borrowed(marks):
        timed, marks["untimed"] = sandboxed(
            "minikernel.measure.bench:bench_users_kernel",
            "bench",
            interpreted=False,
            params=bench,
            torch_device=torch_device,
            tuning_seconds=limits["bench"] / 2,
        )
        marks["timed"] = timed["rows"] if timed else []
    return marks


@contextmanager
def _interpreter(wanted: bool) -> Iterator[None]:
    """Whether Triton interprets its kernels in the processes started meanwhile: it reads this as it is imported."""
    before = os.environ.pop("TRITON_INTERPRET", None)
    if wanted:
        os.environ["TRITON_INTERPRET"] = "1"
    try:
        yield
    finally:
        os.environ.pop("TRITON_INTERPRET", None)
        if before is not None:
            os.environ["TRITON_INTERPRET"] = before


def mark_cases(name: str, entry: dict, device: str, announce: Callable[[Place], None]) -> dict:
    """Hold a learner's softmax against float64 on every adversarial case.

    Args:
        name, entry: as `minikernel.ops.registry.load_user_kernel` takes them, the entry with its source and function.
        device: torch device to run on.
        announce: as `minikernel.proof.proof.prove` takes it.

    Returns:
        `unfilled`: whether the function says that it is not written yet; `cases`: a row for each case with case,
        rows, cols, max_rel_err (None where wrong) and reason (None where right).

    Raises:
        LabError: the file cannot be loaded.
    """
    announce({"code": "load", "kernel": name, "device": device})
    softmax = load_user_kernel(name, entry["source"], entry["function"])
    marked = []
    for case in adversarial_cases():
        cols = case.x.shape[-1]
        row = {"case": case.name, "rows": case.x.numel() // cols, "cols": cols, "max_rel_err": None, "reason": None}
        try:
            proven = prove(softmax, device, "float32", [case], name, REFERENCE_TOLERANCE["float32"], announce)
            row["max_rel_err"] = proven[0]["max_rel_err"]
        except LabError as wrong:
            if isinstance(wrong.__cause__, NotImplementedError):
                return {"unfilled": True, "cases": []}
            row["reason"] = of_exception(wrong)
        marked.append(row)
    return {"unfilled": False, "cases": marked}


def mark_traffic(name: str, entry: dict, announce: Callable[[Place], None]) -> list[dict]:
    """Count what a learner's softmax moves, on a CPU, at each of `WIDTHS`: rows as `traffic.Traffic`, with `cols`."""
    announce({"code": "count", "kernel": name, "device": "cpu"})
    softmax = load_user_kernel(name, entry["source"], entry["function"])
    generator = torch.Generator().manual_seed(SEED)
    inputs = [torch.randn(ROWS, cols, generator=generator) for cols in WIDTHS]
    return [{"cols": x.shape[-1], **count_traffic(softmax, x)._asdict()} for x in inputs]
