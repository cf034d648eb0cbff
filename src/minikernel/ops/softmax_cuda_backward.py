"""The backward pass of a row softmax, dx = (dy - sum(dy y)) y, by the CUDA C kernels of `cuda/fused_backward.cu`.

Compiled and launched as `softmax_cuda` does: NVRTC through CuPy, torch's memory, torch's current stream.
A row of y and one of dy stay in registers: those of a few lanes, a warp, a block, or on compute capability
9.0 a cluster of blocks. The tables below say which, by the 16-byte vectors in a row.
"""

import functools

import torch

from minikernel.ops.operands import contiguous_rows
from minikernel.ops.softmax_cuda import (
    C_TYPES,
    VECTOR_BYTES,
    Launch,
    Layout,
    allocate_like,
    launch,
    limits_of,
    multiprocessors,
    short_block,
)
from minilab import LabError

SOURCE = "cuda/fused_backward.cu"

# By bytes of an element. The first layout that holds the row is used; a thread holds `vectors` of y and as many of
# dy. On an H200, rows of 65 to 384 vectors were fastest in a block that holds one a thread; long rows in clusters of
# small blocks: several such blocks share a multiprocessor, and while one waits for its cluster, the others load and
# store. A block as large as the cluster before it is for devices without clusters.
LAYOUTS: dict[int, tuple[Layout, ...]] = {
    itemsize: (
        Layout("backward_short", 4, 1),
        Layout("backward_short", 4, 2),
        Layout("backward_short", 8, 2),
        Layout("backward_short", 16, 2),
        Layout("backward_short", 32, 2),
        Layout("backward_block", 96, 1),
        Layout("backward_block", 128, 1),
        Layout("backward_block", 160, 1),
        Layout("backward_block", 192, 1),
        Layout("backward_block", 256, 1),
        Layout("backward_block", 320, 1),
        Layout("backward_block", 384, 1),
        Layout("backward_block", 224, 2),
        Layout("backward_block", 512, 1),
        Layout("backward_block", 256, 3),
        Layout("backward_block", 768 if itemsize == 4 else 512, 2),
        Layout("backward_block", 512, 4),
        Layout("backward_cluster", 128, 4, blocks=8),
        Layout("backward_block", 1024, 4),
        Layout("backward_cluster", 224, 8, blocks=4),
        Layout("backward_cluster", 128, 8, blocks=8),
        Layout("backward_cluster", 224, 8, blocks=8),
        Layout("backward_cluster", 128, 8, blocks=16),
        Layout("backward_cluster", 256, 8, blocks=8),
        Layout("backward_cluster", 256, 8, blocks=16),
    )
    for itemsize in (2, 4)
}
LONG = Layout("backward_long", 1024, 2)
# While there are about as few rows as warps can be at work on at once, a warp for each is faster: on an H200 5 % at
# 4,096 x 600 and 1 % at 6,144 x 600, but 1 % slower at 8,192 x 600.
FEW_ROWS = tuple(Layout("backward_short", 32, vectors) for vectors in (3, 4, 5, 6, 8))
WARPS_AT_ONCE = 32  # on a multiprocessor: it takes 32 blocks, and each of these is one warp


def layout_for(cols: int, itemsize: int, most_blocks: int, few_rows: bool = False) -> Layout:
    """The layout for rows of `cols` elements of `itemsize` bytes, by the whole vectors that may lie in one.

    Args:
        most_blocks: the blocks that the device puts in a thread-block cluster; 1 where it has none.
        few_rows: there are about as few as the device's warps can be at work on at once.
    """
    # Whole vectors only: the elements at a row's two ends are held besides, one or a few to a thread.
    needed = cols * itemsize // VECTOR_BYTES
    layouts = LAYOUTS[itemsize]
    if few_rows:
        # Rows that a few lanes hold stay with them; those of a block go to a warp of as many vectors as they need.
        layouts = (*(layout for layout in layouts if layout.kernel == "backward_short"), *FEW_ROWS, *layouts)
    for layout in layouts:
        if layout.capacity >= needed and layout.blocks <= most_blocks:
            return layout
    return LONG


