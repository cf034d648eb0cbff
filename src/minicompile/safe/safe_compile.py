"""Compiles a model, or leaves it eager and says why: `maybe_compile`.

Compilation is in place, as `nn.Module.compile` does it: the object that comes back is the one that went in, with
another way to be called. Its class, its `state_dict` keys, its hooks and its parameters stay what they are;
pickles and deep copies of it are plain eager models. `torch.compile(model)` would wrap it and prefix every key.
"""

import contextlib
import logging
import os
import time
import traceback
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from minicompile.safe.compile_config import CompileConfig
from minicompile.safe.compile_record import CompileReport, Record, SmoketestOutcome, lock_of, records
from minicompile.safe.coverage.parts import WHOLE
from minicompile.safe.failures import NothingCompiled, coded, failure_of_ranks, first_line, ranks_present
from minicompile.safe.installation import Compiled, install
from minicompile.safe.selection import Selection, select
from minicompile.safe.smoketest.marks import marked_once, marks_of
from minicompile.safe.smoketest.smoketest import CompileSmoketest
from minicompile.safe.smoketest.steps import Subject
from minicompile.safe.watch import Found, Watch
from minicompile.torch_private import dynamo as dynamo_internals
from minicompile.torch_private import installed
from minilab import LabError

silent = logging.getLogger(f"{__name__}.silent")
silent.addHandler(logging.NullHandler())
silent.propagate = False


def maybe_compile(
    model: nn.Module,
    cfg: CompileConfig,
    logger: logging.Logger,
    sample_batch: Any = None,
    *,
    loss_fn: Callable | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    process_group: Any = None,
) -> nn.Module:
    """Compile `model` in place, prove it on `sample_batch`, and give it back; on any failure, give it back untouched.

    Args:
        model: an eager model. A `DistributedDataParallel` has what it wraps compiled. Under FSDP2 the innermost
            modules that it manages are compiled.
        cfg: what to compile and how; disabled, the model comes back without a look.
        logger: one INFO line on success; one ERROR with stage, exception, stack and wall time on failure; each has the
            report as a dictionary in its attribute `compile_report`, for structured logs.
        sample_batch: a batch as in training: tensor, tuple or dictionary (`minicompile.state.batches`). Without one
            there is no smoketest, and the compile happens at the first call.
        loss_fn: `(output)` or `(output, target)`; None takes the model's own loss.
        optimizer: the one that will train the model; its state is restored. None takes plain SGD.
        process_group: whose ranks decide together, where `torch.distributed` runs; None is all.

    Returns:
        `model` itself. Under `fallback_eager`, a compile that fails later, at a call with new shapes, runs that
        call eager, and all those after it.

    Raises:
        LabError: an argument is of the wrong kind; the configuration or a pattern of it cannot be; the model is a
            `torch.compile` wrapper already.
        Exception: under `fail_policy="raise"`, what the compile raised, with a note of the stage; `WrongNumbers`,
            `TimeLimitExceeded` or `OtherRankFailed` for failures that raise nothing themselves.
    """
    if not isinstance(cfg, CompileConfig):
        raise _wrong_kind("cfg", cfg, "a CompileConfig; CompileConfig.from_dict makes one of a dictionary")
    if not cfg.enabled:
        return model
    cfg.validate()
    installed.begin()
    refuse_wrong_kinds(model, logger, loss_fn, optimizer)
    inner = _inner(model)
    if hasattr(inner, "_orig_mod"):
        raise LabError("the model is wrapped by torch.compile already; give maybe_compile the plain model.")
    with lock_of(inner):
        return _compiled(model, inner, cfg, logger, (sample_batch, optimizer, loss_fn), process_group)


