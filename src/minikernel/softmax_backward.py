"""The backward pass of a row softmax, dx = (dy - sum(dy y)) y, by the CUDA C kernels of `fused_backward.cu`.

Compiled and launched as `softmax_cuda` does: NVRTC through CuPy, torch's memory, torch's current stream.
A row of y and one of dy stay in registers: those of a few lanes, a warp, a block, or on compute capability
9.0 a cluster of blocks. The tables below say which, by the 16-byte vectors in a row.
"""

import functools
from typing import NamedTuple

import torch

from minikernel.softmax_cuda import (
    C_TYPES,
    VECTOR_BYTES,
    allocate_like,
    compiled,
    contiguous_rows,
    short_block,
    stream_of,
)
from minilab import LabError

SOURCE = "fused_backward"
PORTABLE_CLUSTER = 8  # blocks, from compute capability 9.0 on; Hopper and its successor 10 take 16 when asked
NON_PORTABLE_CLUSTER_ALLOWED = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED of the CUDA driver


class Layout(NamedTuple):
    """How a row is spread: the kernel, threads a block, vectors of each operand a thread, blocks a row."""

    kernel: str
    threads: int  # of a row, for `backward_short`
    vectors: int
    cluster: int = 1

    @property
    def capacity(self) -> int:
        """Vectors of a row that the layout holds."""
        return self.threads * self.vectors * self.cluster


# The first layout that holds the row is used. On an H200, blocks of 512 with four vectors of each operand a
# thread were fastest for long rows: more threads or more vectors leave one block a multiprocessor, which
# then loads, waits and stores by turns, and wider clusters wait longer for one another.
LAYOUTS = (
    Layout("backward_short", 4, 1),
    Layout("backward_short", 4, 2),
    Layout("backward_short", 8, 2),
    Layout("backward_short", 16, 2),
    Layout("backward_short", 32, 2),
    Layout("backward_short", 32, 3),
    Layout("backward_short", 32, 4),
    Layout("backward_short", 32, 5),
    Layout("backward_short", 32, 6),
    Layout("backward_short", 32, 8),
    Layout("backward_block", 128, 3),
    Layout("backward_block", 128, 4),
    Layout("backward_block", 256, 3),
    Layout("backward_block", 256, 4),
    Layout("backward_block", 512, 4),
    Layout("backward_block", 1024, 4),
    Layout("backward_cluster", 416, 4, 4),
    Layout("backward_cluster", 512, 4, 4),
    Layout("backward_cluster", 416, 4, 8),
    Layout("backward_cluster", 512, 4, 8),
    Layout("backward_cluster", 512, 4, 16),
)
LONG = Layout("backward_long", 1024, 2)


def largest_cluster(major: int) -> int:
    """Blocks in the largest thread-block cluster of a device of compute capability `major`."""
    return {9: 16, 10: 16}.get(major, PORTABLE_CLUSTER if major > 10 else 1)


def layout_for(cols: int, itemsize: int, most_blocks: int) -> Layout:
    """The layout for rows of `cols` elements of `itemsize` bytes, by the whole vectors that may lie in one.

    Args:
        most_blocks: the blocks that the device puts in a thread-block cluster; 1 where it has none.
    """
    needed = cols * itemsize // VECTOR_BYTES
    for layout in LAYOUTS:
        if layout.capacity >= needed and layout.cluster <= most_blocks:
            return layout
    return LONG


def expression_for(layout: Layout, c_type: str, aligned: bool) -> str:
    """The C++ name of a layout's kernel, such as `backward_cluster<float, 512, 4, 8, true>`."""
    cluster = f"{layout.cluster}, " if layout.kernel == "backward_cluster" else ""
    return f"{layout.kernel}<{c_type}, {layout.threads}, {layout.vectors}, {cluster}{str(aligned).lower()}>"


def instances() -> list[str]:
    """The C++ name of every kernel that can be launched here."""
    return [
        expression_for(layout, c_type, aligned)
        for c_type in C_TYPES.values()
        for layout in (*LAYOUTS, LONG)
        for aligned in (True, False)
    ]


class Plan(NamedTuple):
    """What a launch needs besides the tensors: blocks = rows * blocks_a_row / rows_a_block, rounded up."""

    expression: str
    threads: int
    rows_a_block: int
    blocks_a_row: int


def plan_of(layout: Layout, dtype: torch.dtype, aligned: bool) -> Plan:
    """The launch of one layout."""
    expression = expression_for(layout, C_TYPES[dtype], aligned)
    if layout.kernel == "backward_short":
        threads = short_block(layout.vectors)
        return Plan(expression, threads, threads // layout.threads, 1)
    return Plan(expression, layout.threads, 1, layout.cluster)


@functools.cache
def plan(dtype: torch.dtype, cols: int, aligned: bool, device: int) -> Plan:
    """The launch for rows of `cols` on CUDA device number `device`."""
    layout = layout_for(cols, dtype.itemsize, largest_cluster(torch.cuda.get_device_capability(device)[0]))
    return plan_of(layout, dtype, aligned)


@functools.cache
def kernel_for(expression: str, cluster: int, device: int):
    """The compiled kernel on a device, allowed its cluster where that is more than eight blocks."""
    kernel = compiled(SOURCE, expression, device)
    if cluster > PORTABLE_CLUSTER:
        import cupy

        with cupy.cuda.Device(device):
            cupy.cuda.driver.funcSetAttribute(kernel.ptr, NON_PORTABLE_CLUSTER_ALLOWED, 1)
    return kernel


def launch(launched: Plan, y: torch.Tensor, dy: torch.Tensor, dx: torch.Tensor) -> None:
    """Launch one plan over the rows of contiguous `y` and `dy` into `dx`, on torch's current stream."""
    device = y.get_device()
    if device != torch.cuda.current_device():
        with torch.cuda.device(device):
            return launch(launched, y, dy, dx)
    kernel = kernel_for(launched.expression, launched.blocks_a_row, device)
    stream = stream_of(torch._C._cuda_getCurrentRawStream(device))
    cols = y.shape[-1]
    rows = y.numel() // cols
    blocks = -(-rows // launched.rows_a_block) * launched.blocks_a_row
    arguments = (y.data_ptr(), dy.data_ptr(), dx.data_ptr(), rows, cols)
    kernel((blocks,), (launched.threads,), arguments, stream=stream)


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
    probabilities, incoming = contiguous_rows(SOURCE, y), contiguous_rows(SOURCE, dy)
    dx = allocate_like(probabilities)
    if not probabilities.numel():
        return dx
    past = probabilities.data_ptr() % VECTOR_BYTES
    if incoming.data_ptr() % VECTOR_BYTES != past:
        incoming = allocate_like(probabilities).copy_(incoming)
    cols = probabilities.shape[-1]
    aligned = not past and cols * probabilities.element_size() % VECTOR_BYTES == 0
    launch(plan(y.dtype, cols, aligned, y.get_device()), probabilities, incoming, dx)
    return dx.view(y.shape)
