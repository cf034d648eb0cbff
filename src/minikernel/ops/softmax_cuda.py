"""The CUDA C softmax kernels, compiled by NVRTC through CuPy and launched on torch's tensors.

The sources in `cuda/` are three steps of one lesson: `naive` (a thread a row), `smem` (a block a row,
shared memory) and `fused` (a row in registers, read once and written once). CuPy's `RawModule` compiles
them for the device at hand and torch allocates the output; nothing is copied, and the launch goes to
torch's current stream. CuPy is imported at the first launch, so that this module loads anywhere.
"""

import functools
import re
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
    """How `fused` spreads a row: the kernel and what each of its threads holds.

    Attributes:
        kernel: the kernel's name in `cuda/fused.cu`.
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

    source: str  # name of the .cu file
    expression: str  # C++ name of the kernel
    rows: int
    blocks: int
    threads: int
    shared_bytes: int = 0  # dynamic shared memory of a block


# The first layout that holds the row is used. Lanes of one warp up to 256 vectors (1,024 float32
# columns): no barrier. Then a block, several vectors a thread so that as many loads are in flight; its
# shared memory besides; four to sixteen blocks. Rows that those cannot hold are read twice.
SHORT = tuple(
    Layout("fused_short", threads, vectors)
    for threads, vectors in (
        (4, 1), (4, 2), (8, 2), (16, 2), (32, 2), (32, 3), (32, 4), (32, 5), (32, 6), (32, 8)
    )
)  # fmt: skip
LARGEST = (Layout("fused_cluster", 512, 8, 13, 8), Layout("fused_cluster", 1024, 8, 13, 8))
# By bytes of an element. Where several blocks share a multiprocessor, some compute while others load and store:
# clusters of small blocks were fastest on an H200 at 8,192, 16,384 and 32,768 vectors (GPT-2's 50,257 columns,
# which start anywhere, in one block). A block as large as the cluster before it is for devices without clusters.
LAYOUTS = {
    4: (
        *SHORT,
        Layout("fused_block", 256, 4),
        Layout("fused_block", 512, 8),
        Layout("fused_cluster", 256, 8, blocks=4),
        Layout("fused_block", 1024, 8),
        Layout("fused_shared", 1024, 8, 5),
        Layout("fused_cluster", 512, 8, blocks=4),
        Layout("fused_cluster", 256, 8, blocks=16),
        Layout("fused_cluster", 512, 8, blocks=8),
        *LARGEST,
    ),
    2: (
        *SHORT,
        Layout("fused_block", 128, 4),
        Layout("fused_block", 256, 8),
        Layout("fused_kept", 128, 8, blocks=4),
        Layout("fused_block", 512, 8),
        Layout("fused_shared", 512, 8, 5),
        Layout("fused_cluster", 256, 8, blocks=4),
        Layout("fused_cluster", 512, 8, blocks=4),
        Layout("fused_cluster", 512, 8, blocks=8),
        *LARGEST,
    ),
}
LONG = {4: Layout("fused_long", 1024, 4), 2: Layout("fused_long", 512, 2)}
LINE_BYTES = 128
NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14  # a CUfunction_attribute of the CUDA driver: more than eight blocks


class Limits(NamedTuple):
    """What a device gives a row: shared memory to a block, in bytes, and blocks to a thread-block cluster.

    Before compute capability 9.0 there are no clusters, and shared memory is not used for rows: (0, 1).
    """

    shared_bytes: int
    blocks: int


HOPPER = Limits(232448, 16)


def source(name: str) -> str:
    """The text of `cuda/{name}.cu` with the headers beside it written in place of their includes."""
    text = (SOURCES / f"{name}.cu").read_text()
    return re.sub(r'#include "(\w+\.cuh)"', lambda include: (SOURCES / include[1]).read_text(), text)


def vectors_of(cols: int, itemsize: int, aligned: bool) -> int:
    """16-byte vectors that a row of `cols` elements may touch; `aligned`: it starts on a 16-byte boundary."""
    return -(-cols * itemsize // VECTOR_BYTES) + (not aligned)


def layout_for(cols: int, itemsize: int, aligned: bool, limits: Limits = HOPPER) -> Layout:
    """The layout with which `fused` takes rows of `cols` elements of `itemsize` bytes.

    Args:
        cols: elements of a row.
        itemsize: bytes of an element, 2 or 4.
        aligned: every row starts on a 16-byte boundary. Where not, a row may touch one vector more.
        limits: of the device.
    """
    for layout in LAYOUTS[itemsize]:
        # a short row's lanes hold its whole vectors, and a few elements of its ends besides
        short = layout.kernel == "fused_short"
        needed = cols * itemsize // VECTOR_BYTES if short else vectors_of(cols, itemsize, aligned)
        shared_bytes = layout.shared_bytes if layout.slots else 0
        if layout.capacity >= needed and layout.blocks <= limits.blocks and shared_bytes <= limits.shared_bytes:
            return layout
    return LONG[itemsize]


def short_block(vectors: int) -> int:
    """Threads of a `fused_short` block whose threads hold `vectors` each, as its source says."""
    return 32 if vectors >= 4 else 64 if vectors >= 2 else 128


def instances() -> list[tuple[str, str]]:
    """Every kernel that the functions here can launch, as (source name, C++ name expression)."""
    found = [(name, f"{name}<{c_type}>") for name in ("naive", "smem") for c_type in C_TYPES.values()]
    for dtype, c_type in C_TYPES.items():
        for layout in (*LAYOUTS[dtype.itemsize], LONG[dtype.itemsize]):
            found += [("fused", fused_expression(layout, c_type, aligned)) for aligned in (True, False)]
    return list(dict.fromkeys(found))


def fused_expression(layout: Layout, c_type: str, aligned: bool) -> str:
    """The C++ name of the instance of `fused.cu` for a layout, such as `fused_short<float, 32, 5, true>`."""
    if layout.kernel in ("fused_short", "fused_long"):
        return f"{layout.kernel}<{c_type}, {layout.threads}, {layout.vectors}, {str(aligned).lower()}>"
    if layout.blocks > 1:
        return f"{layout.kernel}<{c_type}, {layout.vectors}, {layout.blocks}>"
    return f"{layout.kernel}<{c_type}, {layout.vectors}>"


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
        function = module.get_function(expression)
        function.max_dynamic_shared_size_bytes = largest_shared_bytes(device) - function.shared_size_bytes
        if limits_of(device).blocks > 1:
            cupy.cuda.driver.funcSetAttribute(function.kernel.ptr, NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
        return function.kernel


@functools.cache
def largest_shared_bytes(device: int) -> int:
    """The most shared memory that a block may have on CUDA device number `device`."""
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


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
    return {9: 16, 10: 16}.get(major, 8 if major > 10 else 1)


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


def naive(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis, one thread a row (`cuda/naive.cu`). Any shape; raises LabError off CUDA."""
    rows = contiguous_rows("naive", x)
    y = torch.empty_like(rows)
    if rows.numel():
        launch(Launch("naive", f"naive<{C_TYPES[x.dtype]}>", NAIVE_BLOCK, 1, NAIVE_BLOCK), rows, y)
    return y if x.dim() else y.view(())


