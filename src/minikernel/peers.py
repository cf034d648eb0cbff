"""Other people's softmax kernels, timed beside the lab's where they are installed.

Liger (Triton, github.com/linkedin/Liger-Kernel) and quack (CuTe, github.com/Dao-AILab/quack). The
functions that launch their kernels are called, without autograd around them, so that kernels are compared
and not wrappers; Liger's are private to it, and may move in another release than 0.8.5.
"""

import importlib.util
from collections.abc import Callable

import torch

PACKAGES = {"liger": "liger_kernel", "quack": "quack"}


def installed(name: str) -> bool:
    """Whether the package behind a peer's name can be imported."""
    return importlib.util.find_spec(PACKAGES[name]) is not None


def forward(name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """A peer's softmax over the last axis of a (rows, cols) tensor."""
    if name == "liger":
        from liger_kernel.ops.softmax import _softmax_forward

        return lambda x: _softmax_forward(x)[0]
    from quack.softmax import softmax_fwd

    return softmax_fwd


def backward(name: str) -> Callable[[tuple[torch.Tensor, torch.Tensor]], torch.Tensor]:
    """A peer's gradient of the logits, from the pair (dy, y) of (rows, cols) tensors."""
    if name == "liger":
        from liger_kernel.ops.softmax import _softmax_backward, _softmax_forward

        settings: dict[int, tuple] = {}

        def liger(pair: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
            dy, y = pair
            cols = y.shape[-1]
            if cols not in settings:  # the block size and warps that its forward chose for this width
                settings[cols] = _softmax_forward(y[:1])[1:]
            return _softmax_backward(dy, y, *settings[cols])

        return liger
    from quack.softmax import softmax_bwd

    return lambda pair: softmax_bwd(*pair)
