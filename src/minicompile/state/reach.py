"""What a call can get at: the tensors, objects, containers and names that it may read or change, each by a name.

`walk` goes through everything once, nearest first, so that each thing has the shortest name that leads to it.
"""

import dis
import functools
import queue
import random
import re
import sys
import types
import weakref
from array import array
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

CONTAINERS = (dict, list, set, deque)  # whose contents may change
# Python's and torch's own objects and functions hold nobody's state, but for these; nor do the lab's
FOREIGN = {*sys.stdlib_module_names, "torch", "triton", "numpy", "minicompile", "minilab"}
WEAK = (weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet)
DATA = (UserDict, UserList, ChainMap, queue.Queue, types.SimpleNamespace, torch.distributions.Distribution, *WEAK)
HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")  # of a tensor
STATEFUL = (nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler, torch.amp.GradScaler, *DATA)
PLAIN = (str, bytes, int, float, complex, type(None))
EXACT = frozenset({str, bytes, int, bool, type(None)})  # of which equal is right and near is wrong
MANY = 64  # from so many on, a container of nothing but these is one thing: a vocabulary, say
# Of a module: what holds its parts, which are named without it, and how it is called, which is the compiler's
PARTS, CALLS = ("_parameters", "_buffers", "_modules"), ("_compiled_call_impl",)
METHODS = ("forward", "__call__", "__getattr__", "__torch_function__", "backward", "setup_context")
INSTALLED = ("/site-packages/", "/dist-packages/")


@dataclass(frozen=True, eq=False)
class Binding:
    """A name that a call may bind to something else: a global of a file, a cell of a closure, a class attribute."""

    holder: Any
    key: str

    def value(self) -> Any:
        """What it is bound to; raises `LookupError` where it is to nothing."""
        if isinstance(self.holder, types.CellType):
            try:
                return self.holder.cell_contents
            except ValueError as error:
                raise LookupError(self.key) from error
        return (self.holder if isinstance(self.holder, dict) else vars(self.holder))[self.key]

    def bind(self, value: Any) -> None:
        if isinstance(self.holder, types.CellType):
            self.holder.cell_contents = value
        elif isinstance(self.holder, dict):
            self.holder[self.key] = value
        else:
            setattr(self.holder, self.key, value)

    def unbind(self) -> None:
        if isinstance(self.holder, types.CellType):
            del self.holder.cell_contents
        elif isinstance(self.holder, dict):
            self.holder.pop(self.key, None)
        elif self.key in vars(self.holder):
            delattr(self.holder, self.key)


@dataclass
class Reached:
    """What can be got at, each once."""

    tensors: list[Tensor] = field(default_factory=list)
    arrays: list[Any] = field(default_factory=list)  # NumPy's, Python's own, bytearrays
    generators: list[Any] = field(default_factory=list)  # of random numbers: torch's, NumPy's, Python's
    objects: list[Any] = field(default_factory=list)  # with attributes of their own: modules, optimizers, a trainer
    containers: list[Any] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    classes: list[type] = field(default_factory=list)  # of the user's own


def reached(*given: Any) -> Reached:
    """Everything that values hold, and that functions among them are bound to, close over or name.

    Names are followed in the functions that the user wrote, not in those of installed packages.
    """
    found = Reached()
    for _, value in walk({str(number): one for number, one in enumerate(given)}):
        if isinstance(value, Binding):
            found.bindings.append(value)
        elif isinstance(value, Tensor):
            found.tensors.append(value)
        elif is_array(value) or isinstance(value, bytearray | array):
            found.arrays.append(value)
        elif isinstance(value, type):
            found.classes += _own_bases(value)
        elif is_generator(value):
            found.generators.append(value)
        else:
            if isinstance(value, CONTAINERS):
                found.containers.append(value)
            if has_attributes(value) or (isinstance(value, types.FunctionType) and _own(value)):
                found.objects.append(value)
    return found


