"""Puts everything that a call can get at back as it was, bit for bit, after it has run.

What it can get at is found by `reach`: the tensors, objects and containers that a model, an optimizer, a loss and a
batch hold, and those that their hooks and functions close over or name.
"""

import copy
import random
import sys
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from minicompile.state.memory import flat, is_strided, overlapping
from minicompile.state.reach import CONTAINERS, Binding, Reached, attributes_of, reached, slots_of
from minicompile.state.settings import Settings
from minicompile.torch_private.tensors import sparse_parts, versions_kept
from minilab import LabError

COMPRESSED = {
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}


class CannotRestore(LabError):
    """Something cannot be put back as it was.

    Attributes:
        code, fields: the same as plain data: how many `parts`, `of` how many, and what they `raised`.
    """

    code = "cannot_restore"

    def __init__(self, sentence: str, parts: int, of: int, raised: str) -> None:
        super().__init__(sentence)
        self.fields = {"parts": parts, "of": of, "raised": raised}

    def __reduce__(self):
        return type(self), (str(self), *self.fields.values())


class RandomState:
    """The state of every random generator of the process, and of those given."""

    def __init__(self, generators: list[Any] | None = None) -> None:
        self.python = random.getstate()
        self.numpy = sys.modules["numpy"].random.get_state() if "numpy" in sys.modules else None
        self.cpu = torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        self.generators = [(one, copy.deepcopy(_state_of(one))) for one in generators or []]

    def restore(self) -> None:
        random.setstate(self.python)
        if self.numpy is not None:
            sys.modules["numpy"].random.set_state(self.numpy)
        torch.set_rng_state(self.cpu)
        if self.cuda:
            torch.cuda.set_rng_state_all(self.cuda)
        for one, state in self.generators:
            _set_state(one, state)

    def torch_has_drawn(self) -> bool:
        """Say whether torch's own generators have drawn random numbers since."""
        now = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        if not torch.equal(self.cpu, torch.get_rng_state()) or len(now) != len(self.cuda):
            return True
        return any(not torch.equal(then, after) for then, after in zip(self.cuda, now, strict=True))


