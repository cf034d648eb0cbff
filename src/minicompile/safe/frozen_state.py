"""Puts a model, its optimizer and the random generators back as they were, bit for bit, after something has run.

What comes back: every module's attributes (flags, hooks, buffers that were replaced, plain Python values one
container deep), the values of parameters, buffers and tensors kept as attributes, gradients, `requires_grad`,
the optimizer's state and settings, and the random generators of Python, NumPy and torch on every device.
"""

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class RandomState:
    """The state of every random generator that a training step may draw from."""

    def __init__(self) -> None:
        self.python = random.getstate()
        self.numpy = sys.modules["numpy"].random.get_state() if "numpy" in sys.modules else None
        self.cpu = torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    def restore(self) -> None:
        random.setstate(self.python)
        if self.numpy is not None:
            sys.modules["numpy"].random.set_state(self.numpy)
        torch.set_rng_state(self.cpu)
        if self.cuda:
            torch.cuda.set_rng_state_all(self.cuda)

    def torch_has_drawn(self) -> bool:
        """Say whether torch has drawn random numbers since."""
        now = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        if not torch.equal(self.cpu, torch.get_rng_state()) or len(now) != len(self.cuda):
            return True
        return any(not torch.equal(then, after) for then, after in zip(self.cuda, now, strict=True))


def _copy(value: Any) -> Any:
    """Keep a value to put back later: containers are copied one deep, anything else is kept by identity."""
    if type(value).__module__ in ("builtins", "collections") and isinstance(value, dict | list | set):
        return value.copy()
    return value


def _refill(container: Any, saved: Any) -> None:
    """Give a container its saved contents without replacing the object that others hold."""
    if isinstance(container, list):
        container[:] = saved
    else:
        container.clear()
        container.update(saved)


class ModelState:
    """A model's tensors, attributes, gradients and flags, at one moment."""

    def __init__(self, model: nn.Module) -> None:
        self.attributes = [(module, dict(vars(module))) for module in model.modules()]
        self.contents = [
            (value, _copy(value))
            for _, attributes in self.attributes
            for value in attributes.values()
            if _copy(value) is not value
        ]
        tensors: dict[int, Tensor] = {}
        for _, attributes in self.attributes:
            held = [value for value in attributes.values() if isinstance(value, Tensor)]
            for container in (value for value in attributes.values() if isinstance(value, dict | list)):
                items = container.values() if isinstance(container, dict) else container
                held += [item for item in items if isinstance(item, Tensor)]
            tensors.update((id(tensor), tensor) for tensor in held)
        with torch.no_grad():
            self.tensors = [
                (t, t.detach().clone(), t.grad if t.is_leaf else None, t.requires_grad if t.is_leaf else None)
                for t in tensors.values()
            ]

    def restore(self) -> None:
        for module, attributes in self.attributes:
            vars(module).clear()
            vars(module).update(attributes)
        for container, saved in self.contents:
            _refill(container, saved)
        with torch.no_grad():
            for tensor, value, grad, requires_grad in self.tensors:
                if all(tensor.stride()) or tensor.numel() < 2:  # an expanded tensor takes no writes at all
                    tensor.copy_(value)
                if requires_grad is not None:
                    tensor.grad = grad
                    tensor.requires_grad_(requires_grad)


class OptimizerState:
    """An optimizer's state and the settings of its parameter groups, at one moment."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self.state = {
            parameter: {name: (value, _cloned(value)) for name, value in state.items()}
            for parameter, state in optimizer.state.items()
        }
        self.groups = [{name: (value, _cloned(value)) for name, value in g.items()} for g in optimizer.param_groups]

    def restore(self) -> None:
        self.optimizer.state.clear()
        for parameter, state in self.state.items():
            self.optimizer.state[parameter] = {name: _put_back(*pair) for name, pair in state.items()}
        for group, saved in zip(self.optimizer.param_groups, self.groups, strict=True):
            group.clear()
            group.update((name, _put_back(*pair)) for name, pair in saved.items())


def _cloned(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else _copy(value)


def _put_back(value: Any, saved: Any) -> Any:
    if isinstance(value, Tensor):
        with torch.no_grad():
            value.copy_(saved)
    elif saved is not value:
        _refill(value, saved)
    return value


@contextmanager
def frozen_state(model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Iterator[Callable[[], None]]:
    """Restore the model, the optimizer and the random generators when the block ends, however it ends.

    Inside, gradients start at None, so that those the caller has accumulated are never written to. What it yields
    takes the model and the generators, not the optimizer, back to where the block began.
    """
    state, generators = ModelState(model), RandomState()
    optimizer_state = OptimizerState(optimizer) if optimizer is not None else None

    def restore() -> None:
        for module in model.modules():
            reshard = getattr(module, "reshard", None)
            if reshard is not None:  # FSDP2: a step cut short may leave parameters gathered
                reshard()
        state.restore()
        generators.restore()

    def drop_gradients() -> None:
        for parameter in model.parameters():
            parameter.grad = None

    def rewind() -> None:
        restore()
        drop_gradients()

    drop_gradients()
    try:
        yield rewind
    finally:
        restore()
        if optimizer_state is not None:
            optimizer_state.restore()