def walk(roots: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield everything that can be got at with a name, nearest first: each object once, plain values wherever they are.

    Args:
        roots: name -> value; the name of a model is empty, so that its parts have the names that torch gives them.

    Of several things that would have one name, the second is `NAME (2)`.
    """
    seen, waiting, names = dict[Any, Any](), deque(roots.items()), dict[str, int]()
    while waiting:
        name, value = waiting.popleft()
        if not isinstance(value, PLAIN):
            key = (id(value.holder), value.key) if isinstance(value, Binding) else id(value)
            if key in seen:
                continue
            seen[key] = value  # held, so that no other value gets its identity
        if name and not name.endswith(".") and not isinstance(value, Binding):
            names[name] = names.get(name, 0) + 1
            name = name if names[name] == 1 else f"{name} ({names[name]})"
        yield name, value
        waiting += held_by(value, name)


def held_by(value: Any, name: str) -> Iterable[tuple[str, Any]]:
    """What one value holds, with names; nothing, where it raises when it is looked at."""
    try:
        return _held_by(value, name)
    except Exception:  # a mapping that reads files, a proxy of what is gone: the user's own may do anything
        return ()


def _held_by(value: Any, name: str) -> Iterable[tuple[str, Any]]:
    if isinstance(value, PLAIN) or is_array(value) or is_generator(value):
        return ()
    if isinstance(value, Binding):
        try:
            return [(name, value.value())]
        except LookupError:
            return ()
    if isinstance(value, Tensor):
        if nn.parameter.is_lazy(value):
            return ()
        held = [(f"{name}.{hook}", getattr(value, hook, None)) for hook in HOOKS]
        return held + [(f"{name}.{key}", item) for key, item in vars(value).items() if not key.startswith("_")]
    if isinstance(value, types.MethodType):
        return [(name, value.__self__), (name, value.__func__)]
    if isinstance(value, functools.partial):
        return [(name, value.func), (f"{name}.args", value.args), (f"{name}.keywords", value.keywords)]
    if isinstance(value, types.FunctionType):
        return [] if _foreign(value.__module__) else _of_function(value, name)
    if isinstance(value, weakref.ref):
        return [(name, value())]
    if isinstance(value, staticmethod | classmethod):
        return [(name, value.__func__)]
    if isinstance(value, property):
        return [(name, value.fget)]
    if isinstance(value, type):
        return _of_class(value)
    held = _items(value, name)
    if has_attributes(value):
        held += _attributes(value, name)
        held.append((f"class {type(value).__qualname__}", type(value)))
    return held


def has_attributes(value: Any) -> bool:
    """Whether a value is an object with a state of its own."""
    if isinstance(value, type | types.FunctionType | types.MethodType | types.ModuleType | functools.partial | Tensor):
        return False
    if not (isinstance(value, STATEFUL) or not _foreign(type(value).__module__)):
        return False
    return isinstance(getattr(value, "__dict__", None), dict) or bool(slots_of(type(value)))


def slots_of(kind: type) -> list[str]:
    """The names in a class's `__slots__`, inherited ones included, as the attributes are called."""
    found = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            private = name.startswith("__") and not name.endswith("__")
            found.append(f"_{base.__name__.lstrip('_')}{name}" if private else name)
    return [name for name in found if name not in ("__dict__", "__weakref__")]


def attributes_of(value: Any) -> dict[str, Any]:
    """An object's attributes, those in slots included."""
    slots = {name: getattr(value, name) for name in slots_of(type(value)) if hasattr(value, name)}
    return {**slots, **(getattr(value, "__dict__", None) or {})}


def is_array(value: Any) -> bool:
    """Whether a value is a NumPy array of numbers."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray) and value.dtype.kind in "biufc"


def is_generator(value: Any) -> bool:
    """Whether a value draws random numbers from a state."""
    if isinstance(value, random.SystemRandom):
        return False
    kinds: list[type] = [torch.Generator, random.Random]
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        kinds += [numpy.Generator, numpy.RandomState]
    return isinstance(value, tuple(kinds))


def _attributes(value: Any, name: str) -> list[tuple[str, Any]]:
    module, held = isinstance(value, nn.Module), []
    for key, item in attributes_of(value).items():
        if module and key in CALLS:
            continue
        place = f"{name}." if name else ""
        held.append((place if module and key in PARTS else f"{place}{key}", item))
    if isinstance(value, torch.jit.ScriptModule):  # which keeps its tensors where no attribute holds them
        held += [*value.named_parameters(name), *value.named_buffers(name)]
    return held


def _items(value: Any, name: str) -> list[tuple[str, Any]]:
    if is_exact(value):
        return []
    if isinstance(value, dict | types.MappingProxyType | UserDict | ChainMap):
        of_module = not name or name.endswith(".")  # one of `PARTS`
        items = [(f"{name}{key!s}" if of_module else f"{name}{key_name(key)}", item) for key, item in value.items()]
        return items + [(f"{name} key", key) for key in value if not isinstance(key, PLAIN)]
    if isinstance(value, list | tuple | deque | UserList):
        return [(f"{name}[{number}]", item) for number, item in enumerate(value)]
    if isinstance(value, set | frozenset):
        return [(f"{name} member", item) for item in value if not isinstance(item, PLAIN)]
    return []


def is_exact(value: Any) -> bool:
    """Whether a value is a large container of texts and integers alone."""
    if not isinstance(value, dict | list | tuple | set | frozenset) or len(value) < MANY:
        return False
    if isinstance(value, dict) and not EXACT.issuperset(map(type, value.values())):
        return False
    return EXACT.issuperset(map(type, value))


def key_name(key: Any) -> str:
    """How the item of a key is called: `['x']`; by the key's class, where its text is another one each time."""
    text = repr(key)
    return f"[{type(key).__qualname__}]" if re.search(r" at 0x[0-9a-f]+", text) else f"[{text}]"


def _own(value: types.FunctionType) -> bool:
    return not _foreign(value.__module__) and not _installed(value.__code__.co_filename)


def _own_bases(kind: type) -> list[type]:
    """The classes of the user's own that a class is made of."""
    bases = [base for base in kind.__mro__ if not _foreign(base.__module__)]
    return [base for base in bases if not _installed(getattr(sys.modules.get(base.__module__), "__file__", None))]


def _foreign(module: str | None) -> bool:
    return (module or "").split(".")[0] in FOREIGN


def _installed(file: str | None) -> bool:
    return any(part in (file or "") for part in INSTALLED)


def _of_function(function: types.FunctionType, name: str) -> list[tuple[str, Any]]:
    """What a function closes over, has as defaults, wraps, and names."""
    code = function.__code__
    held: list[tuple[str, Any]] = [
        (f"{name}.__defaults__", function.__defaults__),
        (f"{name}.__kwdefaults__", function.__kwdefaults__),
    ]
    held += [(f"{name}.{key}", item) for key, item in vars(function).items()]
    for variable, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        held.append((f"closure variable {variable} of {function.__qualname__}", Binding(cell, variable)))
    if not _installed(code.co_filename):
        held += _globals(function.__globals__, _names(code), _bound(code, "GLOBAL"), _bound(code, "ATTR"))
        imported = {key: sys.modules[key] for key in _imported(code) if key in sys.modules}
        held += _globals(imported, frozenset(imported) | _names(code), frozenset(), _bound(code, "ATTR"))
    return held


def _globals(
    scope: dict[str, Any], names: frozenset[str], bound: frozenset[str], set_on: frozenset[str]
) -> list[tuple[str, Any]]:
    """The globals that a function names, and what it may name of the user's own modules among them.

    Args:
        bound, set_on: the names that it binds as globals, and as attributes of anything: a module, say.
    """
    held = []
    own = "" if scope.get("__name__") in ("__main__", None) else f"{scope.get('__name__')}."
    for key in sorted(names & scope.keys() | bound):
        value = scope.get(key)
        if isinstance(value, types.ModuleType):
            if not _foreign(value.__name__) and not _installed(getattr(value, "__file__", None)):
                held += _globals(vars(value), names - {key}, names & set_on & vars(value).keys(), frozenset())
        else:
            held.append((f"global {own}{key}", Binding(scope, key) if key in bound else value))
    return held


def _of_class(kind: type) -> list[tuple[str, Any]]:
    """What the classes of the user's own that a class is made of keep as attributes, and what its methods name.

    Of a module's methods those count that its call may come to.
    """
    bases = _own_bases(kind)
    wanted = _called(bases) if issubclass(kind, nn.Module) else None
    held: list[tuple[str, Any]] = []
    for base in bases:
        for key, item in vars(base).items():
            if isinstance(item, types.FunctionType | staticmethod | classmethod | property):
                if wanted is None or key in wanted:
                    held.append((f"{base.__qualname__}.{key}", item))
            elif not key.startswith("__") and not isinstance(item, types.MemberDescriptorType):
                held.append((f"class attribute {base.__qualname__}.{key}", Binding(base, key)))
    return held


def _called(bases: list[type]) -> set[str]:
    """The methods of a module's class that its call may come to, by their names in one another's code."""
    code: dict[str, list[types.CodeType]] = {}
    for key, item in (pair for base in bases for pair in vars(base).items()):
        function: Any = item.fget if isinstance(item, property) else getattr(item, "__func__", item)
        while hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        if isinstance(function, types.FunctionType):
            code.setdefault(key, []).append(function.__code__)
    wanted, more = set[str](), {key for key in code if key in METHODS}
    while more:
        wanted |= more
        if any("getattr" in _names(one) for key in more for one in code[key]):
            return set(code)  # a method of any name
        more = {name for key in more for one in code[key] for name in _names(one) if name in code} - wanted
    return wanted


@functools.lru_cache(4096)
def _names(code: types.CodeType) -> frozenset[str]:
    """The global names and attributes that a function and those within it name."""
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return frozenset(code.co_names).union(*map(_names, inner))


@functools.lru_cache(4096)
def _bound(code: types.CodeType, kind: str) -> frozenset[str]:
    """The names that a function and those within it bind: as globals (`GLOBAL`), or on some object (`ATTR`)."""
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    own = {i.argval for i in dis.get_instructions(code) if i.opname in (f"STORE_{kind}", f"DELETE_{kind}")}
    return frozenset(own).union(*(_bound(one, kind) for one in inner))


@functools.lru_cache(4096)
def _imported(code: types.CodeType) -> frozenset[str]:
    """The modules that a function and those within it import when they run."""
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    own = {i.argval for i in dis.get_instructions(code) if i.opname == "IMPORT_NAME"}
    return frozenset(own).union(*map(_imported, inner))
