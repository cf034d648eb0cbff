"""torch's private names for looking at operators and tensors as they are called, under names of the lab's own.

What imports them from here (the counters of collectives and of live memory, the place of a compiled call) knows no
private name of torch's.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["COMPILED_CALL", "TorchDispatchMode", "operator_name", "storage_identity", "tree_leaves", "uncompiled_call"]

COMPILED_CALL = "_compiled_call_impl"  # the attribute of a module that torch calls in place of its own call


def operator_name(operator: Any) -> str:
    """An operator's name without namespace and overload: `all_reduce` of `_c10d_functional::all_reduce.default`."""
    return operator._schema.name.split("::")[1]


def storage_identity(storage: torch.UntypedStorage) -> int:
    """A number that tells storages apart while they live."""
    return storage._cdata


def uncompiled_call(module: Any) -> Callable:
    """The call of a module, or of its class, with its hooks and without what `compile` put in its place."""
    return module._call_impl
