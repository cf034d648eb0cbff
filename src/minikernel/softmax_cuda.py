"""The CUDA C softmax kernels, compiled by NVRTC through CuPy and launched on torch's tensors.

The sources in `cuda/` are three steps of one lesson: `naive` (a thread a row), `smem` (a block a row,
shared memory) and `fused` (a row in registers, read once and written once). CuPy's `RawModule` compiles
them for the device at hand and torch allocates the output; nothing is copied, and the launch goes to
torch's current stream. CuPy is imported at the first launch, so that this module loads anywhere.
"""

import functools
from pathlib import Path
from typing import NamedTuple

import torch

from minilab import LabError

SOURCES = Path(__file__).parent / "cuda"
C_TYPES = {torch.float32: "float", torch.bfloat16: "bfloat16", torch.float16: "float16"}
VECTOR_BYTES = 16
SHORT_BLOCK = 128  # threads of a `fused_short` block: several rows
COMPILER_OPTIONS = ("--std=c++17",)


class Layout(NamedTuple):
    """How `fused` spreads a row: the kernel, its threads a row, the 16-byte vectors a thread holds."""

    kernel: str
    threads: int
    vectors: int

    @property
    def capacity(self) -> int:
        """Vectors of a row that the layout holds."""
        return self.threads * self.vectors


# The first layout that holds the row is used. Lanes of one warp up to 256 vectors (1,024 float32
# columns): no barrier. Then a block, 4 vectors a thread so that four loads are in flight, doubling.
LAYOUTS = (
    Layout("fused_short", 4, 1),
    Layout("fused_short", 8, 2),
    Layout("fused_short", 8, 4),
    Layout("fused_short", 16, 4),
    Layout("fused_short", 32, 3),
    Layout("fused_short", 32, 4),
    Layout("fused_short", 32, 5),
    Layout("fused_short", 32, 6),
    Layout("fused_short", 32, 8),
    Layout("fused_block", 128, 3),
    Layout("fused_block", 128, 4),
    Layout("fused_block", 256, 4),
    Layout("fused_block", 512, 4),
    Layout("fused_block", 1024, 4),
    Layout("fused_block", 1024, 8),
)
# 16-bit vectors unpack to twice the registers: 1,024 threads of 8 vectors would not fit.
MOST_VALUES_PER_BLOCK = 32768
LONG = {4: Layout("fused_long", 1024, 4), 2: Layout("fused_long", 1024, 2)}  # by bytes of an element


def source(name: str) -> str:
    """The text of `cuda/{name}.cu` with `common.cuh` written in place of its include."""
    text = (SOURCES / f"{name}.cu").read_text()
    return text.replace('#include "common.cuh"', (SOURCES / "common.cuh").read_text())


def layout_for(cols: int, itemsize: int, aligned: bool) -> Layout:
    """The layout with which `fused` takes rows of `cols` elements of `itemsize` bytes.

    `aligned`: every row starts on a 16-byte boundary. Where not, a row may touch one vector more.
    """
    length = VECTOR_BYTES // itemsize
    needed = -(-cols // length) + (not aligned)
    for layout in LAYOUTS:
        if layout.capacity >= needed and layout.capacity * length <= MOST_VALUES_PER_BLOCK:
            return layout
    return LONG[itemsize]


def instances() -> list[tuple[str, str]]:
    """Every kernel that the functions here can launch, as (source name, C++ name expression)."""
    found = [(name, f"{name}<{c_type}>") for name in ("naive", "smem") for c_type in C_TYPES.values()]
    for dtype, c_type in C_TYPES.items():
        length = VECTOR_BYTES // dtype.itemsize
        fitting = [layout for layout in LAYOUTS if layout.capacity * length <= MOST_VALUES_PER_BLOCK]
        for layout in (*fitting, LONG[dtype.itemsize]):
            found += [("fused", fused_expression(layout, c_type, aligned)) for aligned in (True, False)]
    return found


def fused_expression(layout: Layout, c_type: str, aligned: bool) -> str:
    """The C++ name of the instance of `fused.cu` for a layout, such as `fused_short<float, 32, 5, true>`."""
    return f"{layout.kernel}<{c_type}, {layout.threads}, {layout.vectors}, {str(aligned).lower()}>"


@functools.cache
def compiled(name: str, expression: str, device: int):
    """The kernel `expression` of `cuda/{name}.cu`, compiled and loaded on CUDA device number `device`."""
    try:
        import cupy
    except ImportError:
        raise LabError(
            f"the CUDA C kernel {name} needs CuPy, which is not installed; "
            "install the GPU extra with `pip install -e .[gpu]`."
        ) from None
    with cupy.cuda.Device(device):
        module = cupy.RawModule(
            code=source(name), options=COMPILER_OPTIONS, backend="nvrtc", name_expressions=(expression,)
        )
        return module.get_function(expression).kernel


@functools.cache
def stream_of(pointer: int):
    """CuPy's handle of a CUDA stream that torch made."""
    import cupy

    return cupy.cuda.ExternalStream(pointer)


def allocate_like(x: torch.Tensor) -> torch.Tensor:
    """An uninitialised contiguous tensor like `x` that starts as far past a 16-byte boundary as `x` does."""
    past = x.data_ptr() % VECTOR_BYTES // x.element_size()
    if not past:
        return torch.empty_like(x)
    return torch.empty(x.numel() + past, dtype=x.dtype, device=x.device)[past:].view(x.shape)


def launch(name: str, expression: str, x: torch.Tensor, y: torch.Tensor, blocks: int, threads: int) -> None:
    """Launch one kernel over the rows of contiguous `x` into `y`, on torch's current stream."""
    device = x.get_device()
    cols = x.shape[-1]
    kernel = compiled(name, expression, device)
    # The raw call, as Triton uses it: torch.cuda.current_stream() costs a microsecond more.
    stream = stream_of(torch._C._cuda_getCurrentRawStream(device))
    kernel(
        (blocks,), (threads,), (x.data_ptr(), y.data_ptr(), x.numel() // cols, cols), stream=stream
    )
