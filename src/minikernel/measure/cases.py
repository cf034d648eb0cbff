"""Cases measured one after the other in one process: each may fail by itself, and the time limit cuts the rest."""

import gc
import time
from collections.abc import Callable, Iterable, Sequence

import torch

from minikernel.measure.rows import ContestRow, HeadRow, HostRow, Standard
from minikernel.measure.standards import LEFT_OUT_ALL
from minikernel.reasons import Reason, in_words, of_exception

Rows = Sequence[ContestRow | HeadRow | HostRow]
Measured = tuple[Rows, dict[str, Reason]]  # rows, and name -> why it was left out
Case = tuple[dict, Callable[[], Measured]]  # where it belongs, and the function that measures it
LEAKED_BYTES = 1 << 28  # between cases: a peer's exception may hold on to tensors until garbage is collected
PARTS = {"softmax": "rows", "head": "rows", "host": "host"}  # part -> where its rows lie in the artefact


def run_cases(
    result: dict,
    cases: Iterable[Case],
    standards: Callable[[dict], list[Standard]],
    limit: float,
    log: Callable[[str], None],
    save: Callable[[dict], None],
) -> dict:
    """Measure all cases into a result.

    A case that fails as a whole is an entry of `left_out` in the name of all, and the others go on; so is one
    that the time limit cuts.

    Args:
        result: what is known so far; `rows`, `left_out`, `standards` and `complete` are filled in.
        cases: a place (part, direction, rows, cols, dtype) and the function that measures there.
        standards: the result so far -> what is asked of it, held against it.
        limit: seconds after which no further case is begun.
        log: called with one line a case.
        save: called with the result so far after each case, so that a run that is cut loses little.
    """
    began = time.monotonic()
    result |= {"complete": False, "left_out": [], "standards": []}
    for place, case in cases:
        rows, reasons = _rows_or_reason(case, time.monotonic() - began, limit)
        result[PARTS[place["part"]]] += rows
        result["left_out"] += [{**place, "kernel": name, "reason": reason} for name, reason in reasons.items()]
        result["standards"] = standards(result)
        log(f"{time.monotonic() - began:4.0f} s {in_line(place, rows, reasons)}")
        save(result)
    result["complete"] = all(out["kernel"] != LEFT_OUT_ALL for out in result["left_out"])
    save(result)
    return result


def _rows_or_reason(case: Callable[[], Measured], elapsed: float, limit: float) -> Measured:
    """What a case measures; in its stead, why it was not measured."""
    if elapsed > limit:
        return [], {LEFT_OUT_ALL: {"code": "time_over", "seconds": limit}}
    try:
        # Memory of the case before is given back; so are compiled functions: with one static shape a case, Dynamo's
        # limit on recompiling is never met, nor the cost of many guards.
        torch._dynamo.reset()
        if torch.cuda.memory_allocated() > LEAKED_BYTES:
            gc.collect()
        torch.cuda.empty_cache()
        return case()
    except Exception as failure:  # out of memory, or a kernel that broke the device for all
        return [], {LEFT_OUT_ALL: of_exception(failure)}


def in_line(place: dict, rows: Rows, reasons: dict[str, Reason]) -> str:
    """One line of the log about one case: its place, who won, and who was left out."""
    where = f"{place['part']} {place['direction']} {place['rows']}x{place['cols']} {place['dtype']}"
    won = sorted(rows, key=lambda row: row["median_us"])
    times = ", ".join(f"{row['kernel']} {row['median_us']:,.1f}" for row in won)
    left_out = "".join(f"; without {name}: {in_words(why)}" for name, why in reasons.items())
    return f"{where}: {times or 'nothing'} us{left_out}"
