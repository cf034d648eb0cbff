"""Takes training steps: forward, loss, backward, `optimizer.step`, `zero_grad`; with the numbers that each leaves."""

import contextlib
import inspect
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from minicompile.batches import call_loss, clone_batch, parameters_of, split_batch
from minicompile.frozen_state import RandomState
from minicompile.safe.smoketest.outputs import numbers_of
from minicompile.safe.smoketest.rewind import passes_taken_back
from minicompile.torch_private.state import tree_map
from minilab import LabError

Say = Callable[[str], None]  # told the stage of a step that begins


def say_nothing(stage: str) -> None:
    pass


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


class Subject:
    """A model with all that a training step of it takes.

    A model in `eval()` without optimizer or loss_fn, or with nothing to train, is only called, in the grad mode that is
    set. Where it is trained and no optimizer is given, plain SGD trains it.
    """

    def __init__(
        self, model: nn.Module, batch: Any, optimizer: torch.optim.Optimizer | None, loss_fn: Callable | None
    ) -> None:
        self.model, self.batch, self.loss_fn, self.given_optimizer = model, batch, loss_fn, optimizer
        trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.trains = bool(trainable) and (model.training or optimizer is not None or loss_fn is not None)
        plain = optimizer is None and self.trains
        self.optimizer = torch.optim.SGD(trainable, lr=1e-2) if plain else optimizer if self.trains else None

    def grad_mode(self):
        """The context in which its steps are taken."""
        return torch.enable_grad() if self.trains else nullcontext()

    def parameters(self) -> dict[str, nn.Parameter]:
        """Every parameter of the model, and those beyond it that the optimizer trains."""
        named = dict(self.model.named_parameters())
        known = {id(parameter) for parameter in named.values()}
        groups = self.optimizer.param_groups if self.optimizer is not None else []
        beyond = [p for group in groups for p in group["params"] if id(p) not in known]
        return named | {f"parameter {number} beyond the model": p for number, p in enumerate(beyond)}

    def drop_gradients(self) -> None:
        """Begin without gradients: those that the caller has accumulated are no part of a step."""
        for parameter in self.parameters().values():
            parameter.grad = None

    def step(self, say: Say = say_nothing) -> Step:
        """Run forward, and backward when it trains; gradients are left on the parameters."""
        torch.compiler.cudagraph_mark_step_begin()  # what the last step returned has been read
        arguments, keywords, target = split_batch(self.model, clone_batch(self.batch))
        say("forward")
        output = self.model(*arguments, **keywords)
        outputs = dict(numbers_of(output))
        loss = None
        if self.trains:
            say("loss")
            loss = call_loss(self.loss_fn, output, target)
            _refuse_what_is_no_loss(loss)
            say("backward")
            loss.backward()
        gradients = {name: p.grad for name, p in self.parameters().items() if p.grad is not None}
        buffers = {f"buffer {name}": buffer.detach() for name, buffer in self.model.named_buffers()}
        loss = None if loss is None or loss.is_meta else loss.detach()
        return Step(_with_values(outputs), loss, _with_values(gradients), _with_values(buffers))

    def train(self, say: Say = say_nothing) -> None:
        """Have the optimizer apply the gradients, and drop them."""
        if self.optimizer is not None:
            say("optimizer")
            asked = [parameter.default for parameter in parameters_of(self.optimizer.step)]
            if asked[:1] == [inspect.Parameter.empty]:  # LBFGS and its like evaluate the loss themselves
                self.optimizer.step(self._loss_again)
            else:
                self.optimizer.step()
            self.optimizer.zero_grad()

    def _loss_again(self) -> float:
        self.drop_gradients()
        with torch.enable_grad():
            loss = self.step().loss
        return float("nan") if loss is None else loss.item()

    def eager_step(self, then_train: bool) -> tuple[Step, bool]:
        """Take one step as if nothing were compiled; return a copy of it, and whether torch drew random numbers."""
        generators = RandomState()
        with torch.compiler.set_stance("force_eager"):
            step = self.step().copy()
            drawn = generators.torch_has_drawn()
            if then_train:
                self.train()
        return step, drawn

    def eager_step_taken_back(self) -> tuple[Step, bool]:
        """Take an eager step without the optimizer's part, and put back what it has changed.

        Raises:
            CannotRestore: of what could not be put back.
        """
        with passes_taken_back(self.optimizer, self.model, self.loss_fn, self.batch):
            eager = self.eager_step(then_train=False)
            self.drop_gradients()
        return eager

    def finer_step(self) -> Step:
        """Take the eager step in float32. The model stays in float32: for a process that ends after it."""
        self.model.float()
        if isinstance(self.loss_fn, nn.Module):
            self.loss_fn.float()
        self.batch = tree_map(_in_float32, self.batch)
        torch.backends.cuda.matmul.allow_tf32 = False
        with contextlib.ExitStack() as stack:
            for device in filter(torch.amp.is_autocast_available, {p.device.type for p in self.model.parameters()}):
                stack.enter_context(torch.autocast(device, enabled=False))
            return self.eager_step(then_train=False)[0]


def _refuse_what_is_no_loss(loss: Any) -> None:
    """Refuse what has no backward pass of its own. Raises `LabError`."""
    if not isinstance(loss, Tensor):
        raise LabError(f"the loss is of type {type(loss).__name__}; return a tensor of one number from loss_fn.")
    if loss.numel() != 1:
        raise LabError(f"the loss has the shape {list(loss.shape)} and must be one number; take its mean, say.")
    if not loss.requires_grad:
        raise LabError("the loss does not depend on what is trained, or was detached; return one that does.")


def _with_values(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Leave out tensors of the meta device, which have a shape and no values."""
    return {name: tensor for name, tensor in tensors.items() if not tensor.is_meta}


def _in_float32(value: Any) -> Any:
    coarse = isinstance(value, Tensor) and value.dtype in (torch.float16, torch.bfloat16)
    return value.float() if coarse else value
