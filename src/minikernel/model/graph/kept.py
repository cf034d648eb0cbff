"""The rung `graph` of `minigpt_forward`: a model's captured graphs, of the shapes it was called with last."""

import weakref
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor

from minikernel.model.graph.captured import Captured
from minilab import LabError
from minimodel.torch_minigpt import GrammarMiniGPT

MOST_GRAPHS = 4  # of a model; each has an output of its own, 157 MB of float32 for (512, 128) and 600 words

_kept: "weakref.WeakKeyDictionary[GrammarMiniGPT, OrderedDict[Any, Captured]]" = weakref.WeakKeyDictionary()


def forward(model: GrammarMiniGPT, ids: Tensor, probabilities: bool) -> Tensor:
    """The model's logits or probabilities, by the graph of the ids' shape; it is captured at the first call.

    A capture waits for the device; so does packing weights that have changed. Nothing else does.

    Args:
        model: whose graphs are looked for; they go when it does.
        ids: (B, T) int64 on its device.
        probabilities: softmax over the last axis, or logits.

    Returns:
        (B, T, V) of the model's dtype, a copy: what a later call computes does not change it. Where an id is no word,
        its position is NaN, and so are those after it and up to 15 before it, which share its tile of 16.

    Raises:
        LabError: the kernels do not take the model or the shape, or the current stream is being captured.
    """
    if torch.cuda.is_current_stream_capturing():
        raise LabError(
            "the rung `graph` replays a CUDA graph of its own, which cannot be part of another; call it outside of the "
            "capture, or take the rung `one`."
        )
    shape, weight = (ids.shape[0], ids.shape[1]), model.lm_head.weight
    # streams do not wait for each other: two of them must not share a graph's buffers
    key = (shape, probabilities, weight.dtype, weight.device, current_stream(weight.device))
    graphs = _kept.setdefault(model, OrderedDict())
    captured = graphs.pop(key, None)
    if captured is None:
        while len(graphs) >= MOST_GRAPHS:
            graphs.popitem(last=False)
        captured = Captured(model, shape, probabilities=probabilities)
    graphs[key] = captured  # the last of them is the one that was used last
    # The graph writes to one place: without a copy the next call would change this one's result.
    return captured.run(model, ids).clone()


def current_stream(device: torch.device) -> int:
    """The address of torch's current stream on a GPU."""
    return torch.cuda.current_stream(device).cuda_stream
