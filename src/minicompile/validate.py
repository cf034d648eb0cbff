"""The gates that `maybe_compile` must pass on a machine before a training run relies on it there.

Each tries one of the cases of `minicompile.safe.compile_cases` on a small model: faults that must leave the model as it
was, and settings that must work with Inductor itself, so that a machine whose C++ compiler or GPU toolchain is broken
shows it here.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from unittest import SkipTest

import torch
from torch import Tensor, nn

from minicompile.safe.compile_cases import FAULTS, Case, check

# The gates fail compiles on purpose: what those log belongs to nobody's screen.
quiet = logging.getLogger(f"{__name__}.quiet")
quiet.addHandler(logging.NullHandler())
quiet.propagate = False


@dataclass(frozen=True)
class Verdict:
    """One gate's result: `detail` says what was seen, or why it failed."""

    gate: str
    passed: bool
    detail: str


class Network(nn.Module):
    """Token ids (B, T) to logits (B, T, 16), with one operation of the caller's own."""

    def __init__(self, operation: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(16, 8), nn.Linear(8, 16)
        self.operation = operation

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        return self.head(x.tanh() if self.operation is None else self.operation(x))


def ids(length: int = 8) -> Tensor:
    return torch.arange(2 * length).reshape(2, length) % 16


def tried(case: Case) -> str:
    """Try a case; says what became of the compile."""
    try:
        report = check(lambda: (Network(), ids()), case, logger=quiet)
    except SkipTest as reason:
        return f"not tried: {reason}"
    if not report.compiled:
        return f"fell back at {report.stage}: {report.reason}"
    differences = ", ".join(f"{kind} {value:.1e}" for kind, value in report.differences.items())
    return f"compiled, graphs: {report.graphs}; {differences}"


GATES: dict[str, Callable[[], str]] = {
    **{f"fallback: {fault.words}": partial(tried, Case("", fault=name)) for name, fault in FAULTS.items()},
    "compiles and computes what eager does": partial(tried, Case()),
    "shapes: stable across all buckets": partial(tried, Case(dynamic=False, buckets=(8, 16, 32))),
}


def run_gates() -> list[Verdict]:
    """Every gate in turn, each with a compiler that has compiled nothing. An unexpected exception fails its gate."""
    verdicts = []
    for name, gate in GATES.items():
        try:
            verdicts.append(Verdict(name, True, gate()))
        except Exception as error:
            verdicts.append(Verdict(name, False, f"{type(error).__name__}: {error}".splitlines()[0]))
    return verdicts


def table(verdicts: list[Verdict]) -> str:
    """The verdicts as lines of `passed  gate  detail`."""
    width = max(len(verdict.gate) for verdict in verdicts)
    return "\n".join(f"{'pass' if v.passed else 'FAIL'}  {v.gate:{width}}  {v.detail[:160]}" for v in verdicts)
