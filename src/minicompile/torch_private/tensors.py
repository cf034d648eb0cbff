"""torch's private names for looking at operators and tensors as they are called, under names of the lab's own.

What imports them from here (the counters of collectives and of live memory, the place of a compiled call, what keeps
and copies what a model holds) knows no private name of torch's.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import _unsafe_preserve_version_counter as versions_kept
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

__all__ = [
    "COMPILED_CALL",
    "TorchDispatchMode",
    "is_view",
    "operator_name",
    "sparse_parts",
    "storage_identity",
    "tree_leaves",
    "tree_map",
    "uncompiled_call",
    "version_of",
    "versions_kept",
    "written_arguments",
]

COMPILED_CALL = "_compiled_call_impl"  # the attribute of a module that torch calls in place of its own call


def operator_name(operator: Any) -> str:
    """An operator's name without namespace and overload: `all_reduce` of `_c10d_functional::all_reduce.default`."""
    return operator._schema.name.split("::")[1]


def written_arguments(operator: Any) -> list[tuple[int, str]]:
    """The arguments that an operator's schema says it writes, by place and name; none of what is no operator."""
    schema = getattr(operator, "_schema", None)
    return [(place, one.name) for place, one in enumerate(schema.arguments if schema else ()) if one.is_write]


def storage_identity(storage: torch.UntypedStorage) -> int:
    """A number that tells storages apart while they live."""
    return storage._cdata


def uncompiled_call(module: Any) -> Callable:
    """The call of a module, or of its class, with its hooks and without what `compile` put in its place."""
    return module._call_impl


def sparse_parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The indices and the values of a COO tensor as it holds them: `indices()` refuses one that is not coalesced."""
    return [tensor._indices(), tensor._values()]


def version_of(tensor: torch.Tensor) -> int:
    """How often a tensor has been written in place, as autograd counts it."""
    return tensor._version


def is_view(tensor: torch.Tensor) -> bool:
    """Whether autograd knows a tensor as a view of another."""
    return tensor._is_view()
