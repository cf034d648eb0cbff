"""Reads what a call returns and what it leaves behind (`minicompile.safe.call`), each thing with a name."""

import hashlib
import random
import re
import sys
from array import array
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor, nn

from minicompile.state.batches import leaves_of
from minicompile.state.frozen_state import parts_of
from minicompile.state.memory import flat, is_strided, span, storage_of, strides_that_count
from minicompile.state.reach import (
    CONTAINERS,
    Binding,
    has_attributes,
    is_array,
    is_exact,
    is_generator,
    key_name,
    walk,
)
from minicompile.state.settings import SETTINGS
from minicompile.torch_private.tensors import version_of

BATCH = "\0batch"  # the root of the batch's names, which no attribute of a model has
WORDS = {  # by element: what the name of a fact begins with
    "structure": "structure of ",
    "strides": "strides of ",
    "requires_grad": "requires_grad of ",
    "sharing": "memory of ",
    "parameter": "parameter ",
    "random": "random numbers of ",
}
BITS = (torch.int64, torch.int32, torch.int16, torch.uint8)
ITERATOR = "an iterator, which is not read"
CHUNK = 1 << 20  # elements that are looked at at once
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
LONGEST = 1000  # characters of a text that stands for a value
Fact = tuple[str, str]  # an element's code, and the name of the thing


@dataclass
class Step:
    """What one forward and backward pass returned and left behind.

    The tensors are the model's own, which the next step may overwrite.

    Attributes:
        outputs, gradients, buffers, batch, attributes: numbers by name.
        facts: (element, name) -> everything that is no floating-point number: strides, flags, classes, texts.
        unused: names of outputs from which the loss does not come, so that no gradient went through them.
    """

    outputs: dict[str, Tensor]
    loss: Tensor | None
    gradients: dict[str, Tensor]
    buffers: dict[str, Tensor]
    batch: dict[str, Tensor] = field(default_factory=dict)
    attributes: dict[str, Tensor] = field(default_factory=dict)
    facts: dict[Fact, Any] = field(default_factory=dict)
    unused: list[str] = field(default_factory=list)

    def copy(self) -> "Step":
        def cloned(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
            return {name: tensor.clone() for name, tensor in tensors.items()}

        loss = None if self.loss is None else self.loss.clone()
        named = (cloned(self.buffers), cloned(self.batch), cloned(self.attributes))
        return Step(cloned(self.outputs), loss, cloned(self.gradients), *named, dict(self.facts))


def numbers_of(value: Any, name: str = "output") -> Iterator[tuple[str, Tensor]]:
    """Yield every number inside a value, Python's too, as a tensor, with a name that says where it sits."""
    for place, leaf in leaves_of(value, name):
        number = number_of(leaf)
        if isinstance(leaf, Tensor) and leaf.is_nested:
            yield from numbers_of(list(leaf.detach().unbind()), place)
        elif number is not None:
            yield place, number


def number_of(value: Any) -> Tensor | None:
    """A number or a tensor as a tensor without history; None of anything else."""
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, bool | int):
        return torch.tensor(value) if -(2**63) <= value < 2**63 else torch.tensor(float(value), dtype=torch.float64)
    if isinstance(value, float | complex):
        return torch.tensor(value, dtype=torch.complex128 if isinstance(value, complex) else torch.float64)
    return torch.from_numpy(value.copy()) if is_array(value) else None


def unused_by(loss: Tensor, output: Any) -> list[str]:
    """The names of what in an output has a gradient that a loss does not pass back."""
    seen, waiting = set[tuple[Any, int]](), [(loss.grad_fn, loss.output_nr)]
    while waiting:
        place = waiting.pop()
        if place[0] is not None and place not in seen:
            seen.add(place)
            waiting += place[0].next_functions
    found = ((name, leaf) for name, leaf in leaves_of(output) if isinstance(leaf, Tensor) and leaf.grad_fn is not None)
    return [name for name, leaf in found if (leaf.grad_fn, leaf.output_nr) not in seen]


def shapes_of(value: Any, name: str) -> dict[str, str]:
    """Write what a value holds as name -> `float32 [6, 8]`."""
    tensors = ((name, tensor) for name, tensor in numbers_of(value, name))
    return {name: f"{str(t.dtype).removeprefix('torch.')} {list(t.shape)}" for name, t in tensors}


