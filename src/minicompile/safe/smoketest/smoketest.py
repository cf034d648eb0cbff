"""Takes a few training steps through the compiled model and compares them with eager's.

`torch.compile` itself hardly ever fails: a compile fails at the first call or at the first `.backward()`,
and wrong numbers fail nowhere. So the test takes whole steps: forward, loss, backward, `optimizer.step`,
`zero_grad`. Each is held against an eager step from the very same state, in all that a call returns and leaves behind.
By the last, training has changed what the compile saw, so one that has frozen a parameter or a buffer shows as well as
a wrong one. From the second step on, a recompile is a failure: the batch is always the same.

The steps are taken in a forked copy of the process (`minicompile.safe.smoketest.apart`): nothing of the caller's is
touched, whatever it is, a compiler that hangs is killed and one that crashes takes nothing along. Nothing else runs
there on the good path but an eager step before each compiled one, which is taken back
(`minicompile.safe.smoketest.rewind`). Only a step that fails costs more: another copy then says whether eager fails as
well, or whether there is state that cannot be taken back, in which case the steps are taken again with eager's in a
copy of its own.
Where a process cannot be forked, the steps are taken in place, one after the other, and all that they can get at is put
back; calls of other threads wait meanwhile.
"""

import logging
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, TypeVar

import torch
from torch import nn

from minicompile.safe.call import MAY_VARY
from minicompile.safe.compile_record import SmoketestOutcome
from minicompile.safe.failures import Place, TimeLimitExceeded, WrongNumbers, ranks_present
from minicompile.safe.smoketest.apart import (
    CannotFork,
    ProcessDied,
    Sign,
    StoodStill,
    call_apart,
    packed,
    unpacked,
    why_not,
)
from minicompile.safe.smoketest.judge import Judge, worse
from minicompile.safe.smoketest.numerics import FARTHEST, HAIR, NEARBY
from minicompile.safe.smoketest.outputs import WORDS, Fact, Step
from minicompile.safe.smoketest.rewind import other_threads_waiting, rewinding
from minicompile.safe.smoketest.steps import Say, Subject
from minicompile.safe.smoketest.time_limit import time_limit
from minicompile.state.frozen_state import CannotRestore
from minicompile.state.reach import reached
from minicompile.torch_private import dynamo as dynamo_internals
from minilab.sandbox import autograd

