"""Which tensors a kernel may be launched on: those that are what lies at their address."""

import functools
import operator

import torch
from torch.autograd import forward_ad

from minikernel.ops import softmax_cuda
from minilab import LabError


def _keys(*names: str) -> torch._C.DispatchKeySet:
    sets = (torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name)) for name in names)
    return functools.reduce(operator.or_, sets)


_PLAIN = _keys("CPU", "CUDA", "AutogradCPU", "AutogradCUDA", "AutocastCPU", "AutocastCUDA", "ADInplaceOrView")
_ALWAYS = _keys("BackendSelect", "ADInplaceOrView")  # what a thread includes of which nobody asked for anything


def is_watched() -> bool:
    """Whether somebody follows torch's operations, who would not see a launch.

    They are Dynamo, make_fx and torch.jit while they trace a graph, the dispatcher's modes, torch.func's transforms,
    and tangents.
    """
    included = torch._C._dispatch_tls_local_include_set()
    if torch.compiler.is_compiling() or forward_ad._current_level >= 0:
        return True
    return (included | _ALWAYS).raw_repr() != _ALWAYS.raw_repr()


def is_plain(x: torch.Tensor) -> bool:
    """Whether the elements of `x` are those in its storage, at its address; while a graph is traced, it counts as such.

    They are not for a subclass that computes for itself (DTensor, whose address is 0; jagged, masked and fake tensors),
    for what torch.func's transforms hand over, and for a tensor that is negated or zero by a note alone.
    """
    # whoever gives a tensor a meaning of its own announces it by a key of the dispatcher's
    return torch.compiler.is_compiling() or (torch._C._dispatch_keys(x) | _PLAIN).raw_repr() == _PLAIN.raw_repr()


def readable(what: str, x: torch.Tensor) -> torch.Tensor:
    """`x`, or the copy of it in which a note of being negated is carried out.

    Raises:
        LabError: a kernel cannot read such a tensor, or torch.jit.trace is at work; `what` names the kernel.
    """
    if torch.jit.is_tracing():
        raise LabError(f"torch.jit.trace cannot follow {what}; use minikernel.softmax, which it can.")
    resolved = x.resolve_neg()
    if not is_plain(resolved):
        raise LabError(
            f"{what} reads a tensor's own memory, which this one of {type(x).__name__} does not show; "
            "use minikernel.softmax, which torch.func's transforms and tensors of other classes may go through."
        )
    return resolved


def contiguous_rows(name: str, x: torch.Tensor) -> torch.Tensor:
    """`softmax_cuda.contiguous_rows` of a tensor that the kernel `name` can read.

    Raises:
        LabError: it cannot, or as that does.
    """
    return softmax_cuda.contiguous_rows(name, readable(f"the CUDA C kernel {name}", x))
