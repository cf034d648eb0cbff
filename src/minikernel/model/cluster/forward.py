"""MiniGPT's forward pass in one launch, a cluster of blocks for each sequence (`forward.cu`): what fits.

It is for few sequences of at most 16 tokens: a cluster has four multiprocessors to itself.
"""

from ctypes import c_int
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from minikernel.model import nvrtc
from minikernel.model.cluster.packing import BLOCKS, ROWS, WARPS, packed, shared_bytes, stream_scale
from minikernel.model.driver import Launch
from minikernel.model.weights import NAMES, Weights

SOURCE = Path(__file__).parent / "forward.cu"
PRECISION = {torch.float32: "Float32", torch.bfloat16: "Bfloat16"}
# the last warp copies weights and computes nothing
THREADS = 32 * (WARPS + 1)
MOST_WORDS = 1024  # in registers as logits; of 2,048 the compiler spills some
EVENTS = 96  # rows of a block's timeline


def takes(weights: Weights, length: int) -> bool:
    """Whether the kernel takes the model, and sequences of `length` tokens."""
    # asked at each first call of a shape, worked out once
    return length <= ROWS and weights.once("cluster takes", lambda: _takes_model(weights))


def expression(dtype: torch.dtype, layers: int, words: int, probabilities: bool, timed: bool = False) -> str:
    """The C++ name of the kernel for a model's sizes and what is asked of it."""
    flags = ", ".join(str(flag).lower() for flag in (probabilities, timed))
    return f"forward_cluster<{PRECISION[dtype]}, {layers}, {words}, {flags}>"


def instances() -> list[str]:
    """Kernels for the lab's model and for the most words, as the tests compile them for a GPU that is not here."""
    asked = [(600, True, False), (600, False, False), (600, True, True), (MOST_WORDS, True, False)]
    return [expression(dtype, 4, *each) for dtype in PRECISION for each in asked]


def launch(weights: Weights, sequences: int, length: int, probabilities: bool, stamps: Tensor | None = None) -> Launch:
    """The kernel's launch for ids (B, T) int64 to out (B, T, V), both contiguous; `takes` has said that it can.

    A position whose id is not in the vocabulary comes out as NaN, and so do those after it. `stamps` (blocks, EVENTS,
    2) int64, zeros, receives what `timeline` returns.
    """
    config = weights.config
    # The model's sizes are template arguments: all loops over layers and words have known ends.
    wanted = expression(weights.dtype, config.n_layer, config.vocab_size, probabilities, stamps is not None)
    return Launch(
        nvrtc.compiled(SOURCE, wanted, weights.gpu), weights.gpu, BLOCKS * sequences, THREADS,
        shared_bytes(config, NAMES[weights.dtype]),
        [made.data_ptr() for made in weights.once("cluster", lambda: _on_device(weights))],
        [c_int(length), 0 if stamps is None else stamps.data_ptr(), c_int(EVENTS)],
    )  # fmt: skip


def timeline(weights: Weights, ids: Tensor, probabilities: bool = True) -> np.ndarray:
    """When each block did what.

    Returns:
        (blocks, EVENTS, 2) int64: (multiprocessor, nanoseconds at the start), (0, clocks at the start), then (code,
        clocks) for each span where it ended: 1 memory, 2 arithmetic, 3 waiting for other warps or blocks. Rows that
        were not used are 0.
    """
    stamps = torch.zeros((BLOCKS * len(ids), EVENTS, 2), dtype=torch.int64, device=ids.device)
    out = torch.empty((*ids.shape, weights.config.vocab_size), dtype=weights.dtype, device=ids.device)
    launch(weights, len(ids), ids.shape[1], probabilities, stamps)(ids, out)
    return stamps.cpu().numpy()


def _takes_model(weights: Weights) -> bool:
    config, dtype = weights.config, NAMES[weights.dtype]
    if config.vocab_size > MOST_WORDS or not shared_bytes(config, dtype):
        return False
    # A float32 stream that could leave float16's range is the block's kernel's, which keeps it in float32.
    return dtype == "bfloat16" or stream_scale(config, weights.arrays) > 0


def _on_device(weights: Weights) -> list[Tensor]:
    """The blocks' weights and constants, and both embeddings as they begin the stream, on the model's GPU."""
    made = packed(weights.config, weights.arrays, NAMES[weights.dtype])
    arrays = (made.weights.view(np.int32), *made[1:])
    return [torch.from_numpy(array).to(weights.device) for array in arrays]
