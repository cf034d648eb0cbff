"""The LM head in one kernel: softmax(h weight^T + bias), without the logits ever reaching memory.

Apart, the product writes (rows, 600) logits, the softmax reads them and writes them again: three times the
bytes that the probabilities take. `cuda/linear_softmax.cu` keeps the logits in registers; its head says how it
multiplies on tensor cores and stays as accurate as float32. FlashAttention (Dao et al., 2022) made the
idea famous for attention, Liger Kernel's fused linear cross entropy for the loss; this is the inference head.
"""

import functools

import torch
import torch.nn.functional as F

from minikernel.softmax_cuda import VECTOR_BYTES, compiled, stream_of
from minilab import LabError

FEATURES, COLUMNS = 64, 600  # the widths that the kernel is written for: MiniGPT's d_model and vocabulary
TILE_ROWS, THREADS, SHARED_BYTES = 16, 512, 195_856  # as in the source
# float16 products per product. "tf32" keeps 11 significant bits of each factor, as TF32 does.
PRODUCTS = {"float32": 3, "tf32": 1}
MAX_DYNAMIC_SHARED_SIZE = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


def linear_softmax(
    h: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, precision: str = "float32"
) -> torch.Tensor:
    """softmax(h weight^T + bias) over the last axis, fused into one kernel where `fuses` says so.

    Fused are float32 tensors of 64 features and 600 columns on a CUDA device whose blocks can have 195 KB of
    shared memory (H100, H200), while no gradient is asked for. Everything else, other widths, dtypes and
    devices, is `F.softmax(F.linear(h, weight, bias), -1)`, whatever `precision` says.

    Args:
        h: (..., features) hidden states. Copied once where rows are not contiguous and 16-byte aligned.
        weight: (columns, features); `nn.Linear`'s layout.
        bias: (columns,) or None; -inf masks a column.
        precision: "float32": three products of halves. For h of N(0, 1) and weights of N(0, 1/8) the largest
            relative error against float64 is below 1e-6 where no logit exceeds 5.5, and 1.2e-6 over 6e8
            elements with logits up to 7 (torch: 3.0e-6); it grows with the logits, as rounding them to float32
            does. "tf32": one product of factors rounded to TF32's 11 significant bits; the largest relative
            error is then 2.6e-3, the mean 2.3e-4. Sums are float32 in both; denormal inputs count as zero.

    Returns:
        (..., columns) probabilities, contiguous, of the dtype of `h`; a row with NaN or infinity is NaN.

    Raises:
        LabError: no such precision, or the kernel is to run and CuPy is missing.
        RuntimeError: shapes, dtypes or devices do not fit together, as torch raises it.
    """
    if precision not in PRODUCTS:
        raise LabError(f"linear_softmax has no precision {precision!r}; choose from {', '.join(PRODUCTS)}.")
    if not fuses(h, weight, bias):
        return F.softmax(F.linear(h, weight, bias), dim=-1)
    device = h.get_device()
    if device != torch.cuda.current_device():
        with torch.cuda.device(device):
            return linear_softmax(h, weight, bias, precision)
    rows = aligned(h.reshape(-1, FEATURES))
    weight = aligned(weight)
    bias = None if bias is None else bias.contiguous()
    out = torch.empty((*h.shape[:-1], COLUMNS), dtype=h.dtype, device=h.device)
    if out.numel():
        tiles = -(-rows.shape[0] // TILE_ROWS)
        kernel, multiprocessors = loaded(PRODUCTS[precision], device)
        arguments = (
            rows.data_ptr(),
            weight.data_ptr(),
            0 if bias is None else bias.data_ptr(),
            out.data_ptr(),
            rows.shape[0],
        )
        stream = stream_of(torch._C._cuda_getCurrentRawStream(device))
        kernel((min(tiles, multiprocessors),), (THREADS,), arguments, SHARED_BYTES, stream)
    return out


def fuses(h: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> bool:
    """Whether `linear_softmax` of these tensors is one kernel; if not, it is torch's two."""
    tensors = (h, weight) if bias is None else (h, weight, bias)
    if not all(t.is_cuda and t.dtype == torch.float32 and t.get_device() == h.get_device() for t in tensors):
        return False
    if h.dim() == 0 or h.shape[-1] != FEATURES or weight.shape != (COLUMNS, FEATURES):
        return False
    if bias is not None and bias.shape != (COLUMNS,):
        return False
    differentiated = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    return not differentiated and shared_memory_limit(h.get_device()) >= SHARED_BYTES


def aligned(rows: torch.Tensor) -> torch.Tensor:
    """`rows` contiguous and on a 16-byte boundary, copied only where they are not."""
    rows = rows.contiguous()
    return rows if rows.data_ptr() % VECTOR_BYTES == 0 else rows.clone()


@functools.cache
def shared_memory_limit(device: int) -> int:
    """Bytes of shared memory that a block on this CUDA device may have."""
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


@functools.cache
def loaded(products: int, device: int):
    """The kernel, allowed its shared memory, and the device's multiprocessors: a block for each."""
    kernel = compiled("linear_softmax", f"linear_softmax<{products}>", device)
    from cupy.cuda import driver

    driver.funcSetAttribute(kernel.ptr, MAX_DYNAMIC_SHARED_SIZE, SHARED_BYTES)
    return kernel, torch.cuda.get_device_properties(device).multi_processor_count