class Reading:
    """Reads a model, its loss and one copy of its batch before and after a call.

    Args:
        named: the tensors whose names are known: name -> tensor of `parameters` and `buffers`.
        roots: what the call can get at: `""` is the model, `BATCH` the batch.
        like: eager's step, to which this one will be held; None for eager's.
    """

    def __init__(
        self,
        parameters: dict[str, nn.Parameter],
        buffers: dict[str, Tensor],
        roots: dict[str, Any],
        like: Step | None = None,
    ) -> None:
        self.like = like
        self.parameters = {id(tensor): name for name, tensor in parameters.items()}
        self.buffers = {id(tensor): name for name, tensor in buffers.items()}
        self.roots = roots
        tensors = [] if like is not None else [value for _, value in walk(roots) if isinstance(value, Tensor)]
        # Of parameters autograd's counters say whether they were written to; some of torch's own kernels write to
        # buffers uncounted.
        self.versions = {id(tensor): version_of(tensor) for tensor in parameters.values() if _has_version(tensor)}
        others = [tensor for tensor in tensors if id(tensor) not in self.versions and not nn.parameter.is_lazy(tensor)]
        self.sums = {id(tensor): _fingerprint(tensor) for tensor in others}
        self.held = others  # so that no other tensor gets the identity of one

    def read(self, output: Any, loss: Tensor | None, unused: list[str]) -> Step:
        """Read what the call has returned and left."""
        step = Step({}, None if loss is None or loss.is_meta else loss.detach(), {}, {}, unused=unused)
        places: dict[tuple, list[tuple[tuple[int, int], str]]] = {}
        objects: dict[int, tuple[str, Any]] = {}
        for name, value in walk(self.roots):
            if not (isinstance(value, Binding | type) or name.endswith(".")):
                self._file(step, name, value, places)
                objects.setdefault(id(value), (name.replace(BATCH, BATCH[1:]) or "model", value))
        for name, leaf in leaves_of(output):
            if isinstance(leaf, CONTAINERS) or has_attributes(leaf):  # of a tensor, whose memory it is is what counts
                step.facts["structure", f"{name} as an object"] = objects.setdefault(id(leaf), (name, leaf))[0]
            if isinstance(leaf, Tensor):
                self._tensor(step, name, leaf, places)
                step.facts["structure", name] = _described(leaf)
            elif number_of(leaf) is None:
                step.facts["structure", name] = _described(leaf)
        step.outputs = _with_values(dict(numbers_of(output)))
        for name, (setting, _) in SETTINGS.items():
            step.facts["attribute", name] = str(setting())
        for name, state in _generators():
            step.facts["random", name] = state
        return step

    def _file(self, step: Step, name: str, value: Any, places: dict) -> None:
        element = "batch" if name.startswith(BATCH) else "attribute"
        if isinstance(value, Tensor) and id(value) in self.parameters:
            element, name = "parameter", self.parameters[id(value)]
        elif isinstance(value, Tensor) and id(value) in self.buffers:
            element, name = "buffer", f"buffer {self.buffers[id(value)]}"
        elif element == "batch":
            name = name[1:]
        elif not name.startswith(("global ", "closure ", "class ", "loss_fn")):
            name = f"attribute {name}" if name else "model"
        numbers = {"batch": step.batch, "buffer": step.buffers, "attribute": step.attributes}.get(element)
        if isinstance(value, Tensor):
            if nn.parameter.is_lazy(value):
                step.facts[element, name] = _described(value)
                return
            if (value.is_leaf or value.retains_grad) and value.grad is not None and not value.grad.is_meta:
                step.gradients[name] = value.grad
                step.facts["gradient", name] = str(value.grad.layout)
            self._tensor(step, name, value, places)
            if self._is_unwritten(element, name, value):
                step.facts[element, name] = _fingerprint(value)
            elif element == "parameter":
                step.buffers |= _with_values({f"parameter {name}": value.detach()})
            elif numbers is not None:
                numbers |= _with_values(dict(numbers_of(value, name)))
        elif is_generator(value):
            step.facts["random", name] = _state_of(value)
        elif isinstance(value, float | complex) or is_array(value):
            number = number_of(value)
            if numbers is not None and number is not None:
                numbers[name] = number
        else:
            step.facts[element, name] = _described_or_not(value)

    def _is_unwritten(self, element: str, name: str, tensor: Tensor) -> bool:
        """Whether a tensor is to hold the same bits as before the call, because eager's step left it alone."""
        if self.like is not None:
            return isinstance(self.like.facts.get((element, name)), tuple)
        if id(tensor) in self.versions:
            return self.versions[id(tensor)] == version_of(tensor)
        before = self.sums.get(id(tensor))
        return before is not None and before == _fingerprint(tensor)

    def _tensor(self, step: Step, name: str, tensor: Tensor, places: dict) -> None:
        """Note what a tensor is besides its numbers."""
        leaf = tensor.requires_grad and tensor.is_leaf
        step.facts["requires_grad", name] = "True, of a leaf" if leaf else tensor.requires_grad
        if id(tensor) not in self.parameters:
            step.facts["strides", name] = strides_that_count(tensor)
        if is_strided(tensor) and tensor.numel():
            known, (first, end) = places.setdefault(storage_of(tensor), []), span(tensor)
            whose = [(other, first - begin) for (begin, stop), other in known if first < stop and begin < end]
            step.facts["sharing", name] = "shared with {}, {} bytes on".format(*whose[0]) if whose else "its own"
            known.append(((first, end), name))


