"""Takes a few training steps through the compiled model and compares them with eager's.

`torch.compile` itself hardly ever fails: a compile fails at the first call or at the first `.backward()`,
and wrong numbers fail nowhere. So the test takes whole steps: forward, loss, backward, `optimizer.step`,
`zero_grad`. Eager takes one, the compiled model goes on from there, and for its last step all goes back to
where eager began: outputs, loss, gradients and buffers must be eager's. By then training has changed what
the compile saw, so one that has frozen a parameter or a buffer shows as well as a wrong one. From the second
step on, a recompile is a failure, for the batch is always the same.
"""

import logging
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from minicompile.batches import call_loss, clone_batch, split_batch, tensors_of
from minicompile.safe.failures import TimeLimitExceeded, WrongNumbers
from minicompile.safe.frozen_state import RandomState, frozen_state
from minicompile.safe.numerics import (
    GRADIENT_FACTOR,
    NOISE_SHARE,
    TOLERANCES,
    Difference,
    compare,
    comparison_dtype,
    root_mean_square,
)
from minicompile.safe.time_limit import time_limit
from minicompile.torch_private import dynamo as dynamo_internals


@dataclass
class SmoketestOutcome:
    """What the smoketest found.

    Attributes:
        stage: `passed`, or where it failed: `eager` (the model itself), `forward`, `loss`, `backward`,
            `optimizer`, `numerics`, `recompile`, `time_limit`.
        exception: what was raised there; None when it passed.
        compile_seconds: the first compiled step, its compile included.
        step_seconds: the fastest later step; None when there was one step only.
        dtype, tolerance: the arithmetic compared, and the relative difference that was allowed.
        differences: largest relative difference of each kind: output, loss, gradient, buffer.
    """

    stage: str = "eager"
    exception: BaseException | None = None
    compile_seconds: float | None = None
    step_seconds: float | None = None
    dtype: str | None = None
    tolerance: float | None = None
    differences: dict[str, float] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return self.stage == "passed"


@dataclass
class Step:
    """What one forward and backward pass left behind: the tensors themselves, which the next step may overwrite."""

    outputs: dict[str, Tensor]
    loss: Tensor | None
    gradients: dict[str, Tensor]
    buffers: dict[str, Tensor]

    def copy(self) -> "Step":
        return Step(
            {name: tensor.clone() for name, tensor in self.outputs.items()},
            None if self.loss is None else self.loss.clone(),
            {name: gradient.clone() for name, gradient in self.gradients.items()},
            {name: buffer.clone() for name, buffer in self.buffers.items()},
        )