def _state_of(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    return generator.bit_generator.state if hasattr(generator, "bit_generator") else generator.get_state()


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif hasattr(generator, "bit_generator"):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


class _Attributes:
    """An object's attributes, and its class: a lazy module changes its own."""

    def __init__(self, holder: Any) -> None:
        self.holder, self.kind, self.values = holder, type(holder), attributes_of(holder)

    def restore(self) -> None:
        if type(self.holder) is not self.kind:
            self.holder.__class__ = self.kind
        now = attributes_of(self.holder)
        own = getattr(self.holder, "__dict__", {})
        for name in now.keys() - self.values.keys():
            del own[name]
        for name, value in self.values.items():
            if name not in now or now[name] is not value:
                if name in slots_of(self.kind):
                    object.__setattr__(self.holder, name, value)
                else:
                    own[name] = value


class _Items:
    """What a dictionary, a list, a set or a deque holds, whatever a class derived from it does when it is filled."""

    def __init__(self, container: Any) -> None:
        self.container = container
        kinds: tuple[Any, ...] = (OrderedDict, *CONTAINERS)
        self.kind = next(kind for kind in kinds if isinstance(container, kind))
        self.items: Any = list(self.kind.items(container) if isinstance(container, dict) else container)

    def restore(self) -> None:
        self.kind.clear(self.container)
        if self.kind in (list, deque):
            self.kind.extend(self.container, self.items)
        elif self.kind is set:
            self.kind.update(self.container, self.items)
        else:  # not `update`, for which an `OrderedDict` asks its class
            for key, value in self.items:
                self.kind.__setitem__(self.container, key, value)


class _Array:
    """The elements of a NumPy array, of one of Python's own or of a bytearray."""

    def __init__(self, array: Any) -> None:
        self.array, self.values = array, copy.copy(array)

    def restore(self) -> None:
        if bytes(self.array) != bytes(self.values):
            self.array[... if hasattr(self.array, "shape") else slice(None)] = self.values


class _Class:
    """What a class of the user's own has as attributes, apart from those that Python gave it."""

    def __init__(self, kind: type) -> None:
        self.kind, self.values = kind, {key: value for key, value in vars(kind).items() if not _given(key)}

    def restore(self) -> None:
        now = vars(self.kind)
        for name in [key for key in now if not _given(key) and key not in self.values]:
            delattr(self.kind, name)
        for name, value in self.values.items():
            if now.get(name, self) is not value:
                setattr(self.kind, name, value)


def _given(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


class _Bound:
    """What a global, a closure variable or a class attribute is bound to."""

    def __init__(self, binding: Binding) -> None:
        self.binding, self.bound = binding, _bound(binding)

    def restore(self) -> None:
        now = _bound(self.binding)
        if self.bound and not (now and now[0] is self.bound[0]):
            self.binding.bind(self.bound[0])
        elif now and not self.bound:
            self.binding.unbind()


def _bound(binding: Binding) -> tuple:
    try:
        return (binding.value(),)
    except LookupError:
        return ()


class _Contents:
    """A tensor's values, gradient and flag, and the marks of torch.compile on it."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor, self.kind, self.marks = tensor, type(tensor), dict(vars(tensor))
        self.requires_grad = tensor.requires_grad if tensor.is_leaf else None
        self.gradient = tensor.grad if tensor.is_leaf else None
        self.lazy = nn.parameter.is_lazy(tensor)
        held = [] if self.lazy else [tensor, *([] if self.gradient is None else [self.gradient])]
        self.data = tensor.detach() if not self.lazy and is_strided(tensor) else None
        self.parts = [(part, part.detach().clone()) for one in held for part in parts_of(one)]

    def restore(self) -> None:
        if self.lazy:
            if type(self.tensor) is not self.kind:
                self.tensor.data = self.tensor.data.new_empty(0)
                self.tensor.__class__ = self.kind
            return
        if self.data is not None and _laid(self.tensor) != _laid(self.data):  # `tensor.data = ...` took other memory
            self.tensor.data = self.data
        for part, values in self.parts:
            if not _same(part, values):
                with torch.inference_mode() if part.is_inference() else torch.no_grad():
                    part.detach().copy_(values)
        if self.requires_grad is not None:
            self.tensor.grad = self.gradient
            self.tensor.requires_grad_(self.requires_grad)
        vars(self.tensor).clear()
        vars(self.tensor).update(self.marks)


def _laid(tensor: Tensor) -> tuple:
    return tensor.dtype, tensor.shape, tensor.stride(), tensor.data_ptr()


def parts_of(tensor: Tensor) -> list[Tensor]:
    """Find the dense tensors that hold a tensor's values: itself, or those that a sparse or a nested one is made of."""
    local = getattr(tensor, "to_local", None)  # a DTensor's shard
    if local is not None:
        return [local().detach()]
    flatten = getattr(type(tensor), "__tensor_flatten__", None)
    if flatten is not None:
        return [part for name in flatten(tensor)[0] for part in parts_of(getattr(tensor, name))]
    if tensor.layout == torch.sparse_coo:
        return sparse_parts(tensor.detach())
    if tensor.layout in COMPRESSED:
        return [getattr(tensor.detach(), name)() for name in COMPRESSED[tensor.layout]]
    if tensor.is_nested:
        return list(tensor.detach().unbind())
    if is_strided(tensor) and overlapping(tensor):  # whose elements cannot be written to one by one
        return [flat(tensor)]
    return [tensor] if tensor.layout == torch.strided and not tensor.is_meta else []


def _same(tensor: Tensor, values: Tensor) -> bool:
    """Say whether two tensors hold the same bits; a NaN is the same as itself."""
    if tensor.is_quantized:
        return torch.equal(tensor, values)
    first, second = (one.detach().resolve_conj().resolve_neg().contiguous() for one in (tensor, values))
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    return torch.equal(*(one.reshape(-1).view(torch.uint8) for one in (first, second)))


class FrozenState:
    """Everything that values can get at, at one moment. Tensors are copied."""

    def __init__(self, *given: Any) -> None:
        found = reached(*given)
        self._keep(found, found.tensors)

    def _keep(self, found: Reached, tensors: list[Tensor]) -> None:
        """Copy what was found; of the tensors, those given."""
        self.random = RandomState(found.generators)
        self.kept: list[Any] = [
            *map(_Bound, found.bindings),
            *map(_Class, found.classes),
            *map(_Attributes, found.objects),
            *map(_Items, found.containers),
            *map(_Contents, tensors),
            *map(_Array, found.arrays),
            self.random,
            Settings(),
        ]

    def restore(self) -> None:
        """Put everything back, even where a part cannot be.

        Raises:
            CannotRestore: some part could not be put back; all the others have been.
        """
        errors = []
        for one in self.kept:
            try:
                one.restore()
            except Exception as error:
                errors.append(error)
        if errors:
            kinds = ", ".join(sorted({f"{type(error).__name__}: {error}".splitlines()[0][:120] for error in errors}))
            raise CannotRestore(
                f"{len(errors)} of {len(self.kept)} parts of the model's state could not be put back ({kinds}); "
                "build the model again.",
                len(errors),
                len(self.kept),
                kinds,
            ) from errors[0]

    def refuse_what_cannot_be_restored(self) -> None:
        """Find out, before anything has run, which tensors cannot be written to.

        Raises:
            CannotRestore: a kind of tensor that holds its values where they are not seen.
        """
        for one in self.kept:
            if isinstance(one, _Contents) and not (one.lazy or one.tensor.is_meta or one.parts):
                tensor = one.tensor
                raise CannotRestore(
                    f"a {type(tensor).__name__} of shape {tuple(tensor.shape)} and layout {tensor.layout} could "
                    "not be put back after a training step; leave the model eager, or give no sample batch.",
                    1,
                    len(self.kept),
                    str(tensor.layout),
                )


@contextmanager
def frozen(*given: Any) -> Iterator[FrozenState]:
    """Restore everything that values can get at when the block ends, however it ends; yields what is restored.

    Raises:
        CannotRestore: at the end, of what could not be put back.
    """
    state = FrozenState(*given)
    with _versions_kept([one.tensor for one in state.kept if isinstance(one, _Contents)]):
        try:
            yield state
        finally:
            state.restore()


def _versions_kept(tensors: list[Tensor]):
    """Keep the counters by which autograd knows that a tensor has changed: at the end it has not, and a graph of the
    caller's from before still has its backward pass."""
    counted = tuple(t for t in tensors if not nn.parameter.is_lazy(t) and not t.is_inference())
    return versions_kept(counted)
