"""Prove a user's kernel from outside: on the adversarial cases, and on what a kernel that is right now and then fails.

Four things more than `minikernel.proof.proof` asks of the lab's own, which are read rather than tried:

- called again: hundreds of calls on fresh rows in the same memory, and on rows of which two elements have changed
  places, so that neither their address nor their sum tells that they are others. A kernel that is wrong every so many
  calls, up to that number, is found for certain.
- results kept: results that are looked at only after other calls, a little time, and another content of the input's
  memory, are still what they were. A kernel that returns one buffer each time, or computes later, is found.
- many rows: more than any grid's second dimension has.
- as timed: the shapes at which the bench will time it, as far as they are quick enough here. The bench looks at all
.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import torch

from minikernel.judge.client import Failed, Gone, KernelProcess
from minikernel.judge.subject import Subject
from minikernel.proof.proof import REFERENCE_TOLERANCE, SEED, Case, adversarial_cases
from minikernel.reasons import Reason

SLOW_SECONDS = 2e-3  # a kernel that takes longer, as interpreted ones do, is called fewer times in a row
# rows of no round length, so small that hundreds of calls take no time
CALLED_SHAPE = (3, 129)
KEPT, KEPT_SECONDS = 8, 0.2  # results, and how long they lie before they are looked at
KEPT_SHAPES = ((5, 600), (3, 1000))
COLS = 8  # of many rows
MANY_SECONDS = 0.1  # more rows than the first number of them only where they are likely to take less
SHARE_OF_LIMIT = 0.02  # of the proof's time, that one call at a timed shape is likely to take; else it is not tried
NUMBERED = 2**31  # elements
KINDS = ("many rows", "results kept", "called again", "as timed")


class Judged(NamedTuple):
    """A case and its verdict: `error` is None where there is a reason."""

    case: str
    rows: int
    cols: int
    error: float | None
    reason: Reason | None


class Rounds(NamedTuple):
    """How often a kernel is called beside the adversarial cases.

    Attributes:
        many_rows: numbers of rows to try it on.
        calls, slow_calls: in a row, of one that takes up to `SLOW_SECONDS` and of one that takes longer.
        with_redzones: one run a case for each, between redzones or not.
    """

    many_rows: tuple[int, ...] = (1024, 70001)
    calls: int = 512
    slow_calls: int = 128
    with_redzones: tuple[bool, ...] = (True, False)


def judge_cases(
    subject: Subject, shapes: list[list[int]], cases: Iterable[Case] | None = None, rounds: Rounds | None = None
) -> Iterator[Judged]:
    """Try every case on a kernel that is loaded, whatever becomes of the others.

    Args:
        subject: the kernel.
        shapes: [rows, cols] each, at which it will be timed.
        cases: `adversarial_cases()` unless given.
        rounds: `Rounds()` unless given.

    Raises:
        Gone: its process is.
    """
    rounds = rounds or Rounds()
    # All cases whatever becomes of one: whoever hands in a kernel learns all that is wrong with it at once.
    for case in adversarial_cases() if cases is None else cases:
        yield _judged(subject, case.name, case.x.shape, partial(_error, subject, case.x, rounds.with_redzones))
    a_row = 0.0
    # 70,001 rows are more than 65,535, the most that a grid's second dimension has
    for rows in rounds.many_rows:
        # what a row took before tells whether so many can be had
        if a_row * rows > MANY_SECONDS:
            continue
        x = torch.randn((rows, COLS), generator=torch.Generator().manual_seed(SEED))
        yield _judged(subject, "many rows", x.shape, partial(_error, subject, x, (False,)))
        a_row = subject.seconds / rows
    yield _judged(subject, "results kept", torch.Size(KEPT_SHAPES[0]), partial(error_of_kept, subject))
    yield _judged(subject, "called again", torch.Size(CALLED_SHAPE), partial(error_of_calls, subject, rounds))
    an_element = 0.0
    for shape in shapes:
        # where an index in 32 bits would be negative, nothing smaller proves it
        is_beyond = shape[0] * shape[1] > NUMBERED
        if is_beyond or max(a_row, an_element * shape[1]) * shape[0] < SHARE_OF_LIMIT * subject.process.seconds:
            x = torch.randn(shape, generator=torch.Generator().manual_seed(SEED))
            yield _judged(subject, "as timed", x.shape, partial(_error, subject, x, (False,)))
            an_element = subject.seconds / x.numel()


def _judged(subject: Subject, case: str, shape: torch.Size, error_of: Callable[[], float]) -> Judged:
    rows, cols = shape.numel() // shape[-1], shape[-1]
    subject.process.place("case", case=case, shape=list(shape), dtype=subject.dtype)
    try:
        return Judged(case, rows, cols, error_of(), None)
    except Failed as failure:
        return Judged(case, rows, cols, None, failure.reason)


def _error(subject: Subject, x: torch.Tensor, with_redzones: tuple[bool, ...]) -> float:
    return max(subject.error(x, redzones) for redzones in with_redzones)


def error_of_kept(subject: Subject) -> float:
    """The largest error of results that are looked at when all of them have been made."""
    generator = torch.Generator().manual_seed(SEED)
    made = []
    for key in range(KEPT):
        x = torch.randn(KEPT_SHAPES[key % len(KEPT_SHAPES)], generator=generator)
        laid = subject.lay(x)
        subject.call(laid, key)
        made.append(laid)
    # One more input in the same memory, after the last call: a kernel that computes only when it is looked at, or
    # returned its input's memory, reads this instead.
    subject.lay(torch.randn(max(KEPT_SHAPES, key=lambda shape: shape[0] * shape[1]), generator=generator))
    time.sleep(KEPT_SECONDS)
    errors = []
    for key, laid in enumerate(made):
        try:
            errors.append(subject.judged(subject.result(laid, key), laid.values))
        except Failed:
            raise subject.failed({"code": "not_kept", "call": key + 1, "calls": KEPT}) from None
    return max(errors)


def error_of_calls(subject: Subject, rounds: Rounds | None = None) -> float:
    """The largest error of many calls in a row."""
    rounds = rounds or Rounds()
    generator = torch.Generator().manual_seed(SEED)
    x = torch.randn(CALLED_SHAPE, generator=generator)
    subject.call(subject.lay(x))
    calls = rounds.slow_calls if subject.seconds > SLOW_SECONDS else rounds.calls
    worst = 0.0
    for call in range(1, calls + 1):
        if call % 2:
            x = torch.randn(CALLED_SHAPE, generator=generator)
        else:
            # The same numbers in the same place, two of them exchanged: sums, extremes and the first and last element
            # are as before, so that no cheap fingerprint of the input tells that it is another.
            here, there = (1 + torch.randperm(CALLED_SHAPE[1] - 2, generator=generator)[:2]).tolist()
            x[:, [here, there]] = x[:, [there, here]]
        subject.process.place("again", call=call, calls=calls, shape=list(CALLED_SHAPE), dtype=subject.dtype)
        worst = max(worst, subject.error(x))
    return worst


def prove_users_kernel(
    name: str, entry: dict, device: str, seconds: float, shapes: list[list[int]]
) -> tuple[list[dict], Reason | None]:
    """Prove a user's kernel in float32, in a process of its own.

    Args:
        name, entry: the kernel's, from the configuration.
        device: torch device.
        seconds: the process is ended there.
        shapes: as `judge_cases` takes them.

    Returns:
        The rows of a proof, as `minikernel.proof.proof.prove` gives them, and None; or no row, and the reason why it is
        left out.
    """
    # the bound for kernels that need not recover what rounding loses: two that pass agree to 1e-4
    tolerance, rows = REFERENCE_TOLERANCE["float32"], []
    with KernelProcess(name, device, seconds, "proof.time_limit_seconds") as process:
        try:
            process.load(name, entry)
            for judged in judge_cases(Subject(process, name, tolerance), shapes):
                if judged.reason:
                    return [], judged.reason
                case = {"case": judged.case, "dtype": "float32", "rows": judged.rows, "cols": judged.cols}
                rows.append({**case, "max_rel_err": judged.error, "tolerance": tolerance})
        except (Failed, Gone) as failure:
            return [], failure.reason
    return rows, None
