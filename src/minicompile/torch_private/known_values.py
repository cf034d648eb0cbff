"""Constants of a graph, on a GPU that is not here: fake tensors whose values are known all the same.

Inductor reads a constant's values: it writes short ones into a kernel, and folds those that are all the same.
"""

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import torch

from minicompile.torch_private.names import owner


def outside_of_modes() -> AbstractContextManager:
    """A context in which tensors are what they are, whoever compiles or looks on."""
    return owner("no_modes")._disable_current_modes()


def changes_arguments(operator: Any) -> bool:
    """Whether an operator, or a node of a user's Triton kernel, may change what it is given."""
    schema = getattr(operator, "_schema", None)
    return schema.is_mutable if schema is not None else str(operator).startswith("triton_kernel_wrapper_mutation")


def known(fake_mode: Any, values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A fake tensor on `device` with the values of one on the CPU; so is what is computed from it alone."""
    with owner("no_modes")._disable_current_modes():
        meta = torch.empty_strided(values.shape, values.stride(), dtype=values.dtype, device="meta")
        made = _known_class()(fake_mode, meta, device)
    made.values_here = values
    return made


@cache
def _known_class() -> type:
    fake_tensor = owner("fake_tensor").FakeTensor
    tree_map, tree_leaves = owner("tree_map").tree_map, owner("tree_map").tree_leaves

    class Known(fake_tensor):  # type: ignore[valid-type, misc]
        def item(self):  # where dispatch is off, this is all that is asked
            return self.values_here.item()

        def tolist(self):
            return self.values_here.tolist()

        def untyped_storage(self):  # by which two constants are found to be one
            return self.values_here.untyped_storage()

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if types != (cls,):
                return super().__torch_dispatch__(func, types, args, kwargs)
            operands = [one for one in tree_leaves((args, kwargs)) if isinstance(one, cls)]
            mode, device = operands[0].fake_mode, operands[0].fake_device

            def here(value):
                if isinstance(value, cls):
                    return value.values_here
                return torch.device("cpu") if value == device else value

            made = func(*tree_map(here, args), **tree_map(here, kwargs or {}))
            return tree_map(lambda one: known(mode, one, device) if isinstance(one, torch.Tensor) else one, made)

    return Known
