"""Mark a learner's softmax: right where, how many passes, how fast.

The cases and the timing are those that every user's kernel goes through, judged from outside (`minikernel.judge`);
here a wrong case does not end the proof, because a learner wants to see all of them.
"""

import logging
from typing import Any

import torch

from minikernel.exercise.marks import INTERPRETER, borrowed, is_right
from minikernel.judge.bench import bench_users_kernel
from minikernel.judge.client import Failed, Gone, KernelProcess
from minikernel.judge.proof import judge_cases
from minikernel.judge.subject import Subject
from minikernel.proof.proof import SEED
from minikernel.reasons import Reason, in_words

NAME = "mine"  # what figures and sentences call the learner's softmax
WIDTHS = (600, 50257)  # at which passes are counted: the lab's vocabulary, and a row too long for one tile
ROWS = 4
KNOB = "proof.time_limit_seconds"
INTERPRETED, COMPILED = {"TRITON_INTERPRET": "1"}, {"TRITON_INTERPRET": "0"}
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
    entry = {"source": source, "function": function}
    marks: dict[str, Any] = {"source": source, "executed_by": "cpu" if on_cpu else "cuda"}
    marks |= {"traffic": [], "timed": [], "untimed": None, **mark_cases(entry, torch_device, limits["proof"])}
    if not is_right(marks):
        return marks
    marks["traffic"], uncounted = mark_traffic(entry, limits["proof"])
    if uncounted:
        log.info("its passes were not counted: %s", in_words(uncounted))
    if on_cpu and any(row["launches"] for row in marks["traffic"]):
        marks["executed_by"] = INTERPRETER  # whose time says nothing
    elif not borrowed(marks):
        timed, marks["untimed"] = bench_users_kernel(NAME, entry, bench, torch_device, limits["bench"], log.info)
        marks["timed"] = timed["rows"]
    return marks


def mark_cases(entry: dict, device: str, seconds: float) -> dict[str, Any]:
    """Try every case of the proof on a learner's softmax.

    Args:
        entry: its source and function.
        device: torch device to run on; on a CPU Triton is interpreted.
        seconds: that all cases together may take.

    Returns:
        `unfilled`: whether the function says that it is not written yet; `ended`: why the proof did not end, or None;
        `cases`: a row for each case with case, rows, cols, max_rel_err (None where wrong), reason (None where right).
    """
    nothing: dict[str, Any] = {"unfilled": False, "ended": None, "cases": []}
    marked = []
    with KernelProcess(NAME, device, seconds, KNOB, INTERPRETED if device == "cpu" else COMPILED) as process:
        try:
            process.load(NAME, entry)
            for judged in judge_cases(process, NAME, []):
                if judged.reason and judged.reason.get("text", "").startswith("NotImplementedError"):
                    return {**nothing, "unfilled": True}
                row = {"case": judged.case, "rows": judged.rows, "cols": judged.cols}
                marked.append({**row, "max_rel_err": judged.error, "reason": judged.reason})
        except (Failed, Gone) as failure:
            return {**nothing, "ended": failure.reason}
    return {**nothing, "cases": marked}


def mark_traffic(entry: dict, seconds: float) -> tuple[list[dict], Reason | None]:
    """Count what a learner's softmax moves, on a CPU with Triton interpreted, at each of `WIDTHS`.

    What is counted is told by the learner's own process, and decides no verdict on what is right.

    Returns:
        Rows as `traffic.Traffic`, with `cols`, and None; or none, and the reason why.
    """
    generator = torch.Generator().manual_seed(SEED)
    rows = []
    with KernelProcess(NAME, "cpu", seconds, KNOB, INTERPRETED) as process:
        try:
            process.load(NAME, entry)
            process.place("count")
            subject = Subject(process, NAME, tolerance=0)
            for cols in WIDTHS:
                layout, _ = subject.lay(torch.randn(ROWS, cols, generator=generator))
                told = process.ask("traffic", name=NAME, x=layout)
                figures = {name: process.figure(told, name) for name in ("reads", "writes", "launches")}
                figures["launches"] = int(figures["launches"])
                rows.append({"cols": cols, **figures, "operations": [str(name) for name in told["operations"]]})
        except (Failed, Gone) as failure:
            return [], failure.reason
    return rows, None
