"""Other people's softmax kernels, timed beside the lab's where they are installed.

Liger (Triton, github.com/linkedin/Liger-Kernel) and quack (CuTe, github.com/Dao-AILab/quack). Where kernels
are compared, the functions that launch them are called, without autograd around them; Liger's are private to
it, and may move in another release than 0.8.5. What a user calls is here too, for its cost on the host.
"""

import importlib.util
from collections.abc import Callable
from functools import cache
from importlib import metadata

import torch

from minilab import LabError
from minilab.user_code import first_line

Pair = tuple[torch.Tensor, torch.Tensor]
PACKAGES = {"liger": "liger_kernel", "quack": "quack"}
DISTRIBUTIONS = {"liger": "liger-kernel", "quack": "quack-kernels"}
UNKNOWN_VERSION = "unknown"


def versions() -> dict[str, str | None]:
    """Peer -> its version; None where it is not installed."""
    found: dict[str, str | None] = {}
    for name, package in PACKAGES.items():
        try:
            found[name] = metadata.version(DISTRIBUTIONS[name])
        except metadata.PackageNotFoundError:
            # a checkout on the path is importable and has no version
            found[name] = UNKNOWN_VERSION if importlib.util.find_spec(package) else None
    return found


def contestants(kind: str) -> dict[str, Callable]:
    """Peer -> its function of one kind, for every peer that is installed.

    One that is installed and cannot be imported has a function that raises LabError with the import's own words.

    Args:
        kind: `forward`, the softmax over the last axis of a (rows, cols) tensor; `backward`, the gradient of the
            logits from the pair (dy, y) of such tensors; `call`, the forward function that a user calls, which
            autograd can differentiate.
    """
    return {name: functions(name)[kind] for name, version in versions().items() if version}


@cache
def functions(name: str) -> dict[str, Callable]:
    """A peer's functions by kind, as `contestants` describes them."""
    try:
        return {"liger": _liger, "quack": _quack}[name]()
    except Exception as failure:  # an import of somebody else's package may fail in any way
        # The refusal comes at the call, where every provider's does: the contest keeps it as a reason and goes on.
        return dict.fromkeys(("forward", "backward", "call"), _refusal(first_line(failure)))


def _refusal(reason: str) -> Callable:
    def refuse(_) -> torch.Tensor:
        raise LabError(reason)

    return refuse


def _liger() -> dict[str, Callable]:
    from liger_kernel.ops.softmax import LigerSoftmaxFunction, _softmax_backward, _softmax_forward

    # Liger's backward kernel takes the block and warps that its forward chose, which autograd's context would hold.
    settings: dict[int, tuple] = {}

    def backward(pair: Pair) -> torch.Tensor:
        dy, y = pair
        cols = y.shape[-1]
        if cols not in settings:  # the block size and warps that its forward chose for this width
            settings[cols] = _softmax_forward(y[:1])[1:]
        return _softmax_backward(dy, y, *settings[cols])

    return {"forward": lambda x: _softmax_forward(x)[0], "backward": backward, "call": LigerSoftmaxFunction.apply}


def _quack() -> dict[str, Callable]:
    from quack.softmax import softmax, softmax_bwd, softmax_fwd

    return {"forward": softmax_fwd, "backward": lambda pair: softmax_bwd(*pair), "call": softmax}
