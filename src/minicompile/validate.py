"""The gates that `maybe_compile` must pass on a machine before a training run relies on it there.

Each gate builds a small model, does one thing to it, and says in a sentence what it saw; a gate that does not hold
raises `GateFailed`. They use Inductor itself: a machine whose C++ compiler or GPU toolchain is broken shows it here.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from minicompile.safe.compile_cases import lying
from minicompile.safe.compile_config import CompileConfig
from minicompile.safe.compile_record import CompileReport, compile_report
from minicompile.safe.safe_compile import maybe_compile
from minicompile.safe.shape_stabilizer import ShapeStabilizer
from minicompile.safe.smoketest.smoketest import CompileSmoketest
from minicompile.torch_private import dynamo as dynamo_internals
from minilab import LabError

# The gates fail compiles on purpose: what those log belongs to nobody's screen.
quiet = logging.getLogger(f"{__name__}.quiet")
quiet.addHandler(logging.NullHandler())
quiet.propagate = False


class GateFailed(LabError):
    """What a gate asks for does not hold."""


@dataclass(frozen=True)
class Verdict:
    """One gate's result: `detail` says what was seen, or why it failed."""

    gate: str
    passed: bool
    detail: str


class Network(nn.Module):
    """Token ids (B, T) to logits (B, T, 16), with one operation of the gate's own."""

    def __init__(self, operation: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(16, 8), nn.Linear(8, 16)
        self.operation = operation

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        return self.head(x.tanh() if self.operation is None else self.operation(x))


class NoBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        raise NotImplementedError("this operation has no backward pass")


def unsupported(x: Tensor) -> Tensor:
    """Works eager; no compiler can trace a value that goes through a Python string."""
    return x * float(str(x.detach().mean().item()))


def ids(length: int = 8) -> Tensor:
    return torch.arange(2 * length).reshape(2, length) % 16


def _compiled(model: nn.Module) -> nn.Module:
    return cast(nn.Module, torch.compile(model))  # which torch types as any callable


def _fall_back(model: nn.Module, cfg: CompileConfig, stages: tuple[str, ...]) -> str:
    """Compile a model that cannot be; the sentence of a fall-back that is all it should be."""
    before = {name: value.clone() for name, value in model.state_dict().items()}
    expected = model(ids())
    result = maybe_compile(model, cfg, quiet, ids())
    report: CompileReport = compile_report(model)
    if result is not model or report.compiled:
        raise GateFailed("the model was compiled although it cannot be; the fault went unnoticed.")
    if report.stage not in stages:
        raise GateFailed(f"the failure was put down to the stage {report.stage!r} ({report.reason}).")
    if not torch.equal(model(ids()), expected):
        raise GateFailed("the model that came back computes something else than before.")
    if any(not torch.equal(value, before[name]) for name, value in model.state_dict().items()):
        raise GateFailed("the model that came back has other weights than before.")
    return f"fell back at {report.stage}: {report.reason}"


def unsupported_operation() -> str:
    return _fall_back(Network(unsupported), CompileConfig(enabled=True, fullgraph=True), ("forward",))


def missing_compiler() -> str:
    with dynamo_internals.without_cpp_compiler():
        return _fall_back(Network(), CompileConfig(enabled=True), ("forward", "backward"))


def backward_that_raises() -> str:
    return _fall_back(Network(NoBackward.apply), CompileConfig(enabled=True), ("eager", "forward", "backward"))


def wrong_numbers() -> str:
    return _fall_back(Network(), CompileConfig(enabled=True, backend=lying), ("numerics",))


def smoketest_detects_failure() -> str:
    smoketest = CompileSmoketest()
    if smoketest.run(_compiled(Network(NoBackward.apply)), ids(), None, lambda output: output.sum()):
        raise GateFailed("the smoketest passed a model whose backward pass raises.")
    return f"False: {smoketest.outcome.exception}"


def smoketest_detects_success() -> str:
    smoketest = CompileSmoketest()
    if not smoketest.run(_compiled(Network()), ids(), None, lambda output: output.square().mean()):
        raise GateFailed(f"the smoketest failed a sound model: {smoketest.outcome.exception}")
    differences = ", ".join(f"{kind} {value:.1e}" for kind, value in smoketest.outcome.differences.items())
    return f"True: {differences}"


def shape_stability() -> str:
    stabilizer = ShapeStabilizer((8, 16, 32))
    model = Network()
    cfg = CompileConfig(enabled=True, dynamic=False, fail_policy="raise")
    maybe_compile(model, cfg, quiet, stabilizer.bucket_batch(ids()))
    lengths = (5, 8, 9, 16, 20, 32)
    graphs = []
    for _ in range(2):
        for length in lengths:
            padded = stabilizer.bucket_batch(ids(length))
            if padded.shape[1] not in stabilizer.buckets or model(padded).shape[:2] != padded.shape:
                raise GateFailed(f"{length} tokens were padded to {padded.shape[1]}, which is no bucket.")
        graphs.append(compile_report(model).graphs)
    if graphs != [len(stabilizer.buckets)] * 2:
        raise GateFailed(f"{len(stabilizer.buckets)} buckets took {graphs[0]} graphs, and {graphs[1]} after all again.")
    return f"{len(lengths)} lengths, {graphs[0]} buckets, {graphs[1]} graphs, none on the second round"


GATES = {
    "fallback: unsupported operation": unsupported_operation,
    "fallback: missing C++ compiler": missing_compiler,
    "fallback: backward that raises": backward_that_raises,
    "fallback: backend that returns wrong numbers": wrong_numbers,
    "smoketest: detects failure": smoketest_detects_failure,
    "smoketest: detects success": smoketest_detects_success,
    "shapes: stable across all buckets": shape_stability,
}


def run_gates() -> list[Verdict]:
    """Every gate in turn, each with a compiler that has compiled nothing. An unexpected exception fails its gate."""
    verdicts = []
    for name, gate in GATES.items():
        torch.compiler.reset()
        torch.manual_seed(0)
        try:
            verdicts.append(Verdict(name, True, gate()))
        except Exception as error:
            verdicts.append(Verdict(name, False, f"{type(error).__name__}: {error}".splitlines()[0]))
    torch.compiler.reset()
    return verdicts


def table(verdicts: list[Verdict]) -> str:
    """The verdicts as lines of `passed  gate  detail`."""
    width = max(len(verdict.gate) for verdict in verdicts)
    return "\n".join(f"{'pass' if v.passed else 'FAIL'}  {v.gate:{width}}  {v.detail[:160]}" for v in verdicts)
