"""Keeps what became of each model that went through `maybe_compile`."""

import dataclasses
import threading
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from minicompile.safe.coverage.coverage import Coverage
from minicompile.safe.coverage.notices import RoundCall
from minicompile.safe.coverage.parts import WHY
from minicompile.safe.coverage.unguarded import Unguarded
from minicompile.safe.failures import ForkedProcess, TimeLimitExceeded
from minicompile.safe.watch import Watch
from minicompile.torch_private.dynamo import CacheLimit
from minicompile.torch_private.running import everything_eager
from minilab import LabError
from minilab.sandbox import autograd


@dataclass
class CompileReport:
    """The state of one model.

    Attributes:
        compiled: whether calls go through compiled code now.
        stage: `compiled`; `unchecked` (compiled, no smoketest yet); `none` (never went through `maybe_compile`, or
            is a copy of one that did); or where it failed: `compile`, `ranks`, `call` (a later compile, at a call),
            `later` (compiled, and calls run eager now), or a stage of
            `minicompile.safe.compile_record.SmoketestOutcome`.
        reason: the failure in one line, for people; None without one.
        failure: the same as `code` and fields, as `minicompile.safe.failures.coded` gives them; None without one.
        exception: its type.
        stack: its traceback.
        seconds: wall time of `maybe_compile`.
        compile_seconds: the first compiled step of the smoketest, its compile included.
        step_seconds: the fastest later step of it.
        backend, mode, dynamic, fullgraph: as configured.
        modules: which of the modules to compile run compiled, by qualified name; the model itself is `(model)`. Each
            has a graph: that of a call, in the smoketest or later. Without a smoketest, all until the first call.
        ran_eager: what runs eager: modules that were to be compiled, or lie within one, and have no graph; what is
            blocked by name; frames that Dynamo could not compile or gave up on.
        why_eager: why, for each: `blocked`, `graph_break`, `nothing_to_compute`, `never_called` (in the smoketest),
            `not_compiled` (Dynamo cannot), `recompile_limit`, `accumulated_recompile_limit`, `skipped` (Dynamo does
            so for good once a mode of torch's such as `FlopCounterMode` was on), `left` (for no reason that it tells).
        eager_since: when calls of a module that ran compiled before began to run eager, in this process: all, or, past
            a limit, those for which nothing was compiled; None where none do.
        round_calls: calls that go past the compiled code, from the third on: `by` (a method of the model, or a
            function with its line) calls `called` (`forward`, that of a part, or a part) and not the compiled module.
            Of a module that has no other within, the methods in which such a call is written.
        unguarded: what compiled code depends on while no guard looks at it, as far as it shows: `environment` (the
            line reads `os.environ`), `hooks` (of a module, compiled in), `hooks_changed` (since the compile).
        graphs: forward graphs that were compiled, in this process or, before its first call, in the smoketest's.
        guards: checks that their frames make, over all of them.
        graph_breaks: where a frame was cut in two, and why.
        recompiles: the guard that failed, for each.
        cache_limits: frames that Dynamo gave up on.
        dtype: the coarsest arithmetic in the comparison with eager.
        tolerance: the relative difference that was allowed.
        differences: the largest of each element that is compared by number: output, loss, gradient, batch, buffer,
            attribute.
        compared: what of a call was held against eager's, as `minicompile.safe.call` lists it.
        not_compared: what was not: what eager leaves otherwise each time; iterators; gradients where the model is only
            called, and those through outputs from which the loss does not come.
        tried_on: name -> dtype and shape of each tensor of the batch on which it was proven; empty without a smoketest.
        tried_steps: training steps, or calls, that the proof took through compiled code.
        in_place: why the smoketest ran in this process; None where it ran in a copy of it, or not at all.
        torch: the version.
    """

    compiled: bool = False
    stage: str = "none"
    reason: str | None = None
    failure: dict | None = None
    exception: str | None = None
    stack: str | None = None
    seconds: float | None = None
    compile_seconds: float | None = None
    step_seconds: float | None = None
    backend: str | None = None
    mode: str | None = None
    dynamic: bool | None = None
    fullgraph: bool | None = None
    modules: list[str] = field(default_factory=list)
    ran_eager: list[str] = field(default_factory=list)
    why_eager: dict[str, str] = field(default_factory=dict)
    eager_since: str | None = None
    round_calls: list[RoundCall] = field(default_factory=list)
    unguarded: list[Unguarded] = field(default_factory=list)
    graphs: int = 0
    guards: int = 0
    graph_breaks: list[str] = field(default_factory=list)
    recompiles: list[str] = field(default_factory=list)
    cache_limits: list[CacheLimit] = field(default_factory=list)
    dtype: str | None = None
    tolerance: float | None = None
    differences: dict[str, float] = field(default_factory=dict)
    compared: list[str] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)
    tried_on: dict[str, str] = field(default_factory=dict)
    tried_steps: int = 0
    in_place: str | None = None
    torch: str = torch.__version__

    def to_dict(self) -> dict:
        """Return plain data for JSON: all but `reason`, which `failure` says in codes."""
        values = dataclasses.asdict(self)
        del values["reason"]
        return values


