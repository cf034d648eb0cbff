"""Builds `native.cpp`, the eager path of `minikernel.softmax` in C++, once, and loads it.

torch's own extension builder does it at the first call on a GPU, in ten to twenty seconds, and keeps the result in
its cache. Where there is no C++ compiler, every call goes through Python instead: slower on the host, by the
same kernels.
"""

import functools
import hashlib
import logging
from collections.abc import Callable
from pathlib import Path

import torch

from minikernel.ops import softmax_cuda, softmax_fused
from minikernel.ops import softmax_cuda_backward as softmax_backward
from minikernel.ops.dispatch import dispatch

SOURCE = Path(__file__).parent / "native.cpp"
logger = logging.getLogger(__name__)


def resolve(backward: bool, dtype: str, rows: int, cols: int, aligned: bool, device: int) -> tuple[int, ...]:
    """The launch of a kernel over (rows, cols), as `native.cpp` holds it.

    Args:
        dtype: as C++ names it, `Float`, `BFloat16` or `Half`.
        rows: of the first call with about as many; the launch itself holds for any number.
        aligned: every row starts on a 16-byte boundary.
        device: number of a CUDA device.

    Returns:
        (CUfunction, rows, blocks, threads, shared_bytes): so many blocks for each so many rows. The function
        is 0 where no CUDA C kernel is to be launched.
    """
    torch_dtype = {"Float": torch.float32, "BFloat16": torch.bfloat16, "Half": torch.float16}[dtype]
    # Backward has one plan for every width. Forward, the table may prefer Triton here, which C++ does not launch:
    # native.cpp keeps that answer too and leaves the call to the operator.
    wanted = dispatch.HAS_CUDA_C if backward else dispatch.choice(torch_dtype, rows, cols, device).kernel == "fused"
    if not wanted:
        return 0, 1, 1, 1, 0
    if backward:
        plan = softmax_backward.backward_plan(torch_dtype, rows, cols, aligned, device)
    else:
        plan = softmax_fused.fused_plan(torch_dtype, cols, aligned, softmax_fused.room_of(device))
    kernel = softmax_cuda.compiled(plan.source, plan.expression, device)
    return kernel.ptr, plan.rows, plan.blocks, plan.threads, plan.shared_bytes


def build():
    """Compile and load the extension.

    Raises:
        OSError, RuntimeError, ImportError: there is no C++ compiler or no ninja, or the source does not compile.
    """
    from torch.utils import cpp_extension

    # In the name, so that two checkouts or two versions of torch do not build over each other in torch's cache.
    digest = hashlib.sha256(f"{SOURCE.read_text()}{torch.__version__}".encode()).hexdigest()[:12]
    return cpp_extension.load(f"minikernel_native_{digest}", [str(SOURCE)], extra_cflags=["-O2"])


@functools.cache
def softmax() -> Callable[[torch.Tensor, int], torch.Tensor | None]:
    """The compiled `softmax(x, dim)`, built at the first call; without a compiler, one that returns None."""
    try:
        extension = build()
    # whatever keeps a compiler from building it must not keep the kernels from running
    except (OSError, RuntimeError, ImportError) as error:
        reason = str(error).strip().splitlines()[0]
        logger.warning("minikernel.softmax launches through Python, slower on the host: %s", reason)
        return lambda x, dim: None
    # C++ asks Python once for each key and keeps the answer.
    extension.set_resolve(resolve)
    return extension.softmax
