"""`minigpt_forward`: MiniGPT's whole forward pass in one launch, where the model and its GPU allow it; else, torch."""

import numpy as np
import torch
from torch import Tensor

from minikernel.model import forward_block, forward_cluster
from minikernel.model.graphs import forward as replayed
from minikernel.model.weights import Weights, check_ids, weights_of
from minikernel.ops import softmax_cuda
from minilab import LabError
from minimodel.torch_minigpt import GrammarMiniGPT


def minigpt_forward(
    model: GrammarMiniGPT, ids: Tensor, *, probabilities: bool = False, rung: str = "one", fall_back: bool = True
) -> Tensor:
    """Logits of the next word at each position, or its probabilities: `model(ids)` or `model.probabilities(ids)`.

    Made for inference: no gradient flows through it. The launch goes to torch's current stream and can be captured in a
    CUDA graph; nothing waits for the device. A position whose id is not in the vocabulary comes out as NaN, and so do
    those after it.

    Args:
        model: all its parameters float32 or all bfloat16, n_embd 64, n_head 4, at most 2,048 words and 128 positions,
            any number of layers.
        ids: (B, T) int64 on the model's device, T at most the model's block_size.
        probabilities: a softmax over the words, instead of logits.
        rung: `one`, the whole pass in one launch; or `graph`, 13 launches for 4 layers, replayed as a CUDA graph that
            the first call with a shape captures. The rung `graph` cannot itself be captured.
        fall_back: call the model where the kernels do not take it, its device or its ids.

    Returns:
        (B, T, V) of the model's dtype on its device.

    Raises:
        LabError: `rung` is unknown; without `fall_back`, also why the kernels do not take the model or the ids.
    """
    if rung not in (*RUNGS, GRAPH):
        raise LabError(f"minigpt_forward has no rung {rung!r}; take one of {', '.join((*RUNGS, GRAPH))}.")
    try:
        weights = weights_of(model)
        check_ids(weights, ids)
        if rung == GRAPH and ids.numel():
            return replayed(model, ids, probabilities)
    except LabError:
        if not fall_back:
            raise
        return model.probabilities(ids) if probabilities else model(ids)
    out = torch.empty((*ids.shape, weights.config.vocab_size), dtype=weights.dtype, device=ids.device)
    if ids.numel():
        RUNGS[rung](weights, ids.contiguous(), out, probabilities)
    return out


# A cluster has four multiprocessors for each sequence of at most 16 tokens, as long as there are so many: an H200's 132
# hold up to 33 clusters at once, fewer where the groups in which they lie do not divide by four.
MOST_SEQUENCES_OF_CLUSTERS = 30


def _takes_clusters(weights: Weights, ids: Tensor) -> bool:
    return len(ids) <= MOST_SEQUENCES_OF_CLUSTERS and forward_cluster.takes(weights, ids.shape[1])


def _one(weights: Weights, ids: Tensor, out: Tensor, probabilities: bool) -> None:
    if _takes_clusters(weights, ids):
        forward_cluster.forward(weights, ids, out, probabilities)
        return
    spread = forward_block.plan(len(ids), ids.shape[1], softmax_cuda.multiprocessors(ids.get_device()))
    forward_block.launch(weights, ids, out, probabilities, spread)


RUNGS = {"one": _one}
GRAPH = "graph"  # has graphs of the model, which needs more than its weights


def timeline(model: GrammarMiniGPT, ids: Tensor) -> np.ndarray:
    """What the blocks of one launch waited for and did: the stamps of the kernel that `minigpt_forward` launches.

    Raises:
        LabError: why the kernels do not take the model or the ids.
    """
    weights = weights_of(model)
    check_ids(weights, ids)
    if _takes_clusters(weights, ids):
        return forward_cluster.timeline(weights, ids.contiguous())
    return forward_block.timeline(model, ids)