@dataclass
class SmoketestOutcome:
    """What the smoketest found.

    Attributes:
        stage: `passed`, or where it failed: `eager` (the model itself), `compile`, `forward`, `loss`, `backward`,
            `optimizer`, `numerics`, `recompile`, `time_limit`, `process` (in which no backward pass can run).
        exception: what was raised there; None when it passed.
        compile_seconds: the first compiled step, its compile included.
        step_seconds: the fastest later step; None when there was one step only.
        dtype, tolerance: the arithmetic compared, and the relative difference that was allowed.
        differences: largest relative difference of each element that is compared by number.
        batch: name -> dtype and shape of each tensor of the sample batch.
        compared: the elements of a call that were held against eager's, as `minicompile.safe.call` lists them.
        not_compared: what was not, since eager itself leaves something else each time, or the model was only called.
        steps: compiled steps that were taken.
        random: whether eager's step draws torch's random numbers.
        in_place: why the steps were taken in this process; None where they were taken in a copy of it.
    """

    stage: str = "eager"
    exception: BaseException | None = None
    compile_seconds: float | None = None
    step_seconds: float | None = None
    dtype: str | None = None
    tolerance: float | None = None
    differences: dict[str, float] = field(default_factory=dict)
    batch: dict[str, str] = field(default_factory=dict)
    compared: list[str] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)
    steps: int = 0
    random: bool = False
    in_place: str | None = None

    @property
    def passed(self) -> bool:
        return self.stage == "passed"

    def failed(self, error: BaseException) -> None:
        """Note an exception at the stage that has been reached."""
        self.exception = error
        if isinstance(error, TimeLimitExceeded):
            self.stage = "time_limit"
        elif isinstance(error, RuntimeError) and "fail_on_recompile" in str(error):
            self.stage = "recompile"
        elif autograd.is_refused(error):
            self.stage, self.exception = "process", ForkedProcess()
            self.exception.__cause__ = error

    def timed(self, number: int, seconds: float) -> None:
        """Note what the compiled step of that number took."""
        self.steps = number
        if number == 1:
            self.compile_seconds = seconds
        else:
            self.step_seconds = min(seconds, self.step_seconds or seconds)


@dataclass
class Record:
    """What is kept of one model: its report as far as it is settled, and the watch that goes on counting."""

    report: CompileReport
    watch: Watch
    uninstall: Callable[[], None]


# By model, and never inside it: a model's pickle and its copies hold nothing of this package's bookkeeping. By its
# identity: models that call themselves equal are different models.
records: MutableMapping[nn.Module, Record] = WeakIdKeyDictionary()
_locks: MutableMapping[nn.Module, threading.RLock] = WeakIdKeyDictionary()
_finding_a_lock = threading.Lock()


def lock_of(model: nn.Module) -> threading.RLock:
    """The lock for whoever compiles a model or makes it eager again: two threads at once would do half of both."""
    with _finding_a_lock:
        return _locks.setdefault(model, threading.RLock())


def compile_report(model: nn.Module) -> CompileReport:
    """Report the state of `model` now, recompiles since start-up included; `.to_dict()` gives plain data."""
    if not isinstance(model, nn.Module):
        given = type(model).__name__
        raise LabError(f"compile_report was given {given}; give the nn.Module that maybe_compile was given.")
    record = records.get(model)
    if record is None:
        reason = "maybe_compile has not compiled this object; a copy of a compiled model is eager until it has"
        return CompileReport(reason=reason, failure={"code": "never_compiled"})
    watch, tested, coverage = record.watch, record.watch.tested, record.watch.coverage
    changed = _now(coverage) if record.report.compiled else {}
    why = dict.fromkeys(record.report.ran_eager, "blocked") | dict.fromkeys(watch.failed_frames, "not_compiled")
    why |= {limit.function: limit.limit for limit in watch.cache_limits}
    why |= coverage.eager()
    return dataclasses.replace(
        record.report,
        **changed,
        modules=coverage.compiled() if record.report.compiled else [],
        ran_eager=list(why),
        why_eager=why,
        graphs=watch.graphs or (tested.graphs if tested else 0),
        guards=watch.guards() or (tested.guards if tested else 0),
        graph_breaks=list(watch.graph_breaks),
        recompiles=list(watch.recompiles),
        cache_limits=list(watch.cache_limits),
        round_calls=coverage.round_calls(),
        unguarded=[*watch.unguarded, *coverage.unguarded()],
    )


def _now(coverage: Coverage) -> dict[str, Any]:
    """What has changed since a model was compiled, of the fields of its report."""
    everything, since = everything_eager(), coverage.left_since()
    if everything is not None:
        reason = f"{everything} is set: until it is set back, calls run eager"
        return {
            "compiled": False,
            "stage": "later",
            "reason": reason,
            "failure": {"code": "everything_eager", "setting": everything},
        }
    if coverage.compiled():
        return {"eager_since": since}
    why = next(iter(coverage.eager().values()))
    reason = f"calls run eager{f' since {since}' if since else ''}: {WHY[why]}"
    failure = {"code": "runs_eager", "why": why, "since": since}
    return {"compiled": False, "stage": "later", "reason": reason, "failure": failure, "eager_since": since}
