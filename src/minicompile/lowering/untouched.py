"""A compile runs the model; afterwards the model, its inputs, its optimizer and the random numbers are as they were."""

import contextlib
import copy
import inspect
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from minicompile.batches import tensors_of

CONTAINERS = (dict, list, set)  # an object's own, whose contents are put back


@contextlib.contextmanager
def untouched(function: Callable, args: tuple, kwargs: dict) -> Iterator[None]:
    """Put everything back that calling `function(*args, **kwargs)` may have changed, also after an exception.

    That is: parameters, buffers, gradients, modes and plain attributes of the modules, state and settings of the
    optimizers, and the contents of the tensors, that the function is, is given, or names; and the random numbers of
    torch on every device in use, of Python and of NumPy. What a training step holds is copied for that time.
    """
    modules, optimizers, tensors = _reached(function, args, kwargs)
    parameters = [tensor for optimizer in optimizers for group in optimizer.param_groups for tensor in group["params"]]
    own = [tensor for module in modules for tensor in (*module.parameters(), *module.buffers())]
    contents = [_Contents(tensor) for tensor in {id(one): one for one in (*own, *parameters, *tensors)}.values()]
    objects = [_Attributes(each) for module in modules for each in module.modules()]
    stepped = [_Optimizer(optimizer) for optimizer in optimizers]
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() and torch.cuda.is_initialized() else ()
    numpy = sys.modules.get("numpy")
    drawn, numpy_drawn = random.getstate(), numpy.random.get_state() if numpy else None
    with torch.random.fork_rng(devices=list(devices)):
        try:
            yield
        finally:
            put_back: list[Any] = [*objects, *stepped, *contents]
            for kept in put_back:
                kept.restore()
            random.setstate(drawn)
            if numpy:
                numpy.random.set_state(numpy_drawn)


class _Contents:
    """A tensor's values, its gradient and that gradient's values."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor, self.gradient = tensor, tensor.grad if tensor.is_leaf else None
        self.values = tensor.detach().clone()
        self.gradient_values: Any = None if self.gradient is None else self.gradient.detach().clone()

    @torch.no_grad()
    def restore(self) -> None:
        if not _same(self.tensor, self.values):
            self.tensor.detach().copy_(self.values)
        if self.tensor.is_leaf:
            self.tensor.grad = self.gradient
        if self.gradient is not None and not _same(self.gradient, self.gradient_values):
            self.gradient.detach().copy_(self.gradient_values)


class _Attributes:
    """A module's attributes, and what its own dictionaries and lists hold."""

    def __init__(self, module: nn.Module) -> None:
        self.module, self.values = module, dict(vars(module))
        self.contents = {name: copy.copy(value) for name, value in self.values.items() if type(value) in CONTAINERS}

    def restore(self) -> None:
        now = vars(self.module)
        for name in now.keys() - self.values.keys():
            del now[name]
        now.update(self.values)
        for name, contents in self.contents.items():
            _refill(self.values[name], contents)


class _Optimizer:
    """An optimizer's state by parameter, and the settings of its groups."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.state = optimizer.state
        self.dictionaries = [(each, dict(each)) for each in (self.state, *self.state.values(), *optimizer.param_groups)]
        tensors = [value for state in self.state.values() for value in state.values() if isinstance(value, Tensor)]
        self.tensors = [_Contents(tensor) for tensor in tensors]

    def restore(self) -> None:
        for kept, contents in self.dictionaries:
            _refill(kept, contents)
        for tensor in self.tensors:
            tensor.restore()


def _refill(container: Any, contents: Any) -> None:
    container.clear()
    if isinstance(container, list):
        container.extend(contents)
    else:
        container.update(contents)


def _same(tensor: Tensor, values: Any) -> bool:
    """Whether two tensors hold the same bits; a NaN is the same as itself."""
    return torch.equal(*(one.detach().contiguous().reshape(-1).view(torch.uint8) for one in (tensor, values)))


def _reached(function: Callable, args: tuple, kwargs: dict) -> tuple[list, list, list[Tensor]]:
    """Modules, optimizers and tensors that a function is, is a method of, holds in its closure, names, or is given."""
    inner = inspect.unwrap(function) if not isinstance(function, nn.Module) else function
    inner = getattr(inner, "_orig_mod", inner)
    found: list[Any] = [inner, getattr(inner, "__self__", None), *_given((args, kwargs))]
    code = getattr(inner, "__code__", None)
    if code is not None and not isinstance(inner, nn.Module):
        held = [inner.__globals__.get(name) for name in code.co_names]
        held += [_cell(cell) for cell in getattr(inner, "__closure__", None) or ()]
        found += [one for each in held for one in _given(each)]
    by_identity = {id(one): one for one in found if one is not None}.values()
    return (
        [one for one in by_identity if isinstance(one, nn.Module)],
        [one for one in by_identity if isinstance(one, torch.optim.Optimizer)],
        [one for one in by_identity if isinstance(one, Tensor)],
    )


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _given(value: Any) -> list:
    """A value's modules, optimizers and tensors, as far as plain containers hold them."""
    if isinstance(value, nn.Module | torch.optim.Optimizer):
        return [value]
    if isinstance(value, dict):
        return [one for each in value.values() for one in _given(each)]
    if isinstance(value, list | tuple):
        return [one for each in value for one in _given(each)]
    return [tensor for _, tensor in tensors_of(value)]
