"""`minigpt_forward`: MiniGPT's whole forward pass in one launch, where the model and its GPU allow it; else, torch."""

import numpy as np
from torch import Tensor

from minikernel.model import native
from minikernel.model.block import forward as forward_block
from minikernel.model.cluster import forward as forward_cluster
from minikernel.model.driver import Launch
from minikernel.model.graph.kept import forward as replayed
from minikernel.model.weights import Weights, check_ids, weights_of
from minikernel.ops import softmax_cuda
from minilab import LabError
from minimodel.torch_minigpt import GrammarMiniGPT

RUNGS = ("one", "graph")


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
    # The way of a further call comes first, before anything is checked in Python: it checks for itself.
    if rung == "one" and (out := native.again(model, ids, probabilities)) is not None:
        return out
    if rung not in RUNGS:
        raise LabError(f"minigpt_forward has no rung {rung!r}; take one of {', '.join(RUNGS)}.")
    try:
        weights = weights_of(model)
        check_ids(weights, ids)
        if rung == "graph" and ids.numel():
            return replayed(model, ids, probabilities)
    except LabError:
        if not fall_back:
            raise
        return model.probabilities(ids) if probabilities else model(ids)
    # a grid of no blocks is an error to CUDA
    if not ids.numel():
        return native.room(weights, ids)
    launch = weights.launch(
        (ids.shape, probabilities), lambda: launch_of(weights, len(ids), ids.shape[1], probabilities)
    )
    out = native.room(weights, ids)
    launch(ids.contiguous(), out)
    # Packed weights that a CUDA graph may replay must not be freed when the model changes (parameters.py).
    weights.launched()
    # from now on `native.again` finds this launch
    native.keep(model, weights, ids.shape, probabilities, launch)
    return out


# A cluster has four multiprocessors for each sequence of at most 16 tokens, as long as there are so many: an H200's 132
# hold up to 33 clusters at once, fewer where the groups in which they lie do not divide by four.
MOST_SEQUENCES_OF_CLUSTERS = 30


def _takes_clusters(weights: Weights, sequences: int, length: int) -> bool:
    return sequences <= MOST_SEQUENCES_OF_CLUSTERS and forward_cluster.takes(weights, length)


def launch_of(weights: Weights, sequences: int, length: int, probabilities: bool) -> Launch:
    """The launch for ids (B, T), neither of them 0: of the cluster's kernel, or of the block's."""
    if _takes_clusters(weights, sequences, length):
        return forward_cluster.launch(weights, sequences, length, probabilities)
    spread = forward_block.plan(sequences, length, softmax_cuda.multiprocessors(weights.gpu))
    return forward_block.launch(weights, sequences, length, probabilities, spread)


def timeline(model: GrammarMiniGPT, ids: Tensor) -> np.ndarray:
    """What the blocks of one launch waited for and did: the stamps of the kernel that `minigpt_forward` launches.

    Raises:
        LabError: why the kernels do not take the model or the ids.
    """
    weights = weights_of(model)
    check_ids(weights, ids)
    if _takes_clusters(weights, len(ids), ids.shape[1]):
        return forward_cluster.timeline(weights, ids.contiguous())
    return forward_block.timeline(model, ids)
