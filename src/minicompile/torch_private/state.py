"""torch's private names for keeping and copying what a model holds, under names of the lab's own."""

import torch
from torch.autograd import _unsafe_preserve_version_counter as versions_kept
from torch.utils._pytree import tree_map

__all__ = ["is_view", "sparse_parts", "tree_map", "version_of", "versions_kept"]


def sparse_parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The indices and the values of a COO tensor as it holds them: `indices()` refuses one that is not coalesced."""
    return [tensor._indices(), tensor._values()]


def version_of(tensor: torch.Tensor) -> int:
    """How often a tensor has been written in place, as autograd counts it."""
    return tensor._version


def is_view(tensor: torch.Tensor) -> bool:
    """Whether autograd knows a tensor as a view of another."""
    return tensor._is_view()