def _fingerprint(tensor: Tensor) -> tuple[int, ...] | None:
    """Sums over the bits of a tensor, and of what lies between its elements: others where anything was written."""
    try:
        return tuple(_sum_of_bits(part) for part in ([flat(tensor)] if _has_gaps(tensor) else parts_of(tensor)))
    except RuntimeError:  # a kind of number that cannot be looked at as an integer
        return None


def _has_gaps(tensor: Tensor) -> bool:
    if not is_strided(tensor) or tensor.is_contiguous():
        return False
    first, end = span(tensor)
    return end - first > tensor.numel() * tensor.itemsize


def _sum_of_bits(tensor: Tensor) -> int:
    """A sum in which each place counts otherwise, so that elements which change places show too."""
    row = tensor.detach().contiguous().view(-1)
    size, first = row.numel() * row.itemsize, row.storage_offset() * row.itemsize
    bits = next(kind for kind in BITS if size % kind.itemsize == 0 and first % kind.itemsize == 0)
    total, row = 0, row.view(bits)
    weights = torch.arange(1, 2 * min(CHUNK, row.numel()) + 1, 2, device=row.device)
    for chunk in row.split(CHUNK) if row.numel() else ():
        total = (total * 31 + int((chunk * weights[: chunk.numel()]).sum().item())) % 2**64
    return total


def _has_version(tensor: Tensor) -> bool:
    return not (nn.parameter.is_lazy(tensor) or tensor.is_inference() or tensor.is_meta)


def _described(value: Any) -> Any:
    """A value as plain data: texts and integers themselves, of a container its class, length and keys.

    Of anything else the text that it has for itself; its class, where that is another one each time.
    """
    if isinstance(value, str | bytes | bool | int | type(None)):
        return value
    kind = value if isinstance(value, type) else type(value)
    if isinstance(value, Iterator):  # to read it would use it up
        return ITERATOR
    if isinstance(value, Tensor | FunctionType | MethodType | nn.Module | type):
        return getattr(value, "__qualname__", kind.__qualname__)
    if is_exact(value):
        text = repr(sorted(value, key=repr) if isinstance(value, set | frozenset) else value)
        return f"{kind.__qualname__} of {len(value)}, {_hashed(text.encode())}"
    if isinstance(value, Mapping):
        return f"{kind.__qualname__} of {len(value)}: {' '.join(map(key_name, value))}"
    if isinstance(value, set | frozenset):
        return f"{kind.__qualname__} {sorted(map(repr, filter(_is_plain, value)))} of {len(value)}"
    if isinstance(value, array) or hasattr(value, "__array_interface__"):  # NumPy's, of texts and objects
        return f"{kind.__qualname__} of {len(value)}, {_hashed(repr(value.tolist()).encode())}"
    if isinstance(value, Collection) and not isinstance(value, range | bytearray):
        return f"{kind.__qualname__} of {len(value)}"
    if has_attributes(value):
        return kind.__qualname__
    text = repr(value)
    return kind.__qualname__ if ADDRESS.search(text) else f"{kind.__qualname__} {text[:LONGEST]}"


def _described_or_not(value: Any) -> Any:
    try:
        return _described(value)
    except Exception:  # of the user's own, which raises when it is looked at
        return "not to be looked at"


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | bytes | int | float | type(None))


def _generators() -> Iterator[tuple[str, str]]:
    """The generators of the process: torch's on each device, Python's, NumPy's."""
    yield "torch on the CPU", _hashed(torch.get_rng_state().numpy().tobytes())
    if torch.cuda.is_initialized():
        for number, state in enumerate(torch.cuda.get_rng_state_all()):
            yield f"torch on GPU {number}", _hashed(state.cpu().numpy().tobytes())
    yield "Python", _hashed(repr(random.getstate()).encode())
    if "numpy" in sys.modules:
        yield "NumPy", _hashed(repr(sys.modules["numpy"].random.get_state(legacy=False)).encode())


def _state_of(generator: Any) -> str:
    if isinstance(generator, random.Random):
        return _hashed(repr(generator.getstate()).encode())
    if isinstance(generator, torch.Generator):
        return _hashed(generator.get_state().cpu().numpy().tobytes())
    held = getattr(generator, "bit_generator", None)
    return _hashed(repr(held.state if held is not None else generator.get_state(legacy=False)).encode())


def _hashed(state: bytes) -> str:
    return f"state {hashlib.blake2b(state, digest_size=6).hexdigest()}"


def _with_values(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Leave out tensors of the meta device, which have a shape and no values."""
    return {name: tensor for name, tensor in tensors.items() if not tensor.is_meta}
