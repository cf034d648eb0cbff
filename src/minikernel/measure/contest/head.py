"""The LM head timed by itself, in a minute: what the contest measures of it, without the contest."""

import time
from collections.abc import Callable
from dataclasses import asdict

import torch

from minikernel.measure.ceilings import large_copy
from minikernel.measure.contest.contest import in_line
from minikernel.measure.contest.head_contest import contest_head, head_providers, head_weight
from minikernel.measure.contest.standards import LEFT_OUT_ALL, TIMINGS, of_head
from minikernel.measure.rows import HeadRow, Standard
from minikernel.ops.lm_head import COLUMNS
from minikernel.reasons import Reason, of_exception


def run_head(params: dict, torch_device: str, log: Callable[[str], None]) -> dict:
    """Time the LM heads at every number of hidden states.

    One at which all fail, or that the time limit cuts, is an entry of `left_out` in the name of all.

    Args:
        params: the configuration's section `head`.
        torch_device: `cuda:N`.
        log: called with one line for each number of hidden states.

    Returns:
        `head.json` without its provenance.
    """
    device, began, limit = torch.device(torch_device), time.monotonic(), params["time_limit_seconds"]
    copied = large_copy(device)
    weight = head_weight(device, params["seed"])
    result: dict = {"copy_gb_per_s": copied.giga_per_s, "ceiling": asdict(copied), "rows": [], "left_out": []}
    # each number of rows by itself: what fails at one leaves the others
    for rows in params["rows"]:
        place = {"part": "head", "direction": "forward", "rows": rows, "cols": COLUMNS, "dtype": "float32"}
        found: list[HeadRow] = []
        try:
            if time.monotonic() - began > limit:
                reasons: dict[str, Reason] = {
                    LEFT_OUT_ALL: {"code": "time_over", "seconds": params["time_limit_seconds"]}
                }
            else:
                torch._dynamo.reset()  # with one static shape a compile
                found, reasons = contest_head(head_providers(weight), weight, rows, params, device, copied.giga_per_s)
        except Exception as failure:  # out of memory, or a kernel that broke the device for all
            reasons = {LEFT_OUT_ALL: of_exception(failure)}
        result["rows"] += found
        # who is left out is said with a reason, as in the contest
        result["left_out"] += [{**place, "kernel": name, "reason": reason} for name, reason in reasons.items()]
        # the contest's own line, so that both logs read alike
        log(f"{time.monotonic() - began:4.0f} s {in_line(place, found, reasons)}")
    result["complete"] = all(out["kernel"] != LEFT_OUT_ALL for out in result["left_out"])
    result["standards"] = head_standards(result)
    return result


def head_standards(head: dict) -> list[Standard]:
    """The standards of the LM head, held against `head.json`; as `standards.standards` returns them."""
    return [entry for timing in TIMINGS for entry in of_head(head["rows"], timing)]