T = TypeVar("T")


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
        self.varying: set[Fact] = set()  # of which eager itself leaves something else each time

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
            sample_batch: see `minicompile.state.batches` for how it reaches the model.
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
        outcome.batch = subject.tried_on()
        outcome.in_place = why_not(reached(subject.model, subject.given_optimizer, subject.batch).tensors)
        if outcome.in_place is None:
            try:
                return self._apart(subject, install, seen)
            except CannotFork as error:
                self.outcome = SmoketestOutcome(batch=outcome.batch, in_place=str(error))
        return self._in_place(subject, logger, install, seen)

    def _apart(self, subject: Subject, install: Callable, seen: Callable) -> Any:
        """Take the steps in copies of the process, as many as it takes to say what came of them."""
        found = self._tried_apart(subject, install, seen)
        eager_apart = self.outcome.stage == "numerics" and not self._takes_back(subject)
        if eager_apart:
            found = self._tried_apart(subject, install, seen, eager_apart)
        if self._may_vary(self.outcome.exception):
            self.varying = self._varying(subject)
            if self.varying:
                found = self._tried_apart(subject, install, seen, eager_apart)
        if self._explained(subject, self.outcome.exception, lambda last: self._last_apart(subject, last)):
            self.outcome.stage, self.outcome.exception = "passed", None
        if self.outcome.stage not in ("passed", "numerics", "recompile", "time_limit"):
            error = self._eager_failure(subject)  # a model that fails by itself is no failure of the compile
            if error is not None and not subject.compiles_itself:
                subject.compiles_itself = True
                if self._eager_failure(subject) is None:
                    return self._apart(subject, install, seen)
            if error is not None and not isinstance(error, CannotFork):
                self.outcome.stage, self.outcome.exception = "eager", error
        return found

    def _tried_apart(self, subject: Subject, install: Callable, seen: Callable, eager_apart: bool = False) -> Any:
        """Take the steps in a copy of the process; eager's in a copy of that where it is asked for."""
        self.outcome = outcome = SmoketestOutcome(batch=self.outcome.batch)

        def attempt(patient: bool) -> Any:
            return call_apart(
                lambda sign: self._steps_apart(subject, install, seen, sign, eager_apart),
                self.time_limit_seconds,
                patient=patient,
            )

        try:
            try:
                self.outcome, error, found = attempt(patient=False)
            except StoodStill:
                # For a lock that some thread holds here, for which eager waits as well; or for another machine.
                if self.time_limit_seconds is None or isinstance(self._eager_failure(subject), StoodStill):
                    raise
                self.outcome, error, found = attempt(patient=True)
            self.outcome.exception = None if error is None else unpacked(error)
            return found
        except (ProcessDied, TimeLimitExceeded) as died:
            outcome.stage = getattr(died, "stage", None) or outcome.stage
            outcome.failed(died)
            return None

    def _steps_apart(self, subject: Subject, install: Callable, seen: Callable, sign: Sign, eager_apart: bool) -> tuple:
        """Take the steps where everything may be spoiled."""
        outcome, error = self.outcome, None

        def say(stage: str) -> None:
            outcome.stage = stage
            sign(stage)

        def reference(number: int) -> tuple[Step, Step | None]:
            if eager_apart:
                eager, outcome.random = call_apart(lambda _: subject.eager_step(then_train=False))
            else:
                eager, outcome.random = subject.eager_step_taken_back()
            return eager, self._finer(subject, eager) if number == self.steps else None

        try:
            say("compile")
            subject.drop_gradients()
            with subject.grad_mode():
                install()
                # Whether random numbers are drawn shows at the end; if so, they must be eager's.
                self._compiled_steps(subject, say, True, reference)
            outcome.stage = "passed"
        except CannotFork:
            raise
        except CannotRestore as raised:
            outcome.stage, error = "numerics", packed(raised)
        except Exception as raised:
            if autograd.is_refused(raised):
                raise CannotFork(autograd.THREADS) from raised
            outcome.failed(raised)
            error, outcome.exception = packed(raised), None
        outcome.random |= dynamo_internals.draws_as_eager()
        return outcome, error, seen()

    def _takes_back(self, subject: Subject) -> bool:
        """Whether an eager step that was taken back leaves another one its numbers, after all but one of the steps."""

        def twice() -> bool:
            first = subject.eager_step_taken_back()[0]
            again = subject.eager_step(then_train=False)[0]
            return Judge(subject.model, first, self.tolerance).difference(again, first) is None

        try:
            return self._last_apart(subject, twice)
        except (CannotRestore, ProcessDied, TimeLimitExceeded):
            return False

    @staticmethod
    def _may_vary(error: BaseException | None) -> bool:
        """Whether what differs is something of which eager may leave something else each time."""
        return isinstance(error, WrongNumbers) and error.place is not None and error.place[0] in MAY_VARY

    def _varying(self, subject: Subject) -> set[Fact]:
        """Of what two eager steps from one state leave differently."""

        def once() -> Step:
            return subject.eager_step(then_train=False)[0]

        def twice() -> set[Fact]:
            try:
                steps = call_apart(lambda _: once()), call_apart(lambda _: once())
            except CannotFork:  # this copy may not be copied again: in it then, as far as a step can be taken back
                steps = subject.eager_step_taken_back()[0], once()
            return self._told_apart(subject, *steps)

        try:
            return self._last_apart(subject, twice)
        except (CannotFork, CannotRestore, ProcessDied, TimeLimitExceeded):
            return set()

    def _last_apart(self, subject: Subject, last: Callable[[], T]) -> T:
        """What `last` makes of the last step, after eager ones, in a copy of the process."""
        return call_apart(lambda _: self._last(subject, last), self.time_limit_seconds)

    def _last(self, subject: Subject, last: Callable[[], T]) -> T:
        """What `last` makes of the last step, in this process."""
        subject.drop_gradients()
        with subject.grad_mode():
            for _ in range(1, self.steps):
                subject.eager_step(then_train=True)
            return last()

    def _told_apart(self, subject: Subject, first: Step, second: Step) -> set[Fact]:
        found = Judge(subject.model, first, self.tolerance).differences(second, first)
        return {error.place for error in found if error.place is not None and self._may_vary(error)}

    def _explained(
        self, subject: Subject, error: BaseException | None, beside: Callable[[Callable[[], Step]], Step]
    ) -> bool:
        """Whether float32 itself explains how far compiled steps were off: eager's is as far from float64's.

        Args:
            beside: takes the last step where it may spoil what it likes.
        """
        distances: dict[Place, float] = getattr(error, "distances", None) or {}
        if not distances or self.outcome.dtype != "float32" or max(distances.values()) > FARTHEST:
            return False
        if self.outcome.random and torch.accelerator.is_available():  # which draws others in float64
            return False

        def nearby(number: int, finer: bool) -> Step:
            if number:
                subject.nudge(number * HAIR)
            if not finer:
                return subject.eager_step(then_train=False)[0]
            return (subject.copy() if self.outcome.in_place else subject).finer_step(torch.float64)

        left = dict(distances)
        try:
            for number in range(1 + NEARBY):
                eager, finer = (beside(partial(nearby, number, finer)) for finer in (False, True))
                allowed = Judge(subject.model, eager, self.tolerance).explained(left, eager, finer)
                left = {place: one for place, one in left.items() if not one <= allowed.get(place, 0.0)}
                if not left or not allowed:
                    break
        except (Exception, TimeLimitExceeded):  # operations that know no float64, what cannot be copied, no memory
            return False
        if left:
            return False
        for (kind, _), distance in distances.items():
            self.outcome.differences[kind] = max(distance, self.outcome.differences.get(kind, 0.0))
        return True

    def _eager_failure(self, subject: Subject) -> Exception | None:
        """What an eager training step raises in a copy of the process, `StoodStill` too; None where nothing does."""

        def once(_: Sign) -> None:
            subject.drop_gradients()
            with subject.grad_mode():
                subject.eager_step(then_train=True)

        try:
            call_apart(once, self.time_limit_seconds)
        except TimeLimitExceeded:
            return None
        except Exception as error:
            return error
        return None

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
                    # Eager first: it shows whether random numbers are drawn; if so, the compile must draw eager's.
                    try:
                        eager, outcome.random = subject.eager_step(then_train=True)
                    except Exception:
                        if subject.compiles_itself or ranks_present():
                            raise
                        subject.compiles_itself = True
                        rewind()
                        eager, outcome.random = subject.eager_step(then_train=True)

                    def reference(number: int) -> tuple[Step | None, None]:
                        if number > 1 and not ranks_present():
                            with suppress(CannotRestore):  # from where training has come to, as far as that can be
                                return subject.eager_step_taken_back()[0], None
                        if number not in (1, self.steps):
                            return None, None
                        rewind()
                        return eager, None

                    def beside(last: Callable[[], Step]) -> Step:
                        rewind()
                        return self._last(subject, last)

                    try:
                        with time_limit(self.time_limit_seconds, "The compile", logger):
                            try:
                                self._compiled_steps(subject, say, outcome.random, reference)
                            except WrongNumbers as error:
                                rewind()
                                if not self._may_vary(error) or ranks_present():  # which all take as many steps
                                    raise
                                self.varying = self._told_apart(subject, eager, subject.eager_step(then_train=False)[0])
                                if not self.varying:
                                    raise
                                rewind()
                                self._compiled_steps(subject, say, outcome.random, reference)
                    except WrongNumbers as error:
                        if ranks_present() or not self._explained(subject, error, beside):
                            raise
            outcome.stage = "passed"
        except (Exception, TimeLimitExceeded) as error:
            outcome.failed(error)
        return seen()

    def _compiled_steps(
        self, subject: Subject, say: Say, random: bool, reference: Callable[[int], tuple[Step | None, Step | None]]
    ) -> None:
        """Take every compiled step, and hold each against eager's from the state that it finds.

        The first makes what a model makes once, such as a cache; before the last, training has changed what the compile
        may have frozen.

        Args:
            reference: takes eager's step of that number, and a finer one before the last.
        """
        outcome = self.outcome
        with dynamo_internals.fallback_random(random or dynamo_internals.draws_as_eager()):
            wrong = None  # raised at the end: ranks that communicate in each step must all take every step
            for number in range(1, self.steps + 1):
                last = number == self.steps
                eager, finer = reference(number)
                started = time.perf_counter()
                # What a model makes at its first call, a cache say, may make the second compile again, where a third
                # shows that it has settled.
                settles = number == 1 or (number == 2 and number < self.steps)
                with nullcontext() if settles else torch.compiler.set_stance("fail_on_recompile"):
                    step = subject.step(say, read=eager is not None, like=eager)
                if step is not None and eager is not None:
                    say("numerics")
                    judge = Judge(subject.model, eager, self.tolerance, self.varying)
                    wrong = worse(
                        wrong, judge.difference(step, eager, finer) if last else judge.wrong(step, eager, number=number)
                    )
                    outcome.dtype, outcome.tolerance, outcome.compared = (
                        judge.dtype,
                        judge.tolerance,
                        judge.compared(eager),
                    )
                    for kind, relative in judge.found.items():
                        outcome.differences[kind] = max(relative, outcome.differences.get(kind, 0.0))
                    outcome.not_compared = sorted(f"{WORDS.get(one, '')}{name}" for one, name in self.varying)
                    outcome.not_compared += judge.left_out(step)
                subject.train(say)
                outcome.timed(number, time.perf_counter() - started)
                del step  # its memory serves the next one
        if wrong is not None:
            say("numerics")
            raise wrong
