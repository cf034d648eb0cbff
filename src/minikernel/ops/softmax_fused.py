"""Launches `cuda/fused.cu`, the third step: a row in registers, read once and written once.

The tables say which of the source's kernels takes a row, by its length and the size of an element.
"""

import functools

import torch

from minikernel.ops.operands import contiguous_rows
from minikernel.ops.softmax_cuda import (
    C_TYPES,
    HOPPER,
    VECTOR_BYTES,
    Launch,
    Layout,
    Limits,
    allocate_like,
    largest_shared_bytes,
    launch,
    limits_of,
    short_block,
)

# What the step gained, at 524,288 x 600 float32: on an H200 587 us after `warp`'s 656, 101 % of a copy's bandwidth
# instead of 90 %; on an H100, whose memory is slower, nothing: 831 us both, 100 %.
SOURCE = "cuda/fused.cu"
LINE_BYTES = 128

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


@functools.cache
def room_of(device: int) -> Limits:
    """What CUDA device number `device` gives a row here: its shared memory, which cards without clusters have too.

    Copies straight into it came with compute capability 8.0.
    """
    if torch.cuda.get_device_capability(device)[0] < 8:
        return Limits(0, 1)
    return Limits(largest_shared_bytes(device), limits_of(device).blocks)


def largest_of(limits: Limits) -> Layout:
    """The layout that holds the longest rows on a device that has less room than those of the tables ask for.

    A row that is held is read once, at a block a multiprocessor: a whole row in flight there is far more than hides
    the memory's latency, and the less bandwidth a multiprocessor has its share of, the less its exponentials show.
    """
    blocks, threads, vectors = min(limits.blocks, LARGEST[-1].blocks), LARGEST[-1].threads, LARGEST[-1].vectors
    kernel = "fused_cluster" if blocks > 1 else "fused_shared"
    beside = Layout(kernel, threads, vectors, 0, blocks).shared_bytes
    return Layout(kernel, threads, vectors, max(limits.shared_bytes - beside, 0) // (threads * VECTOR_BYTES), blocks)


def vectors_of(cols: int, itemsize: int, aligned: bool) -> int:
    """16-byte vectors that a row of `cols` elements may touch; `aligned`: it starts on a 16-byte boundary."""
    # a row that starts between two boundaries touches a vector at each end
    return -(-cols * itemsize // VECTOR_BYTES) + (not aligned)


def layout_for(cols: int, itemsize: int, aligned: bool, limits: Limits = HOPPER) -> Layout:
    """The layout with which `fused` takes rows of `cols` elements of `itemsize` bytes.

    Args:
        cols: elements of a row.
        itemsize: bytes of an element, 2 or 4.
        aligned: every row starts on a 16-byte boundary. Where not, a row may touch one vector more.
        limits: of the device.
    """
    # None where the tables' largest fits, or the device gives no shared memory.
    own = (largest_of(limits),) if 0 < limits.shared_bytes < LARGEST[-1].shared_bytes else ()
    for layout in (*LAYOUTS[itemsize], *own):
        # a short row's lanes hold its whole vectors, and a few elements of its ends besides
        short = layout.kernel == "fused_short"
        needed = cols * itemsize // VECTOR_BYTES if short else vectors_of(cols, itemsize, aligned)
        shared_bytes = layout.shared_bytes if layout.slots else 0
        # `slots` need shared memory beyond what every kernel has
        if layout.capacity >= needed and layout.blocks <= limits.blocks and shared_bytes <= limits.shared_bytes:
            return layout
    return LONG[itemsize]


def instances() -> list[str]:
    """The C++ name of every kernel that can be launched here, each once."""
    found = [
        fused_expression(layout, c_type, aligned)
        for dtype, c_type in C_TYPES.items()
        for layout in (*LAYOUTS[dtype.itemsize], LONG[dtype.itemsize])
        for aligned in (True, False)
    ]
    return list(dict.fromkeys(found))


def fused_expression(layout: Layout, c_type: str, aligned: bool) -> str:
    """The C++ name of the instance of `fused.cu` for a layout, such as `fused_short<float, 32, 5, true>`."""
    if layout.kernel in ("fused_short", "fused_long"):
        return f"{layout.kernel}<{c_type}, {layout.threads}, {layout.vectors}, {str(aligned).lower()}>"
    if layout.blocks > 1:
        return f"{layout.kernel}<{c_type}, {layout.vectors}, {layout.blocks}>"
    return f"{layout.kernel}<{c_type}, {layout.vectors}>"


@functools.cache
def fused_plan(dtype: torch.dtype, cols: int, aligned: bool, limits: Limits = HOPPER) -> Launch:
    """Plan the launch of `fused` on rows of `cols`; the arguments are those of `layout_for`."""
    layout = layout_for(cols, dtype.itemsize, aligned, limits)
    expression = fused_expression(layout, C_TYPES[dtype], aligned)
    if layout.kernel == "fused_short":
        # several rows in a block, each in `layout.threads` of its lanes
        threads = short_block(layout.vectors)
        return Launch(SOURCE, expression, threads // layout.threads, 1, threads)
    # Runs of vectors begin on lines of memory, where the layout has room for that.
    past_line = LINE_BYTES // VECTOR_BYTES - 1 if cols * dtype.itemsize % LINE_BYTES or not aligned else 0
    needed = min(vectors_of(cols, dtype.itemsize, aligned) + past_line, layout.capacity)
    if layout.kernel == "fused_long":
        return Launch(SOURCE, expression, 1, 1, layout.threads)
    if not layout.slots:
        warps = -(-needed // (layout.blocks * 32 * layout.vectors))  # no more than the row needs
        return Launch(SOURCE, expression, 1, layout.blocks, warps * 32)
    # Shared memory is asked for by the row and not by the layout: the less, the more blocks share a multiprocessor.
    slots = max(-(-needed // (layout.blocks * layout.threads)) - layout.vectors, 0)
    return Launch(SOURCE, expression, 1, layout.blocks, layout.threads, slots * layout.threads * VECTOR_BYTES)


def fused(x: torch.Tensor) -> torch.Tensor:
    """Compute softmax over the last axis, each row read once and written once (`cuda/fused.cu`).

    Any shape, float32, bfloat16 or float16. Rows that no cluster holds (more than 688,128 float32
    columns on an H200, twice that in 16 bits; 57,344 where there are no clusters and 99 KB of shared memory) are read
    twice.

    Raises:
        LabError: `x` is not on a CUDA device, its dtype has no kernel here, or CuPy is missing.
    """
    rows = contiguous_rows("fused", x)
    y = allocate_like(rows)
    if rows.numel():
        cols = rows.shape[-1]
        aligned = rows.data_ptr() % VECTOR_BYTES == 0 and cols * rows.element_size() % VECTOR_BYTES == 0
        launch(fused_plan(rows.dtype, cols, aligned, room_of(rows.get_device())), rows, y)
    return y if x.dim() else y.view(())
