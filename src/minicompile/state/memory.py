"""Where the elements of a tensor lie: in which memory, from which byte to which, and whose they are besides."""

from typing import Any, cast

import torch
from torch import Tensor

from minicompile.torch_private.tensors import is_view

ALIGNMENT = 64  # bytes: a copy begins where its original does, as far as vector instructions and guards can see


def is_strided(tensor: Tensor) -> bool:
    """Whether a tensor is plain memory with strides: not sparse, nested, quantised, a wrapper or without values."""
    if tensor.is_meta or tensor.is_nested or tensor.layout != torch.strided or tensor.is_quantized:
        return False
    if hasattr(type(tensor), "__tensor_flatten__") or hasattr(tensor, "to_local"):
        return False
    try:
        return tensor.untyped_storage().data_ptr() != 0 or tensor.numel() == 0
    except (RuntimeError, NotImplementedError):  # a fake one, one of a functional transform, one not yet initialised
        return False


def span(tensor: Tensor) -> tuple[int, int]:
    """The first byte of its storage that a strided tensor uses, and the first after it that it does not."""
    first = int(tensor.storage_offset()) * tensor.itemsize
    if not tensor.numel():
        return first, first
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return first, first + (int(last) + 1) * tensor.itemsize


def storage_of(tensor: Tensor) -> tuple[str, int]:
    """What tells a strided tensor's storage from others while it lives."""
    return str(tensor.device), tensor.untyped_storage().data_ptr()


def strides_that_count(tensor: Tensor) -> tuple[int, ...] | None:
    """The strides of the dimensions along which a tensor has several elements; None of one that has no strides."""
    if tensor.is_nested or tensor.layout != torch.strided:
        return None
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return tuple(stride for size, stride in pairs if size > 1) if tensor.numel() > 1 else ()


def overlapping(tensor: Tensor) -> bool:
    """Whether several elements of a strided tensor may lie in one place, as those of an expanded one do."""
    pairs = sorted((stride, size) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1)
    reach = 1
    for stride, size in pairs:
        if stride < reach:
            return True
        reach = stride * (size - 1) + reach
    return False


def flat(tensor: Tensor) -> Tensor:
    """All elements from the first that a strided tensor uses to its last, in one row."""
    first, end = span(tensor)
    plain = tensor.detach()
    return plain.as_strided(((end - first) // tensor.itemsize,), (1,), tensor.storage_offset())


def copied(tensors: list[Tensor]) -> list[Tensor]:
    """Copy tensors into new memory, and nothing of how they lie in it is lost.

    Strides, expansion, alignment, what they share with one another, what is a view, `requires_grad`, classes and marks
    (attributes) stay. A tensor that some graph of autograd yields becomes a leaf. Of a storage, only the part that they
    use is copied.
    """
    copies: dict[int, Tensor] = {}
    storages: dict[tuple, list[Tensor]] = {}
    bare = {id(tensor): tensor.conj() if tensor.is_conj() else tensor for tensor in tensors}
    for tensor in tensors:
        plain = bare[id(tensor)]
        if is_strided(plain) and not plain.is_neg():
            storages.setdefault((*storage_of(plain), plain.is_inference()), []).append(plain)
        else:
            with torch.inference_mode(tensor.is_inference()):
                copies[id(plain)] = plain.detach().clone()
    for (*_, inference), sharing in storages.items():
        with torch.inference_mode(inference), torch.enable_grad():  # a view that is made without it refuses writes
            for cluster in _clusters(sharing):
                copies.update(zip(map(id, cluster), _cluster_copied(cluster), strict=True))
    return [_dressed(copies[id(bare[id(tensor)])], tensor) for tensor in tensors]


def _clusters(sharing: list[Tensor]) -> list[list[Tensor]]:
    """Group tensors of one storage by whether their parts of it overlap."""
    clusters: list[list[Tensor]] = []
    reach = -1
    for tensor in sorted(sharing, key=lambda one: span(one)):
        first, end = span(tensor)
        if first < reach and clusters:
            clusters[-1].append(tensor)
        else:
            clusters.append([tensor])
        reach = max(reach, end)
    return clusters


def _cluster_copied(cluster: list[Tensor]) -> list[Tensor]:
    begin = min(span(tensor)[0] for tensor in cluster) // ALIGNMENT * ALIGNMENT
    end = max(span(tensor)[1] for tensor in cluster)
    device = cluster[0].device
    memory = torch.empty(0, dtype=torch.uint8, device=device)
    memory = memory.set_(cluster[0].untyped_storage(), begin, (end - begin,), (1,)).clone()
    bases: dict[torch.dtype, Tensor] = {}

    def laid(tensor: Tensor) -> Tensor:
        offset = tensor.storage_offset() - begin // tensor.itemsize
        return torch.empty(0, dtype=tensor.dtype, device=device).set_(
            memory.untyped_storage(), offset, tensor.shape, tensor.stride()
        )

    made: dict[int, Tensor] = {}
    for tensor in cluster:
        if not is_view(tensor):
            made[id(tensor)] = bases[tensor.dtype] = laid(tensor)
    for tensor in cluster:
        if id(tensor) not in made:
            if tensor.dtype not in bases:
                whole = torch.empty(0, dtype=tensor.dtype, device=device)
                bases[tensor.dtype] = whole.set_(
                    memory.untyped_storage(), 0, (memory.numel() // tensor.itemsize,), (1,)
                )
            offset = tensor.storage_offset() - begin // tensor.itemsize
            made[id(tensor)] = bases[tensor.dtype].as_strided(tensor.shape, tensor.stride(), offset)
    return [made[id(tensor)] for tensor in cluster]


class Yields(torch.autograd.Function):
    """Has a tensor, where it lies, yielded by a graph."""

    @staticmethod
    def forward(ctx: Any, graph: Tensor, tensor: Tensor) -> Tensor:
        ctx.mark_dirty(tensor)
        return tensor

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None]:
        return None, None


def _dressed(copy: Tensor, tensor: Tensor) -> Tensor:
    """Give a copy the class, the flag and the attributes of its original."""
    copy = copy.conj() if tensor.is_conj() else copy
    if isinstance(tensor, torch.nn.Parameter):
        copy = torch.nn.Parameter(copy, tensor.requires_grad)
    elif type(tensor) is not type(copy):
        copy = copy.as_subclass(type(tensor))
    if tensor.requires_grad and not tensor.is_leaf and is_strided(copy) and not tensor.is_conj():
        with torch.enable_grad():
            copy = cast(Tensor, Yields.apply(torch.zeros((), requires_grad=True), copy))
        copy.retain_grad()
    elif copy.requires_grad != tensor.requires_grad:
        copy.requires_grad_(tensor.requires_grad)
    vars(copy).update(vars(tensor))
    return copy
