"""Launches the four kernels of the rung `graph` (`kernels.cu`), one after the other.

Each launch but the first may begin before the one before it has ended (programmatic dependent launch), for which CuPy
has no argument: launches go through the driver's `cuLaunchKernelEx`. Where cuda-bindings are missing they go through
CuPy, one after the other.
"""

import ctypes
import functools
from pathlib import Path

import numpy as np
import torch

from minikernel.model import nvrtc
from minikernel.model.graph.plan import PLANS, PRECISIONS, Buffers, Kernel, launches
from minikernel.ops import softmax_cuda
from minimodel.model_config import MiniGPTConfig

SOURCE = Path(__file__).parent / "kernels.cu"


def launch(kernels: list[Kernel], *, dependent: bool = True) -> None:
    """Launch kernels one after the other on torch's current device and stream.

    With `dependent`, each but the first may begin before the one before it has ended; it waits for it before it reads
    what that wrote.
    """
    device = torch.cuda.current_device()
    stream = torch._C._cuda_getCurrentRawStream(device)
    for number, kernel in enumerate(kernels):
        function = nvrtc.compiled(SOURCE, kernel.expression, device)
        # The first has none of these kernels before it.
        if dependent and number and driver() is not None:
            _launch_dependent(function, kernel, stream)
        else:
            size = {"shared_mem": kernel.shared_bytes, "stream": softmax_cuda.stream_of(stream)}
            function(kernel.grid, (kernel.threads,), kernel.arguments, **size)


@functools.cache
def driver():
    """cuda-bindings' module of the driver, or None where it is not installed."""
    try:
        from cuda.bindings import driver
    except ImportError:
        return None
    return driver


def _launch_dependent(function, kernel: Kernel, stream: int) -> None:
    cuda = driver()
    attribute, config = cuda.CUlaunchAttribute(), cuda.CUlaunchConfig()
    attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    # Permission for this launch to begin early; the kernel itself waits with griddepcontrol.wait (ptx.cuh).
    attribute.value.programmaticStreamSerializationAllowed = 1
    config.gridDimX, config.gridDimY, config.gridDimZ = *kernel.grid, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = kernel.threads, 1, 1
    config.sharedMemBytes, config.hStream = kernel.shared_bytes, cuda.CUstream(stream)
    config.attrs, config.numAttrs = [attribute], 1
    types = tuple(ctypes.c_int if isinstance(each, np.int32) else ctypes.c_void_p for each in kernel.arguments)
    values = tuple(int(each) for each in kernel.arguments)
    (status,) = cuda.cuLaunchKernelEx(config, cuda.CUfunction(function.ptr), (values, types), 0)
    if status != cuda.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"the launch of {kernel.expression} failed: {status.name}")


def instances() -> list[str]:
    """The kernels for the lab's own model, as the tests compile them for a GPU that is not here."""
    config, nowhere = (
        MiniGPTConfig(vocab_size=600, block_size=128),
        Buffers([0] * 4, [0] * 4, 0, 0, 0, 0, 0, (0, 0), 0, 0),
    )
    shapes = [(1, 16), (64, 64), (512, 128)]
    assert len(shapes) == len(PLANS)
    made = [
        kernel.expression
        for shape in shapes
        for dtype in PRECISIONS
        for kernel in launches(config, shape, dtype, 132, nowhere, probabilities=True)
    ]
    return list(dict.fromkeys(made))