class CompileSmoketest:
    """Finds out whether a compiled model trains as the eager one does.

    Args:
        steps: training steps, 1 to 3.
        tolerance: largest relative difference; None takes `TOLERANCES` by dtype.
        time_limit_seconds: for the compiled steps together; None is no limit.
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
        self.outcome = outcome = SmoketestOutcome()
        logger = logger or logging.getLogger(__name__)
        trains = any(parameter.requires_grad for parameter in model.parameters())
        trains = trains and (model.training or optimizer is not None or loss_fn is not None)
        try:
            with frozen_state(model, optimizer) as rewind, torch.enable_grad() if trains else nullcontext():
                if trains and optimizer is None:
                    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-2)
                self._steps(model, sample_batch, optimizer if trains else None, loss_fn, logger, rewind)
            outcome.stage = "passed"
        except TimeLimitExceeded as error:
            outcome.stage, outcome.exception = "time_limit", error
        except WrongNumbers as error:
            outcome.stage, outcome.exception = "numerics", error
        except Exception as error:
            outcome.exception = error
            if isinstance(error, RuntimeError) and "fail_on_recompile" in str(error):
                outcome.stage = "recompile"
        return outcome.passed

    def _steps(self, model, batch, optimizer, loss_fn, logger, rewind) -> None:
        # Eager first: a model that fails by itself is no failure of the compile, and it shows whether random
        # numbers are drawn; if so, the compile must draw eager's.
        reference, random = self._eager(model, batch, optimizer, loss_fn)
        with (
            time_limit(self.time_limit_seconds, "The compile", logger),
            dynamo_internals.fallback_random(random or dynamo_internals.draws_as_eager()),
        ):
            wrong = None  # raised at the end: ranks that communicate in each step must all take every step
            for number in range(1, self.steps + 1):
                if number == self.steps:
                    rewind()
                started = time.perf_counter()
                with torch.compiler.set_stance("fail_on_recompile") if number > 1 else nullcontext():
                    step = self._step(model, batch, optimizer, loss_fn)
                if number == self.steps:
                    wrong = self._difference(model, step, reference)
                self._train(optimizer)
                self._time(number, time.perf_counter() - started)
                del step  # its memory serves the next one
        if wrong is not None:
            raise wrong

    def _train(self, optimizer) -> None:
        if optimizer is not None:
            self.outcome.stage = "optimizer"
            optimizer.step()
            optimizer.zero_grad()

    def _time(self, number: int, seconds: float) -> None:
        if number == 1:
            self.outcome.compile_seconds = seconds
        else:
            self.outcome.step_seconds = min(seconds, self.outcome.step_seconds or seconds)

    def _eager(self, model, batch, optimizer, loss_fn) -> tuple[Step, bool]:
        """Take one eager step; return a copy of it, and whether its forward and backward drew random numbers."""
        generators = RandomState()
        try:
            with torch.compiler.set_stance("force_eager"):
                step = self._step(model, batch, optimizer, loss_fn).copy()
                drawn = generators.torch_has_drawn()
                self._train(optimizer)
        finally:
            self.outcome.stage = "eager"
        return step, drawn

    def _step(self, model, batch, optimizer, loss_fn) -> Step:
        """Run forward, and backward when there is an optimizer; gradients are left on the parameters."""
        torch.compiler.cudagraph_mark_step_begin()  # what the last step returned has been read
        arguments, keywords, target = split_batch(model, clone_batch(batch))
        self.outcome.stage = "forward"
        output = model(*arguments, **keywords)
        loss = None
        if optimizer is not None:
            self.outcome.stage = "loss"
            loss = call_loss(loss_fn, output, target)
            self.outcome.stage = "backward"
            loss.backward()
        return Step(
            outputs={name: tensor.detach() for name, tensor in tensors_of(output)},
            loss=None if loss is None else loss.detach(),
            gradients={name: p.grad for name, p in model.named_parameters() if p.grad is not None},
            buffers={f"buffer {name}": buffer.detach() for name, buffer in model.named_buffers()},
        )

    def _difference(self, model: nn.Module, step: Step, reference: Step) -> WrongNumbers | None:
        try:
            self._compare(model, step, reference)
        except WrongNumbers as error:
            return error
        return None

    def _compare(self, model: nn.Module, step: Step, reference: Step) -> None:
        self.outcome.dtype = comparison_dtype(model, reference.outputs.values())
        tolerance = self.tolerance or TOLERANCES[self.outcome.dtype]
        self.outcome.tolerance = tolerance
        noise = NOISE_SHARE * root_mean_square(reference.gradients.values())
        self._compare_all("output", step.outputs, reference.outputs, tolerance)
        if reference.loss is not None:
            self._compare_all("loss", {"loss": step.loss}, {"loss": reference.loss}, tolerance)
        self._compare_all("gradient", step.gradients, reference.gradients, GRADIENT_FACTOR * tolerance, noise)
        self._compare_all("buffer", step.buffers, reference.buffers, tolerance)

    def _compare_all(self, kind: str, ours: dict, reference: dict, tolerance: float, noise: float = 0.0) -> None:
        if ours.keys() != reference.keys():
            odd = sorted(ours.keys() ^ reference.keys())[0]
            sentence = f"{kind} {odd} is there on one side only; the compiled model is wrong."
            raise WrongNumbers(sentence, "one_side_only", kind=kind, tensor=odd)
        found: list[Difference] = []
        for name, tensor in reference.items():
            label = f"gradient of {name}" if kind == "gradient" else name
            found.append(compare(ours[name], tensor, label, tolerance, noise))
        if found:
            largest = max(difference.relative for difference in found)
            self.outcome.differences[kind] = max(largest, self.outcome.differences.get(kind, 0.0))
