"""Takes a few training steps through the compiled model and compares them with eager's.

`torch.compile` itself hardly ever fails: a compile fails at the first call or at the first `.backward()`,
and wrong numbers fail nowhere. So the test takes whole steps: forward, loss, backward, `optimizer.step`,
`zero_grad`. The last one is held against an eager step from the very same state: outputs, loss, gradients and
buffers must be eager's. By then training has changed what the compile saw, so one that has frozen a parameter or a
buffer shows as well as a wrong one. From the second step on, a recompile is a failure: the batch is always the same.

The steps are taken in a forked copy of the process (`minicompile.safe.apart`), and eager's in copies of that: nothing
of the caller's is touched, whatever it is, a compiler that hangs is killed and one that crashes takes nothing along.
Where a process cannot be forked, the steps are taken in place, one after the other, and all that they can get at is put
back (`minicompile.safe.rewind`); calls of other threads wait meanwhile.
"""

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch
from torch import nn

from minicompile.reach import reached
from minicompile.safe.apart import CannotFork, ProcessDied, Sign, call_apart, packed, unpacked, why_not
from minicompile.safe.failures import TimeLimitExceeded
from minicompile.safe.judge import Judge
from minicompile.safe.outputs import shapes_of
from minicompile.safe.rewind import rewinding
from minicompile.safe.steps import Say, Step, Subject
from minicompile.safe.time_limit import time_limit
from minicompile.torch_private import dynamo as dynamo_internals
from minicompile.torch_private.tensors import COMPILED_CALL, uncompiled_call

PATIENCE_SECONDS = 10.0  # in place, for calls of the model that other threads had begun


@dataclass
class SmoketestOutcome:
    """What the smoketest found.

    Attributes:
        stage: `passed`, or where it failed: `eager` (the model itself), `compile`, `forward`, `loss`, `backward`,
            `optimizer`, `numerics`, `recompile`, `time_limit`.
        exception: what was raised there; None when it passed.
        compile_seconds: the first compiled step, its compile included.
        step_seconds: the fastest later step; None when there was one step only.
        dtype, tolerance: the arithmetic compared, and the relative difference that was allowed.
        differences: largest relative difference of each kind: output, loss, gradient, buffer.
        batch: name -> dtype and shape of each tensor of the sample batch.
        steps: compiled steps that were taken.
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
    steps: int = 0
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

    def timed(self, number: int, seconds: float) -> None:
        """Note what the compiled step of that number took."""
        self.steps = number
        if number == 1:
            self.compile_seconds = seconds
        else:
            self.step_seconds = min(seconds, self.step_seconds or seconds)


class CompileSmoketest:
    """Finds out whether a compiled model trains as the eager one does.

    Args:
        steps: training steps, 1 to 3.
        tolerance: largest relative difference; None takes `TOLERANCES` by dtype.
        time_limit_seconds: for the whole test, or, where it runs in place, for its compiled steps; None is no limit.
    """

    def __init__(self, steps: int = 3, tolerance: float | None = None, time_limit_seconds: float | None = None) -> None:
        self.steps, self.tolerance, self.time_limit_seconds = steps, tolerance, time_limit_seconds
        self.outcome = SmoketestOutcome()

    def run(
        self,
        model: nn.Module,
        sample_batch: Any,
        optimizer: torch.optim.Optimizer | None = None,
        loss_fn: Callable | None = None,
        logger: logging.Logger | None = None,
    ) -> bool:
        """Try a compiled model (`torch.compile(model)`, or `model.compile()` done) on a fixed batch.

        Args:
            model: an eager model passes as well: it is its own reference.
            sample_batch: see `minicompile.batches` for how it reaches the model.
            optimizer: the real one, restored afterwards; None takes plain SGD.
            loss_fn: `(output)` or `(output, target)`; None takes the model's own loss.

        Returns:
            True when everything held. `outcome` says more; nothing is raised for a failure of the compile.

        A model in `eval()` without optimizer or loss_fn, or with nothing to train, is only called, in the grad
        mode that is set. Whatever happens, the model, the optimizer and the random generators end as they began.
        """
        self.attempt(Subject(model, sample_batch, optimizer, loss_fn), logger or logging.getLogger(__name__))
        return self.outcome.passed

    def attempt(
        self,
        subject: Subject,
        logger: logging.Logger,
        install: Callable[[], Any] = lambda: None,
        seen: Callable[[], Any] = lambda: None,
    ) -> Any:
        """Try a model, in a copy of the process where there can be one; `outcome` then says what came of it.

        Args:
            install: compiles the model, in the process in which the steps are taken.
            seen: says at the end what that process saw, as something that can be pickled.

        Returns:
            What `seen` returned; None of a process that did not live to say it.
        """
        self.outcome = outcome = SmoketestOutcome()
        outcome.batch = shapes_of(subject.batch)
        outcome.in_place = why_not(reached(subject.model, subject.given_optimizer, subject.batch).tensors)
        if outcome.in_place is None:
            try:
                self.outcome, error, found = call_apart(
                    lambda sign: self._apart(subject, install, seen, sign), self.time_limit_seconds
                )
                self.outcome.exception = None if error is None else unpacked(error)
                return found
            except CannotFork as error:
                outcome.in_place = str(error)
            except (ProcessDied, TimeLimitExceeded) as error:
                outcome.stage = getattr(error, "stage", None) or outcome.stage
                outcome.failed(error)
                return None
        return self._in_place(subject, logger, install, seen)

    def _apart(self, subject: Subject, install: Callable, seen: Callable, sign: Sign) -> tuple:
        """Take the steps where everything may be spoiled; eager's are taken in copies of that."""
        outcome, error = self.outcome, None

        def say(stage: str) -> None:
            outcome.stage = stage
            sign(stage)

        def reference() -> tuple[Step, Step | None]:
            eager, _ = call_apart(lambda _: subject.eager_step(then_train=False))
            return eager, self._finer(subject, eager)

        try:
            subject.drop_gradients()
            with subject.grad_mode():
                # Eager first: a model that fails by itself is no failure of the compile, and it shows whether random
                # numbers are drawn; if so, the compile must draw eager's.
                random = call_apart(lambda _: subject.eager_step(then_train=True)[1])
                say("compile")
                install()
                self._compiled_steps(subject, say, random, reference)
            outcome.stage = "passed"
        except CannotFork:
            raise
        except Exception as raised:
            outcome.failed(raised)
            error, outcome.exception = packed(raised), None
        return outcome, error, seen()

    def _finer(self, subject: Subject, eager: Step) -> Step | None:
        """Take eager's step in float32 where its arithmetic is coarser; None where it is not, or cannot be."""
        if not Judge(subject.model, eager, self.tolerance).coarse:
            return None
        try:
            return call_apart(lambda _: subject.finer_step())
        except CannotFork:
            raise
        except Exception:  # operations that know no float32
            return None

    def _in_place(self, subject: Subject, logger: logging.Logger, install: Callable, seen: Callable) -> Any:
        """Take the steps in this process, and put everything back."""
        outcome = self.outcome

        def say(stage: str) -> None:
            outcome.stage = stage

        try:
            say("compile")
            install()
            held = (subject.given_optimizer, subject.loss_fn, subject.batch)
            with other_threads_waiting(subject.model):
                say("eager")
                with rewinding(subject.model, *held) as rewind, subject.grad_mode():
                    eager, random = subject.eager_step(then_train=True)

                    def reference() -> tuple[Step, None]:
                        rewind()
                        return eager, None

                    with time_limit(self.time_limit_seconds, "The compile", logger):
                        self._compiled_steps(subject, say, random, reference)
            outcome.stage = "passed"
        except (Exception, TimeLimitExceeded) as error:
            outcome.failed(error)
        return seen()

    def _compiled_steps(
        self, subject: Subject, say: Say, random: bool, reference: Callable[[], tuple[Step, Step | None]]
    ) -> None:
        """Take every compiled step; hold the last against `reference()`, eager's from the state that it finds."""
        outcome = self.outcome
        with dynamo_internals.fallback_random(random or dynamo_internals.draws_as_eager()):
            wrong = None  # raised at the end: ranks that communicate in each step must all take every step
            for number in range(1, self.steps + 1):
                eager, finer = reference() if number == self.steps else (None, None)
                started = time.perf_counter()
                with torch.compiler.set_stance("fail_on_recompile") if number > 1 else nullcontext():
                    step = subject.step(say)
                if eager is not None:
                    say("numerics")
                    judge = Judge(subject.model, eager, self.tolerance)
                    wrong = judge.difference(step, eager, finer)
                    outcome.dtype, outcome.tolerance, outcome.differences = judge.dtype, judge.tolerance, judge.found
                subject.train(say)
                outcome.timed(number, time.perf_counter() - started)
                del step  # its memory serves the next one
        if wrong is not None:
            say("numerics")
            raise wrong