def smem(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis, one block a row (`cuda/smem.cu`). Any shape; raises LabError off CUDA."""
    rows = contiguous_rows("smem", x)
    y = torch.empty_like(rows)
    if rows.numel():
        launch(Launch("smem", f"smem<{C_TYPES[x.dtype]}>", 1, 1, SMEM_BLOCK), rows, y)
    return y if x.dim() else y.view(())


@functools.cache
def fused_plan(dtype: torch.dtype, cols: int, aligned: bool, limits: Limits = HOPPER) -> Launch:
    """How `fused` is launched on rows of `cols`; the arguments are those of `layout_for`."""
    layout = layout_for(cols, dtype.itemsize, aligned, limits)
    expression = fused_expression(layout, C_TYPES[dtype], aligned)
    if layout.kernel == "fused_short":
        threads = short_block(layout.vectors)
        return Launch("fused", expression, threads // layout.threads, 1, threads)
    # Runs of vectors begin on lines of memory, where the layout has room for that.
    past_line = LINE_BYTES // VECTOR_BYTES - 1 if cols * dtype.itemsize % LINE_BYTES or not aligned else 0
    needed = min(vectors_of(cols, dtype.itemsize, aligned) + past_line, layout.capacity)
    if layout.kernel == "fused_long":
        return Launch("fused", expression, 1, 1, layout.threads)
    if not layout.slots:
        warps = -(-needed // (layout.blocks * 32 * layout.vectors))  # no more than the row needs
        return Launch("fused", expression, 1, layout.blocks, warps * 32)
    slots = max(-(-needed // (layout.blocks * layout.threads)) - layout.vectors, 0)
    return Launch("fused", expression, 1, layout.blocks, layout.threads, slots * layout.threads * VECTOR_BYTES)


def fused(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis, each row read once and written once (`cuda/fused.cu`).

    Any shape, float32, bfloat16 or float16. Rows that no cluster holds (more than 688,128 float32
    columns, twice that in 16 bits; 32,768 on a device without clusters) are read twice.

    Raises:
        LabError: `x` is not on a CUDA device, its dtype has no kernel here, or CuPy is missing.
    """
    rows = contiguous_rows("fused", x)
    y = allocate_like(rows)
    if rows.numel():
        cols = rows.shape[-1]
        aligned = rows.data_ptr() % VECTOR_BYTES == 0 and cols * rows.element_size() % VECTOR_BYTES == 0
        launch(fused_plan(rows.dtype, cols, aligned, limits_of(rows.get_device())), rows, y)
    return y if x.dim() else y.view(())