def _compiled(
    model: nn.Module, inner: nn.Module, cfg: CompileConfig, logger: logging.Logger, step: tuple, process_group: Any
) -> nn.Module:
    """Do what `maybe_compile` says.

    Args:
        inner: what `model` wraps, or `model` itself.
        step: what a training step takes besides: batch, optimizer, loss.
    """
    sample_batch = step[0]
    uncompile(model)
    selection = select(inner, cfg.allowlist, cfg.blocklist)
    backend_name = cfg.backend if isinstance(cfg.backend, str) else getattr(cfg.backend, "__name__", "custom")
    watch = Watch(backend_name, logger)
    report = CompileReport(
        stage="compile",
        backend=backend_name,
        mode=cfg.mode,
        dynamic=cfg.dynamic,
        fullgraph=cfg.fullgraph,
        modules=[name or WHOLE for name in selection.compiled],
        ran_eager=[*selection.blocked_modules, *selection.blocked_functions],
    )
    undo = contextlib.ExitStack()
    record = records[model] = records[inner] = Record(report, watch, undo.close)
    weakref.finalize(inner, undo.close).atexit = False  # a function that it blocks is blocked no longer than it lives
    started = time.perf_counter()
    compiled: list[Compiled] = []
    outcome = SmoketestOutcome(stage="compile")
    try:
        if cfg.healthcheck and sample_batch is not None:
            synchronised = contextlib.nullcontext() if inner is model else getattr(model, "no_sync")()  # noqa: B009
            subject = Subject(inner, *step)
            with synchronised:
                outcome, compiled = _tried(subject, selection, cfg, watch, undo, logger)
        if outcome.exception is None and not compiled:
            compiled = install(selection, cfg, watch, undo)
            outcome.stage = outcome.stage if outcome.passed else "unchecked"
    except Exception as error:
        outcome.stage, outcome.exception = "compile", error
    except BaseException:  # the user's own interrupt leaves nothing behind either
        uncompile(model)
        raise
    if ranks_present(process_group):
        elsewhere = failure_of_ranks(outcome.exception, process_group)
        if elsewhere is not None and outcome.exception is None:
            outcome.stage, outcome.exception = "ranks", elsewhere

    report.seconds = time.perf_counter() - started
    report.compile_seconds, report.step_seconds = outcome.compile_seconds, outcome.step_seconds
    report.dtype, report.tolerance, report.differences = outcome.dtype, outcome.tolerance, outcome.differences
    report.compared, report.not_compared = outcome.compared, outcome.not_compared
    report.tried_on, report.tried_steps, report.in_place = outcome.batch, outcome.steps, outcome.in_place
    if outcome.exception is not None:
        fall_back(record, outcome.stage, outcome.exception, logger)
        if cfg.fail_policy == "raise":
            outcome.exception.add_note(f"maybe_compile failed at stage {outcome.stage!r}; fail_policy is 'raise'.")
            raise outcome.exception
        return model
    report.compiled, report.stage = True, "compiled" if outcome.passed else "unchecked"
    if cfg.fail_policy == "fallback_eager":
        for part in compiled:
            part.put(part.guarded(lambda error: fall_back(record, "call", error, logger)))
    if outcome.passed and not outcome.in_place and list(selection.compiled) == [""]:
        marks = marks_of(inner, sample_batch)
        if marks:
            marked_once(inner, marks, vars(inner)[compiled[0].slot], compiled[0].put)
    watch.coverage.arm(inner, selection.blocked_modules.values())
    watch.coverage.listening = True
    logger.info(
        "compiled %s: backend=%s mode=%s dynamic=%s fullgraph=%s seconds=%.2f%s",
        *(type(inner).__name__, backend_name, cfg.mode, cfg.dynamic, cfg.fullgraph, report.seconds),
        _proof(outcome),
        extra={"compile_report": report.to_dict()},
    )
    return model


def refuse_wrong_kinds(model: Any, logger: Any, loss_fn: Any, optimizer: Any) -> None:
    """Refuse what is no model, logger, loss or optimizer before anything is compiled. Raises `LabError`.

    A class in the place of one of its objects is among the commonest mistakes: `loss_fn=nn.MSELoss`.
    """
    if not isinstance(model, nn.Module):
        raise _wrong_kind("model", model, "an nn.Module; wrap a function in the forward of one")
    if not all(callable(getattr(logger, level, None)) for level in ("info", "warning", "error")):
        raise _wrong_kind("logger", logger, "a logging.Logger, such as logging.getLogger(__name__)")
    if loss_fn is not None and (isinstance(loss_fn, type) or not callable(loss_fn)):
        raise _wrong_kind("loss_fn", loss_fn, "None or a function of the output, such as nn.MSELoss()")
    methods = [callable(getattr(optimizer, method, None)) for method in ("step", "zero_grad")]
    groups = getattr(optimizer, "param_groups", None)
    if optimizer is not None and (isinstance(optimizer, type) or not all(methods) or groups is None):
        raise _wrong_kind("optimizer", optimizer, "None or the one torch.optim.Optimizer that will train the model")


