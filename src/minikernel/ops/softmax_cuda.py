"""Compiles the CUDA C kernels by NVRTC through CuPy and launches them on torch's tensors.

The sources in `cuda/` are three steps of one lesson, each with a module that launches it: `softmax_naive` (a thread a
row), `softmax_smem` (a block a row, shared memory) and `softmax_fused` (a row in registers, read once and written
once). CuPy's `RawModule` compiles them for the device at hand and torch allocates the output; nothing is copied, and
the launch goes to torch's current stream. CuPy is imported at the first launch, so that this module loads anywhere.
"""

import functools
import re
from pathlib import Path
from typing import Any, NamedTuple

import torch

from minilab import LabError

HERE = Path(__file__).parent
C_TYPES = {torch.float32: "float", torch.bfloat16: "bfloat16", torch.float16: "float16"}
# what a thread moves with one instruction at most
VECTOR_BYTES = 16
COMPILER_OPTIONS = ("--std=c++17",)
NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14  # a CUfunction_attribute of the CUDA driver: more than eight blocks


class Layout(NamedTuple):
    """How a kernel spreads a row: the kernel and what each of its threads holds.

    Attributes:
        kernel: the kernel's name in its .cu file.
        threads: threads of a block that share a row, at most.
        vectors: 16-byte vectors that a thread holds in registers.
        slots: vectors that a thread may hold in shared memory besides.
        blocks: blocks that share a row, a thread-block cluster.
    """

    kernel: str
    threads: int
    vectors: int
    slots: int = 0
    blocks: int = 1

    @property
    def capacity(self) -> int:
        """Vectors of a row that the layout holds."""
        return self.blocks * self.threads * (self.vectors + self.slots)

    @property
    def shared_bytes(self) -> int:
        """Shared memory that a block of the layout may take, with 8 bytes for each of the row's warps and a barrier."""
        return self.threads * self.slots * VECTOR_BYTES + self.blocks * 32 * 8 + VECTOR_BYTES


class Launch(NamedTuple):
    """How a kernel is launched: `blocks` blocks of `threads` for each `rows` rows."""

    source: str  # the .cu file, relative to this folder
    expression: str  # C++ name of the kernel
    rows: int
    blocks: int
    threads: int
    shared_bytes: int = 0  # dynamic shared memory of a block


class Limits(NamedTuple):
    """What a device gives a row: shared memory to a block, in bytes, and blocks to a thread-block cluster.

    Before compute capability 9.0 there are no clusters, and shared memory is not used for rows: (0, 1).
    """

    shared_bytes: int
    blocks: int


HOPPER = Limits(232448, 16)


def source(path: str) -> str:
    """The text of a .cu file, relative to this folder, with the headers beside it in place of their includes."""
    file = HERE / path
    # NVRTC is handed a text, which has no folder in which headers could be looked for.
    return re.sub(r'#include "(\w+\.cuh)"', lambda include: (file.parent / include[1]).read_text(), file.read_text())


def short_block(vectors: int) -> int:
    """Threads of a block whose warps hold several rows each, `vectors` a thread, as `cuda/parts.cuh` says."""
    return 32 if vectors >= 4 else 64 if vectors >= 2 else 128