@contextmanager
def other_threads_waiting(model: nn.Module) -> Iterator[None]:
    """Have calls of the model by other threads wait until the block ends, and then see the model that it left.

    The block begins when the calls that were under way have returned.

    Raises:
        TimeoutError: one of them has not, within `PATIENCE_SECONDS`.
    """
    if hasattr(model, "_orig_mod") or any(dynamo_internals.is_fsdp(module) for module in model.modules()):
        yield
        return
    owner, over = threading.get_ident(), threading.Event()
    inner = vars(model).get(COMPILED_CALL)
    own_call = inner or uncompiled_call(model)

    def call(*args: object, **kwargs: object) -> object:
        if threading.get_ident() == owner:
            return own_call(*args, **kwargs)
        over.wait()
        return model(*args, **kwargs)

    setattr(model, COMPILED_CALL, call)
    try:
        patient_until = time.monotonic() + PATIENCE_SECONDS
        while called_elsewhere(model, call.__code__):
            if time.monotonic() > patient_until:
                raise TimeoutError(
                    f"another thread has been in one call of the model for {PATIENCE_SECONDS:.0f} seconds, and its "
                    "answer would be wrong if the model were trained meanwhile"
                )
            time.sleep(0.001)
        yield
    finally:
        if inner is None:
            vars(model).pop(COMPILED_CALL, None)
        else:
            setattr(model, COMPILED_CALL, inner)
        over.set()


def called_elsewhere(model: nn.Module, waiting: CodeType) -> bool:
    """Whether another thread is in a call of the model or of a part of it, one in the function `waiting` apart."""
    parts, begins = {id(module) for module in model.modules()}, getattr(nn.Module.__call__, "__code__", None)
    for thread, innermost in sys._current_frames().items():
        frames = [] if thread == threading.get_ident() else [frame for frame, _ in traceback.walk_stack(innermost)]
        if any(frame.f_code is waiting for frame in frames):
            continue
        if any(frame.f_code is begins and id(frame.f_locals.get("self")) in parts for frame in frames):
            return True
    return False
