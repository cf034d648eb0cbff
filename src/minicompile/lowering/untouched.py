"""A compile runs the model; afterwards the model, its inputs, its optimizer and the random numbers are as they were."""

import contextlib
import copy
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from minicompile.lowering.reach import reached

SPARSE_PARTS = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}


@contextlib.contextmanager
def untouched(function: Callable, args: tuple, kwargs: dict) -> Iterator[None]:
    """Put everything back that calling `function(*args, **kwargs)` may have changed, also after an exception.

    That is, of all that `reach.reached` finds: the contents, gradients and marks of tensors, the attributes of modules,
    optimizers and other objects, the contents of containers; and the random numbers of torch on every device in use, of
    Python and of NumPy. The tensors are copied for that time.
    """
    found = reached(function, args, kwargs)
    kept: list[Any] = [*map(_Attributes, found.objects), *map(_Items, found.containers), *map(_Contents, found.tensors)]
    generators = [(generator, generator.get_state()) for generator in found.generators]
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() and torch.cuda.is_initialized() else ()
    numpy = sys.modules.get("numpy")
    drawn, numpy_drawn = random.getstate(), numpy.random.get_state() if numpy else None
    with torch.random.fork_rng(devices=list(devices)):
        try:
            yield
        finally:
            for one in kept:
                one.restore()
            for generator, state in generators:
                generator.set_state(state)
            random.setstate(drawn)
            if numpy:
                numpy.random.set_state(numpy_drawn)


class _Attributes:
    """An object's attributes, and its class: a lazy module changes its own."""

    def __init__(self, holder: Any) -> None:
        self.holder, self.kind, self.values = holder, type(holder), dict(vars(holder))

    def restore(self) -> None:
        if type(self.holder) is not self.kind:
            self.holder.__class__ = self.kind
        now = vars(self.holder)
        for name in now.keys() - self.values.keys():
            del now[name]
        now.update(self.values)


class _Items:
    """What a dictionary, a list or the like holds."""

    def __init__(self, container: Any) -> None:
        self.container, self.items = container, copy.copy(container)

    def restore(self) -> None:
        if _identities(self.container) == _identities(self.items):
            return
        self.container.clear()
        (self.container.update if hasattr(self.container, "update") else self.container.extend)(self.items)


def _identities(container: Any) -> list[Any]:
    items = container.items() if isinstance(container, dict) else container
    return [tuple(map(id, item)) if isinstance(container, dict) else id(item) for item in items]


class _Contents:
    """A tensor's values, its gradient and that gradient's values, and the marks of torch.compile on it."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor, self.kind, self.marks = tensor, type(tensor), dict(vars(tensor))
        self.lazy = torch.nn.parameter.is_lazy(tensor)
        self.parts = [] if self.lazy else [(part, part.detach().clone()) for part in _parts(tensor)]
        self.gradient = tensor.grad if tensor.is_leaf and not self.lazy else None
        if self.gradient is not None:
            self.parts += [(part, part.detach().clone()) for part in _parts(self.gradient)]

    def restore(self) -> None:
        if self.lazy:
            if type(self.tensor) is not self.kind:
                self.tensor.data = self.tensor.data.new_empty(0)
                self.tensor.__class__ = self.kind
            return
        for part, values in self.parts:
            if not _same(part, values):
                with torch.inference_mode() if part.is_inference() else torch.no_grad():
                    part.detach().copy_(values)
        if self.tensor.is_leaf:
            self.tensor.grad = self.gradient
        vars(self.tensor).clear()
        vars(self.tensor).update(self.marks)


def _parts(tensor: Tensor) -> list[Tensor]:
    """The dense tensors that hold a tensor's values: itself, or those that a sparse or a nested one is made of."""
    flatten = getattr(type(tensor), "__tensor_flatten__", None)
    if flatten is not None:
        return [part for name in flatten(tensor)[0] for part in _parts(getattr(tensor, name))]
    if tensor.layout in SPARSE_PARTS:
        return [getattr(tensor.detach(), name)() for name in SPARSE_PARTS[tensor.layout]]
    if tensor.is_nested:
        return list(tensor.detach().unbind())
    return [tensor] if tensor.layout == torch.strided and not tensor.is_meta else []


def _same(tensor: Tensor, values: Tensor) -> bool:
    """Whether two tensors hold the same bits; a NaN is the same as itself."""
    if tensor.is_quantized:
        return torch.equal(tensor, values)
    first, second = (one.detach().resolve_conj().resolve_neg().contiguous() for one in (tensor, values))
    return first.shape == second.shape and torch.equal(*(one.reshape(-1).view(torch.uint8) for one in (first, second)))
