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
NAIVE_BLOCK, SMEM_BLOCK = 128, 256  # threads a block
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
# columns): no barrier. Then a block, several vectors a thread so that as many loads are in flight.
LAYOUTS = (
    Layout("fused_short", 4, 1),
    Layout("fused_short", 4, 2),
    Layout("fused_short", 8, 2),
    Layout("fused_short", 16, 2),
    Layout("fused_short", 32, 2),
    Layout("fused_short", 32, 3),
    Layout("fused_short", 32, 4),
    Layout("fused_short", 32, 5),
    Layout("fused_short", 32, 6),
    Layout("fused_short", 32, 8),
    Layout("fused_block", 128, 3),
    Layout("fused_block", 128, 4),
    Layout("fused_block", 512, 2),
    Layout("fused_block", 512, 4),
    Layout("fused_block", 1024, 4),
    Layout("fused_block", 1024, 8),
)
# 16-bit vectors unpack to twice the registers: 1,024 threads of 8 vectors would not fit.
MOST_VALUES_PER_BLOCK = 32768
LONG = {4: Layout("fused_long", 1024, 4), 2: Layout("fused_long", 512, 2)}  # by bytes of an element


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


def short_block(vectors: int) -> int:
    """Threads of a `fused_short` block whose threads hold `vectors` each, as its source says."""
    return 32 if vectors >= 4 else 64 if vectors >= 2 else 128


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
    if device != torch.cuda.current_device():
        with torch.cuda.device(device):
            return launch(name, expression, x, y, blocks, threads)
    kernel = compiled(name, expression, device)
    # The raw call, as Triton uses it: torch.cuda.current_stream() costs a microsecond more.
    stream = stream_of(torch._C._cuda_getCurrentRawStream(device))
    cols = x.shape[-1]
    kernel((blocks,), (threads,), (x.data_ptr(), y.data_ptr(), x.numel() // cols, cols), stream=stream)


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


def naive(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis, one thread a row (`cuda/naive.cu`). Any shape; raises LabError off CUDA."""
    rows = contiguous_rows("naive", x)
    y = torch.empty_like(rows)
    if rows.numel():
        blocks = -(-(rows.numel() // rows.shape[-1]) // NAIVE_BLOCK)
        launch("naive", f"naive<{C_TYPES[x.dtype]}>", rows, y, blocks, NAIVE_BLOCK)
    return y if x.dim() else y.view(())


def smem(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis, one block a row (`cuda/smem.cu`). Any shape; raises LabError off CUDA."""
    rows = contiguous_rows("smem", x)
    y = torch.empty_like(rows)
    if rows.numel():
        launch("smem", f"smem<{C_TYPES[x.dtype]}>", rows, y, rows.numel() // rows.shape[-1], SMEM_BLOCK)
    return y if x.dim() else y.view(())


@functools.cache
def fused_plan(dtype: torch.dtype, cols: int, aligned: bool) -> tuple[str, int, int]:
    """(C++ name expression, rows a block, threads a block) with which `fused` takes rows of `cols`."""
    layout = layout_for(cols, dtype.itemsize, aligned)
    expression = fused_expression(layout, C_TYPES[dtype], aligned)
    if layout.kernel == "fused_short":
        threads = short_block(layout.vectors)
        return expression, threads // layout.threads, threads
    return expression, 1, layout.threads


def fused(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis, each row read once and written once (`cuda/fused.cu`).

    Any shape, float32, bfloat16 or float16; rows beyond registers (32,768 columns) are read twice.

    Raises:
        LabError: `x` is not on a CUDA device, its dtype has no kernel here, or CuPy is missing.
    """
    rows = contiguous_rows("fused", x)
    y = allocate_like(rows)
    if rows.numel():
        cols = rows.shape[-1]
        aligned = rows.data_ptr() % VECTOR_BYTES == 0 and cols * rows.element_size() % VECTOR_BYTES == 0
        expression, rows_a_block, threads = fused_plan(rows.dtype, cols, aligned)
        launch("fused", expression, rows, y, -(-(rows.numel() // cols) // rows_a_block), threads)
    return y if x.dim() else y.view(())
