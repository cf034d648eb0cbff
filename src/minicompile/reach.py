"""What a call can change: the tensors, objects and containers that it can get at."""

import functools
import random
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

CONTAINERS = (dict, list, set, OrderedDict, defaultdict, Counter, deque)  # whose contents may change
HOLDERS = (*CONTAINERS, tuple, frozenset)
# Python's and torch's own objects and functions hold nobody's state, but for these
FOREIGN = {*sys.stdlib_module_names, "torch", "triton", "numpy"}
HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")  # of a tensor
STATEFUL = (nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler, torch.amp.GradScaler)


@dataclass
class Reached:
    """What can be got at, each once."""

    tensors: list[Tensor] = field(default_factory=list)
    generators: list[Any] = field(default_factory=list)  # of random numbers: torch's, NumPy's, Python's
    objects: list[Any] = field(default_factory=list)  # with attributes of their own: modules, optimizers, a trainer
    containers: list[Any] = field(default_factory=list)


def reached(*given: Any) -> Reached:
    """Everything that values hold, and that functions among them are bound to, close over or name.

    Names are followed in the functions that the user wrote, not in those of installed packages.
    """
    found, seen, waiting = Reached(), dict[int, Any](), list(given)
    while waiting:
        value = waiting.pop()
        if value is None or isinstance(value, str | bytes | int | float | type) or id(value) in seen:
            continue
        seen[id(value)] = value  # held, so that no other value gets its identity
        waiting += _within(value, found)
    return found


def _within(value: Any, found: Reached) -> Iterable[Any]:
    """File one value; returns what it holds."""
    if isinstance(value, Tensor):
        found.tensors.append(value)
        return () if nn.parameter.is_lazy(value) else [getattr(value, name, None) for name in HOOKS]
    elif _is_generator(value):
        found.generators.append(value)
    elif isinstance(value, HOLDERS):
        if type(value) in CONTAINERS:
            found.containers.append(value)
        return [*value, *value.values()] if isinstance(value, dict) else list(value)
    elif isinstance(value, types.MethodType):
        return (value.__self__, value.__func__)
    elif isinstance(value, functools.partial):
        return (value.func, value.args, value.keywords)
    elif isinstance(value, types.FunctionType):
        return [] if _foreign(value.__module__) else _of_function(value)
    elif isinstance(value, STATEFUL) or not _foreign(type(value).__module__):
        held = getattr(value, "__dict__", None)
        if isinstance(held, dict):
            found.objects.append(value)
            return list(held.values())
    return ()


def _is_generator(value: Any) -> bool:
    kinds: list[type] = [torch.Generator, random.Random]
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        kinds += [numpy.Generator, numpy.RandomState]
    return isinstance(value, tuple(kinds))


def _foreign(module: str | None) -> bool:
    return (module or "").split(".")[0] in FOREIGN


def _of_function(function: types.FunctionType) -> list[Any]:
    """What a function closes over, has as defaults, wraps, and names."""
    held = [function.__defaults__, function.__kwdefaults__, vars(function)]
    held += [_cell(cell) for cell in function.__closure__ or ()]
    if "/site-packages/" not in function.__code__.co_filename:
        held += [function.__globals__.get(name) for name in _names(function.__code__)]
    return held


def _names(code: types.CodeType) -> set[str]:
    """The global names of a function and of those within it."""
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return {*code.co_names}.union(*map(_names, inner))


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None