@functools.cache
def compiled(path: str, expression: str, device: int):
    """Compile and load the kernel `expression` of a .cu file, relative to this folder, on CUDA device number `device`.

    Raises:
        LabError: CuPy is missing.
    """
    try:
        import cupy
    except ImportError:
        raise LabError(
            f"the CUDA C kernel {path} needs CuPy, which is not installed; "
            "install the GPU extra with `pip install -e .[gpu]`."
        ) from None
    with cupy.cuda.Device(device):
        module = cupy.RawModule(
            code=source(path), options=COMPILER_OPTIONS, backend="nvrtc", name_expressions=(expression,)
        )
        function = module.get_function(expression)
        # Above 48 KB a kernel must be given leave, and what it declares itself counts against the same limit.
        function.max_dynamic_shared_size_bytes = largest_shared_bytes(device) - function.shared_size_bytes
        # Eight blocks are what CUDA grants any cluster; the largest layouts take sixteen.
        if limits_of(device).blocks > 1:
            cupy.cuda.driver.funcSetAttribute(function.kernel.ptr, NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
        return function.kernel


@functools.cache
def largest_shared_bytes(device: int) -> int:
    """The most shared memory that a block may have on CUDA device number `device`."""
    properties: Any = torch.cuda.get_device_properties(device)  # torch's types lack this field
    return properties.shared_memory_per_block_optin


@functools.cache
def limits_of(device: int) -> Limits:
    """The limits of CUDA device number `device`: clusters came with compute capability 9.0."""
    major = torch.cuda.get_device_capability(device)[0]
    return Limits(largest_shared_bytes(device), largest_cluster(major)) if major >= 9 else Limits(0, 1)


@functools.cache
def multiprocessors(device: int) -> int:
    """How many multiprocessors CUDA device number `device` has."""
    return torch.cuda.get_device_properties(device).multi_processor_count


def largest_cluster(major: int) -> int:
    """Blocks in the largest thread-block cluster of a device of compute capability `major`; 1: it has none."""
    # Eight blocks are guaranteed wherever there are clusters; 16, which a kernel must ask for, on 9.0 and 10.x.
    return {9: 16, 10: 16}.get(major, 8 if major > 10 else 1)


class Foreign(NamedTuple):
    """A CUDA stream by its address, as CUDA's protocol of streams asks for it."""

    pointer: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.pointer  # the protocol's version first


@functools.cache
def stream_of(pointer: int):
    """CuPy's handle of a CUDA stream that torch made."""
    import cupy

    # CuPy 13 knows no protocol, and 14 warns at each use of what 13 has instead
    if not hasattr(cupy.cuda.Stream, "from_external"):
        return cupy.cuda.ExternalStream(pointer)
    return cupy.cuda.Stream.from_external(Foreign(pointer))


def allocate_like(x: torch.Tensor) -> torch.Tensor:
    """An uninitialised contiguous tensor like `x` that starts as far past a 16-byte boundary as `x` does."""
    past = x.data_ptr() % VECTOR_BYTES // x.element_size()
    # torch's allocations start on a 16-byte boundary, so that leaving `past` elements out gives the same offset
    if not past:
        return torch.empty_like(x)
    return torch.empty(x.numel() + past, dtype=x.dtype, device=x.device)[past:].view(x.shape)


def launch(plan: Launch, *tensors: torch.Tensor) -> None:
    """Launch a kernel over the rows of contiguous tensors of one shape, on torch's current stream."""
    device = tensors[0].get_device()
    if device != torch.cuda.current_device():
        with torch.cuda.device(device):
            return launch(plan, *tensors)
    kernel = compiled(plan.source, plan.expression, device)
    # The raw call, as Triton uses it: torch.cuda.current_stream() costs a microsecond more.
    stream = stream_of(torch._C._cuda_getCurrentRawStream(device))
    cols = tensors[0].shape[-1]
    rows = tensors[0].numel() // cols
    # A cluster's blocks are neighbours in the grid: `blocks` of them for each row, or one for several rows.
    blocks = -(-rows // plan.rows) * plan.blocks
    arguments = (*(tensor.data_ptr() for tensor in tensors), rows, cols)
    kernel((blocks,), (plan.threads,), arguments, shared_mem=plan.shared_bytes, stream=stream)


def contiguous_rows(name: str, x: torch.Tensor) -> torch.Tensor:
    """`x` checked and contiguous, a scalar as a row of one; the one copy there is, and only where needed.

    Raises:
        LabError: `x` is not on a CUDA device, or its dtype has no kernel here.
    """
    if not x.is_cuda:
        raise LabError(f"the CUDA C kernel {name} takes CUDA tensors, not one on {x.device}; use F.softmax there.")
    if x.dtype not in C_TYPES:
        raise LabError(
            f"the CUDA C kernel {name} takes float32, bfloat16 and float16, not {x.dtype}; "
            "use minikernel.softmax, which gives other dtypes to torch."
        )
    return x.contiguous() if x.dim() else x.reshape(1)