def _wrong_kind(argument: str, value: Any, must: str) -> LabError:
    given = f"the class {value.__name__}" if isinstance(value, type) else f"of type {type(value).__name__}"
    return LabError(f"{argument} of maybe_compile is {given}; give {must}.")


def uncompile(model: nn.Module) -> nn.Module:
    """Make a model that went through `maybe_compile` eager again, and forget its report. Any other is left alone."""
    if not isinstance(model, nn.Module):
        raise LabError(f"uncompile was given {type(model).__name__}; give the nn.Module that maybe_compile was given.")
    with lock_of(_inner(model)):
        record = records.pop(model, None)
        if record is not None:
            record.uninstall()
    return model


def _inner(model: nn.Module) -> nn.Module:
    """What a `DistributedDataParallel` wraps; any other model itself."""
    return model.get_submodule("module") if dynamo_internals.is_ddp(model) else model


def _proof(outcome: SmoketestOutcome) -> str:
    """Say at the end of the log's line what stands behind the compile."""
    if not outcome.passed:
        return " (unchecked: it compiles at its first call)"
    return f" (the smoketest ran in this process: {outcome.in_place})" if outcome.in_place else ""


def _tried(
    subject: Subject,
    selection: Selection,
    cfg: CompileConfig,
    watch: Watch,
    undo: contextlib.ExitStack,
    logger: logging.Logger,
) -> tuple[SmoketestOutcome, list[Compiled]]:
    """Put a model through the smoketest; return what came of it, and what was compiled in this process."""
    test = CompileSmoketest(cfg.smoketest_steps, cfg.tolerance, cfg.time_limit_seconds)
    compiled: list[Compiled] = []
    errors: list[Exception] = []
    within, process = contextlib.ExitStack(), os.getpid()

    def put_in() -> None:
        if os.getpid() != process:
            watch.logger = silent  # this process logs what the watch finds there
        compiled[:] = install(selection, cfg, watch, undo)
        within.enter_context(watch.start_up())
        if any(dynamo_internals.is_fsdp(module) for module in subject.model.modules()):
            # Under FSDP2 each step communicates. A rank whose compile fails goes on with the step, eager, so that the
            # others do not wait for it for ever; the backward graphs compile in the forward pass, where a failure can
            # be caught.
            for part in compiled:
                part.put(part.guarded(errors.append, (Exception,)))
            within.enter_context(dynamo_internals.failing_backward_early())
        watch.coverage.arm(subject.model, selection.blocked_modules.values())

    def seen() -> Found:
        within.close()
        return watch.found()

    found = test.attempt(subject, logger, put_in, seen)
    if found is not None and not compiled:
        watch.hear(found, test.outcome.random)
    outcome = test.outcome
    if errors:
        for part in compiled:
            part.put()
        if outcome.exception is None:
            outcome.stage, outcome.exception = "forward", errors[0]
    if (outcome.passed or outcome.stage == "recompile") and not found.graphs:  # a stance refuses the first compile too
        outcome.stage = "compile"
        sentence = "the compiler found nothing to compile in the model; leave it eager."
        outcome.exception = NothingCompiled(sentence, "nothing_compiled")
    return outcome, compiled


def fall_back(record: Record, stage: str, error: BaseException, logger: logging.Logger) -> None:
    """Make the model eager, and record and log why."""
    record.uninstall()
    report = record.report
    report.compiled, report.stage = False, stage
    report.exception, report.reason, report.failure = type(error).__name__, first_line(error), coded(error)
    report.stack = "".join(traceback.format_exception(error))
    logger.error(
        "torch.compile failed, the model stays eager: stage=%s exception=%s seconds=%.2f reason=%s\n%s",
        *(stage, report.exception, report.seconds or 0.0, report.reason, report.stack),
        extra={"compile_report": report.to_dict()},
    )
