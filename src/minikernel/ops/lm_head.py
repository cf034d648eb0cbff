"""The LM head in one kernel: softmax(h weight^T + bias), without the logits ever reaching memory.

Apart, the product writes (rows, 600) logits, the softmax reads them and writes them again: three times the
bytes that the probabilities take. `cuda/linear_softmax.cu` keeps the logits in registers; its head says how it
multiplies on tensor cores and stays as accurate as float32. FlashAttention (Dao et al., 2022) made the
idea famous for attention, Liger Kernel's fused linear cross entropy for the loss; this is the inference head.

Where it cannot fuse, or where fusing would not pay, it is torch's two kernels; `fuses` says which it will be.
"""

import torch
import torch.nn.functional as F

from minikernel.ops.operands import is_plain, is_watched
from minikernel.ops.softmax_cuda import VECTOR_BYTES, compiled, largest_shared_bytes, multiprocessors, stream_of
from minilab import LabError

SOURCE = "cuda/linear_softmax.cu"
FEATURES, COLUMNS = 64, 600  # the widths that the kernel is written for: MiniGPT's d_model and vocabulary
TILE_ROWS, THREADS, SHARED_BYTES = 16, 512, 195_856  # as in the source
# float16 products per product. "tf32" keeps 11 significant bits of each factor, as TF32 does.
PRODUCTS = {"float32": 3, "tf32": 1}
# From how many rows on one kernel is faster than torch's two: for fewer, to load and split the weights takes longer
# than to write the logits and read them. Events on an H200, us, fused and torch: 64 rows 11.8 and 9.9, 512 rows
# 11.7 and 11.3, 1,024 rows 11.7 and 13.5, 4,096 rows 15.9 and 25.9.
LEAST_ROWS = 1024


def linear_softmax(
    h: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, precision: str = "float32"
) -> torch.Tensor:
    """softmax(h weight^T + bias) over the last axis, fused into one kernel where `fuses` says so.

    Fused are 1,024 rows and more of float32 tensors of 64 features and 600 columns, on a CUDA device whose blocks
    can have 195 KB of shared memory (H100, H200), while no derivative is asked for and no graph is traced. Everything
    else, fewer rows, other widths, dtypes and devices, torch.compile, torch.func, tensors of other classes, is
    `F.softmax(F.linear(h, weight, bias), -1)` with torch's own accuracy, whatever `precision` says.

    Args:
        h: (..., features) hidden states. Copied once where rows are not contiguous and 16-byte aligned.
        weight: (columns, features); `nn.Linear`'s layout.
        bias: (columns,) or None; -inf masks a column.
        precision: "float32" or "tf32", see `fused_linear_softmax`.

    Returns:
        (..., columns) probabilities, contiguous, of the dtype of `h`; a row with NaN or infinity is NaN.

    Raises:
        LabError: no such precision, or the kernel is to run and CuPy is missing.
        RuntimeError: shapes, dtypes or devices do not fit together, as torch raises it.
    """
    # asked for its refusal alone: a wrong name is refused whichever way the call goes
    products_of(precision)
    if fuses(h, weight, bias):
        return fused_linear_softmax(h, weight, bias, precision)
    return F.softmax(F.linear(h, weight, bias), dim=-1)


def fuses(h: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> bool:
    """Whether `linear_softmax` of these tensors is one kernel; if not, it is torch's two."""
    return takes(h, weight, bias) and h.numel() >= LEAST_ROWS * FEATURES


def takes(h: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> bool:
    """Whether `fused_linear_softmax` can take these tensors, however few their rows."""
    tensors = (h, weight) if bias is None else (h, weight, bias)
    if not all(t.is_cuda and t.dtype == torch.float32 and t.get_device() == h.get_device() for t in tensors):
        return False
    if is_watched() or not all(map(is_plain, tensors)):
        return False
    if h.dim() == 0 or h.shape[-1] != FEATURES or weight.shape != (COLUMNS, FEATURES):
        return False
    if bias is not None and bias.shape != (COLUMNS,):
        return False
    # The kernel records no gradient and keeps no logits from which one could be made.
    differentiated = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    return not differentiated and largest_shared_bytes(h.get_device()) >= SHARED_BYTES


def fused_linear_softmax(
    h: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, precision: str = "float32"
) -> torch.Tensor:
    """The kernel of `linear_softmax`, whether it pays or not.

    Args:
        h: (..., 64) float32, on a CUDA device; copied once where rows are not contiguous and 16-byte aligned.
        weight: (600, 64) float32.
        bias: (600,) float32 or None.
        precision: "float32": three products of halves. The error grows with the logits, as rounding them to
            float32 does. The largest against float64, relative, over the 6e8 elements of 1,048,576 rows of
            N(0, 1) on an H200: 6.5e-7 for nn.Linear's initial weights (logits up to 4; torch 1.6e-6), 1.14e-6
            for weights of N(0, 1/8) (logits up to 7; torch 3.0e-6), 1.21e-6 with a bias of N(0, 1) besides.
            "tf32": one product of factors rounded to TF32's 11 significant bits; the largest error is then
            2.8e-3, the mean 2.4e-4. Sums are float32 in both; denormal inputs count as zero.

    Returns:
        (..., 600) probabilities.

    Raises:
        LabError: `takes` refuses the tensors, there is no such precision, or CuPy is missing.
    """
    products = products_of(precision)
    if not takes(h, weight, bias):
        raise LabError(
            f"fused_linear_softmax takes float32 CUDA tensors of {FEATURES} features and {COLUMNS} columns, without "
            f"gradient, on an H100 or H200, not h {tuple(h.shape)} and weight {tuple(weight.shape)} in {h.dtype} "
            f"on {h.device}; use linear_softmax, which gives the rest to torch."
        )
    device = h.get_device()
    # the driver launches into the context of the thread's current device
    if device != torch.cuda.current_device():
        with torch.cuda.device(device):
            return fused_linear_softmax(h, weight, bias, precision)
    rows, weight = aligned(h.reshape(-1, FEATURES)), aligned(weight)
    bias = None if bias is None else bias.contiguous()
    out = torch.empty((*h.shape[:-1], COLUMNS), dtype=h.dtype, device=h.device)
    if out.numel():
        # Persistent blocks, one on each multiprocessor, which its shared memory fills. Where tiles are fewer, each gets
        # a block of its own rather than a quarter of one.
        blocks = min(-(-rows.shape[0] // TILE_ROWS), multiprocessors(device))
        pointers = (rows.data_ptr(), weight.data_ptr(), 0 if bias is None else bias.data_ptr(), out.data_ptr())
        kernel = compiled(SOURCE, f"linear_softmax<{products}>", device)
        stream = stream_of(torch._C._cuda_getCurrentRawStream(device))
        kernel((blocks,), (THREADS,), (*pointers, rows.shape[0]), SHARED_BYTES, stream)
    return out


def instances() -> list[str]:
    """The C++ name of every kernel that can be launched here."""
    return [f"linear_softmax<{products}>" for products in PRODUCTS.values()]


def products_of(precision: str) -> int:
    """float16 products that stand for one product; raises LabError where there is no such precision."""
    if precision not in PRODUCTS:
        raise LabError(f"linear_softmax has no precision {precision!r}; choose from {', '.join(PRODUCTS)}.")
    return PRODUCTS[precision]


def aligned(rows: torch.Tensor) -> torch.Tensor:
    """`rows` contiguous and on a 16-byte boundary, copied only where they are not."""
    rows = rows.contiguous()
    return rows if rows.data_ptr() % VECTOR_BYTES == 0 else rows.clone()