def expression_for(layout: Layout, c_type: str, aligned: bool) -> str:
    """The C++ name of a layout's kernel, such as `backward_cluster<float, 256, 8, 4, true>`."""
    cluster = f"{layout.blocks}, " if layout.kernel == "backward_cluster" else ""
    return f"{layout.kernel}<{c_type}, {layout.threads}, {layout.vectors}, {cluster}{str(aligned).lower()}>"


def instances() -> list[str]:
    """The C++ name of every kernel that can be launched here."""
    return [
        expression_for(layout, c_type, aligned)
        for dtype, c_type in C_TYPES.items()
        for layout in (*LAYOUTS[dtype.itemsize], *FEW_ROWS, LONG)
        for aligned in (True, False)
    ]


def launch_of(layout: Layout, dtype: torch.dtype, aligned: bool) -> Launch:
    """The launch of one layout."""
    expression = expression_for(layout, C_TYPES[dtype], aligned)
    if layout.kernel == "backward_short":
        threads = short_block(layout.vectors)
        return Launch(SOURCE, expression, threads // layout.threads, 1, threads)
    return Launch(SOURCE, expression, 1, layout.blocks, layout.threads)


def backward_plan(dtype: torch.dtype, rows: int, cols: int, aligned: bool, device: int) -> Launch:
    """How the backward pass is launched on (rows, cols) on CUDA device number `device`.

    `aligned`: every row of y, dy and dx starts on a 16-byte boundary.
    """
    at_once = WARPS_AT_ONCE * multiprocessors(device)
    few_rows = rows.bit_length() <= at_once.bit_length()  # native.cpp keeps a launch for each power of two
    return _plan(dtype, cols, aligned, limits_of(device).blocks, few_rows)


@functools.cache
def _plan(dtype: torch.dtype, cols: int, aligned: bool, most_blocks: int, few_rows: bool) -> Launch:
    return launch_of(layout_for(cols, dtype.itemsize, most_blocks, few_rows), dtype, aligned)


def softmax_backward(dy: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The gradient that reaches a softmax's input, over the last axis; sums in float32.

    A row is read once and written once, up to 131,072 float32 columns (262,144 of 16 bits) on compute
    capability 9.0 and 10, and 16,384 (32,768) before; longer rows are read twice. A tensor that is not contiguous
    is copied, and so is `dy` where it starts at another offset from a 16-byte boundary than `y`.

    Args:
        dy: the gradient of the softmax's output; shape and dtype of `y`.
        y: the softmax's output, any shape; float32, bfloat16 or float16, on CUDA.

    Returns:
        A contiguous tensor like `y`.

    Raises:
        LabError: `y` is not on a CUDA device, its dtype has no kernel here, CuPy is missing, or `dy` is
            not like `y`.
    """
    if dy.shape != y.shape or dy.dtype != y.dtype or dy.device != y.device:
        raise LabError(
            f"the gradient of a softmax is {dy.dtype} of shape {tuple(dy.shape)} on {dy.device} and its output "
            f"{y.dtype} of shape {tuple(y.shape)} on {y.device}; give both alike."
        )
    probabilities, incoming = contiguous_rows("fused_backward", y), contiguous_rows("fused_backward", dy)
    dx = allocate_like(probabilities)
    if not probabilities.numel():
        return dx
    past = probabilities.data_ptr() % VECTOR_BYTES
    # one split into head, vectors and tail serves all three tensors
    if incoming.data_ptr() % VECTOR_BYTES != past:
        incoming = allocate_like(probabilities).copy_(incoming)
    cols = probabilities.shape[-1]
    aligned = not past and cols * probabilities.element_size() % VECTOR_BYTES == 0
    plan = backward_plan(y.dtype, probabilities.numel() // cols, cols, aligned, y.get_device())
    launch(plan, probabilities, incoming, dx)
    return dx.view(y.shape)
