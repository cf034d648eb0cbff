"""Which way a loss is computed, and why.

"recomputed": Triton kernels, no logit ever in memory: they are computed twice, once to sum them, once for the weight's
gradient. "exponentials": a Triton product writes a chunk's exponentials in 16 bits, and cuBLAS's products take them as
they are. "rows": cuBLAS's products over chunks of rows, and one Triton kernel that turns a chunk's logits into their
gradient in place. "chunked": torch over chunks of rows, everywhere.
"""

import importlib.util
from functools import cache
from typing import NamedTuple

import torch

from minikernel.ops.linear_cross_entropy.options import Options
from minikernel.ops.operands import is_plain, is_watched

# Features up to which logits are computed twice and never written. On an H200, 8,192 x 256 x 50,257 in bfloat16 took
# 2,814 us that way and 1,946 in chunks, when those still had their logits in 16 bits; 16,384 x 128 x 32,768 took 1,773
# and 1,959.
WIDEST = 128
WIDEST_OTHERS = 256  # float16, and a softcap: of what the other kernel does not take
WIDEST_FLOAT32 = 128  # tiles of float32 need twice the shared memory
# Features up to which exponentials are written. On an H200, 4,096 x 1,024 x 128,256 took 5,899 us that way and 6,504 by
# logits in float32; 8,192 x 1,536 x 50,304 took 7,673 and 7,200, for cuBLAS multiplies faster than Triton.
MOST_EXPONENTIALS = 1280
LINE = 16  # of which features are a multiple where exponentials are written: else loads are narrow, and registers spill
WIDE = ("exponentials", "rows")  # round gradients to 16 bits when all that they are multiplied by is known
TENSORS = (torch.Tensor, torch.nn.Parameter)


class Path(NamedTuple):
    """A way of computing it, and why this one, as a sentence."""

    name: str
    reason: str


@cache
def has_triton() -> bool:
    """Whether Triton is installed."""
    return importlib.util.find_spec("triton") is not None


@cache
def capability(device: int) -> tuple[int, int]:
    """A CUDA device's compute capability."""
    return torch.cuda.get_device_capability(device)


def choose(h: torch.Tensor, options: Options) -> Path:
    """The path for hidden states h, whose dtype all factors have."""
    if not h.is_cuda:
        return Path("chunked", f"the kernels are for NVIDIA's GPUs, and the tensors are on {h.device.type}")
    if not has_triton():
        return Path("chunked", "Triton is not installed")
    if capability(h.get_device()) != (9, 0):
        return Path("chunked", "the kernels were measured on an H200 alone, of compute capability 9.0")
    if h.dtype == torch.float64:
        return Path("chunked", "the kernels take float32, bfloat16 and float16, not float64")
    width = h.shape[-1]
    widest = WIDEST if h.dtype == torch.bfloat16 and not options.softcap else WIDEST_OTHERS
    widest = WIDEST_FLOAT32 if h.dtype == torch.float32 else widest
    if options.softcap and options.label_smoothing:
        return Path("chunked", "a softcap and label smoothing together would need a third product in the kernels")
    if width <= widest:
        return Path(
            "recomputed", f"{width} features, at most {widest}: the logits stay on the chip, and are computed twice"
        )
    if h.dtype != torch.bfloat16:
        return Path("chunked", f"above {widest} features the kernels take bfloat16, not {str(h.dtype)[6:]}")
    if options.softcap:
        return Path("chunked", f"above {widest} features the kernels know no softcap")
    if options.label_smoothing:
        return Path("rows", "with label smoothing a gradient is no exponential: a chunk's logits are written")
    if width > MOST_EXPONENTIALS:
        return Path("rows", f"{width} features, more than {MOST_EXPONENTIALS}: a chunk's logits are written")
    if width % LINE:
        return Path("rows", f"{width} features, no multiple of {LINE}: a chunk's logits are written, by cuBLAS")
    return Path("exponentials", f"{width} features, more than {widest}: exponentials are written, and computed once")


def which(
    h: torch.Tensor,
    weight: torch.Tensor,
    *,
    bias: torch.Tensor | None = None,
    class_weight: torch.Tensor | None = None,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float | None = None,
    **unused: object,
) -> Path:
    """How `linear_cross_entropy` of these arguments is computed, and why: name and reason.

    The other arguments of `linear_cross_entropy` are taken and decide nothing.
    """
    dtype = torch.promote_types(h.dtype, weight.dtype)
    options = Options(label_smoothing=label_smoothing, z_loss=z_loss, softcap=softcap or 0.0)
    return choose(h.to(dtype), options)


def is_plain_call(*tensors: torch.Tensor | None) -> bool:
    """Whether nobody follows the call but autograd, and every tensor is what lies in its memory."""
    return not is_watched() and all(t is None or (type(t) in TENSORS and is_plain(t)) for t in tensors)
