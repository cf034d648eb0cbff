"""The rung `graph`: the model in 13 launches of the lab's own fused kernels, replayed as one CUDA graph.

A layer is three launches: LayerNorm and qkv, attention, and everything from the projection to the end of the FFN; the
first also embeds, and the LM head with its softmax comes last.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from minikernel.model.fragments import check_fits
from minikernel.model.graph.launch import launch
from minikernel.model.graph.packing import packed
from minikernel.model.graph.plan import Buffers, Kernel, launches, room_for_words, workspace_bytes
from minikernel.model.parameters import Snapshot
from minikernel.ops import softmax_cuda
from minilab import LabError
from minimodel.port import torch_name
from minimodel.torch_minigpt import GrammarMiniGPT

DTYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16"}
EVENTS = 16  # of a block's timeline, as the source has it


class Weights(NamedTuple):
    """A model's weights on its GPU, as `packing.Packed` has them."""

    qkv: Tensor
    feed_forward: Tensor
    head: Tensor
    tokens: Tensor
    places: Tensor


class Captured:
    """The forward pass for ids of one shape, captured once and replayed: it owns all memory whose addresses it holds.

    It keeps a copy of the model's weights, and not the model.

    Args:
        model: float32 or bfloat16, on a GPU of compute capability 9.0 or later.
        shape: (B, T) of the ids.
        probabilities: softmax over the last axis, or logits.
        dependent: launches may begin before the one before them ends; False to measure what that saves.

    Attributes:
        ids: (B, T) int64, read by each replay.
        output: (B, T, V) of the model's dtype, written by each replay.
        kernels: the launches, in their order.

    Raises:
        LabError: the model or the shape is none that the kernels take, or CuPy is missing.
    """

    def __init__(
        self, model: GrammarMiniGPT, shape: tuple[int, int], *, probabilities: bool = True, dependent: bool = True
    ) -> None:
        check_takes(model, shape)
        device, dtype = model.lm_head.weight.device, model.lm_head.weight.dtype
        # The snapshot first: a parameter that changes while it is packed counts as changed.
        self._packed_of, self.weights = Snapshot(model), pack(model)
        self.ids = torch.zeros(shape, dtype=torch.int64, device=device)
        self.output = torch.empty((*shape, model.config.vocab_size), dtype=dtype, device=device)
        self.workspace = workspace(model, shape)
        self.kernels = launches(
            model.config, shape, DTYPES[dtype], softmax_cuda.multiprocessors(device.index),
            addresses(self.weights, self.ids, self.output, self.workspace), probabilities=probabilities,
        )  # fmt: skip
        with torch.cuda.device(device):
            self.graph = _captured(self.kernels, dependent)

    def replay(self) -> None:
        """Compute `output` of `ids`, on torch's current stream, with the weights that were packed last."""
        self.graph.replay()

    @torch.no_grad()
    def run(self, model: GrammarMiniGPT, ids: Tensor) -> Tensor:
        """`output` for ids (B, T) int64, overwritten by the next run.

        `model` is the one that this was made for, on the same GPU; its weights are packed anew where they have changed.
        """
        self.ids.copy_(ids)
        self.replay()
        if not self._packed_of.current():  # looked at while the GPU is at work
            now = Snapshot(model)
            # Into the same memory: the graph holds addresses.
            for old, new in zip(self.weights, pack(model), strict=True):
                old.copy_(new)
            self._packed_of = now
            self.replay()
        return self.output


class GraphForward(Captured):
    """`Captured` together with its model: a function from ids to `output`."""

    def __init__(
        self, model: GrammarMiniGPT, shape: tuple[int, int], *, probabilities: bool = True, dependent: bool = True
    ) -> None:
        super().__init__(model, shape, probabilities=probabilities, dependent=dependent)
        self.model = model

    def __call__(self, ids: Tensor) -> Tensor:
        """`output` for ids (B, T) int64, overwritten by the next call; weights that have changed are packed anew."""
        return self.run(self.model, ids)


def forward(model: GrammarMiniGPT, ids: Tensor, *, probabilities: bool = True, dependent: bool = True) -> Tensor:
    """The forward pass without a graph: 13 launches on torch's current stream, weights packed for this call.

    Args:
        model: as `GraphForward` takes it.
        ids: (B, T) int64 on the model's device.
        probabilities: softmax over the last axis, or logits.
        dependent: launches may begin before the one before them ends.

    Returns:
        (B, T, V) of the model's dtype.

    Raises:
        LabError: as `GraphForward` raises it.
    """
    shape, weight = (ids.shape[0], ids.shape[1]), model.lm_head.weight
    check_takes(model, shape)
    weights, buffers, ids = pack(model), workspace(model, shape), ids.contiguous()
    output = torch.empty((*shape, model.config.vocab_size), dtype=weight.dtype, device=weight.device)
    multiprocessors = softmax_cuda.multiprocessors(weight.get_device())
    own = addresses(weights, ids, output, buffers)
    kernels = launches(model.config, shape, DTYPES[weight.dtype], multiprocessors, own, probabilities=probabilities)
    # launches go to the current device's stream, so that the model's own is made current
    with torch.cuda.device(weight.device):
        launch(kernels, dependent=dependent)
    return output


def check_takes(model: GrammarMiniGPT, shape: tuple[int, int]) -> None:
    """Refuse what the kernels do not take.

    Raises:
        LabError: the model is not on a GPU with clusters, is neither float32 nor bfloat16, or has other sizes; or the
            batch is empty, or longer than the model's positions.
    """
    weight = model.lm_head.weight
    if not weight.is_cuda:
        raise LabError(f"the rung `graph` runs on a GPU, and this model is on {weight.device}; move it with .to.")
    if weight.dtype not in DTYPES:
        raise LabError(f"the rung `graph` computes in float32 or bfloat16, not in {weight.dtype}; convert the model.")
    # Eight blocks of a cluster share the rows of the LM head where there are few (plan.py).
    if softmax_cuda.limits_of(weight.get_device()).blocks < 8:
        raise LabError("the rung `graph` needs clusters of 8 blocks, from compute capability 9.0 on; call the model.")
    check_fits(model.config)
    if len(shape) != 2 or min(shape) < 1 or shape[1] > model.config.block_size:
        raise LabError(
            f"the rung `graph` takes ids (batch, sequence) of 1 to {model.config.block_size} positions, not "
            f"{tuple(shape)}; call the model, which says what is wrong."
        )


def pack(model: GrammarMiniGPT) -> Weights:
    """A model's weights for the kernels, on its device.

    Raises:
        LabError: a number that is split into float16 could leave its range.
    """
    weight, parameters = model.lm_head.weight, dict(model.named_parameters())
    # Packed by NumPy on the host, from float32 whatever the
    # model's dtype: rarely done, and the tests need no GPU for it.
    arrays = {name: parameters[torch_name(name)].detach().float().cpu().numpy() for name in model.config.shapes}
    made = packed(model.config, arrays, DTYPES[weight.dtype], room_for_words(model.config.vocab_size))
    return Weights(*(torch.from_numpy(array).to(weight.device) for array in made))


def workspace(model: GrammarMiniGPT, shape: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What lies between the launches: the residual stream, read and written by turns, qkv, and what attention mixed."""
    weight = model.lm_head.weight
    sizes = workspace_bytes(shape, DTYPES[weight.dtype])
    # With more than one part the stream is written beside what is read, by turns; with one, it goes in place.
    first, qkv, mixed = (
        torch.empty(sizes[name], dtype=torch.uint8, device=weight.device) for name in ("stream", "qkv", "mixed")
    )
    return first, first if sizes["streams"] == 1 else torch.empty_like(first), qkv, mixed


def addresses(weights: Weights, ids: Tensor, output: Tensor, buffers: tuple[Tensor, ...], stamps: int = 0) -> Buffers:
    """Where everything is that the launches read and write."""
    first, second, qkv, mixed = (buffer.data_ptr() for buffer in buffers)
    qkv_weights, ffn_weights = ([layer.data_ptr() for layer in each] for each in (weights.qkv, weights.feed_forward))
    head, tokens, places = (each.data_ptr() for each in (weights.head, weights.tokens, weights.places))
    return Buffers(
        qkv_weights, ffn_weights, head, tokens, places, ids.data_ptr(), output.data_ptr(), (first, second), qkv, mixed,
        stamps,
    )  # fmt: skip


def _captured(kernels: list[Kernel], dependent: bool) -> torch.cuda.CUDAGraph:
    """The kernels as a CUDA graph, on torch's current device."""
    launch(kernels, dependent=dependent)  # compiles and loads them, which a capture may not
    torch.cuda.synchronize()
    # A graph of 13 kernels costs the host one launch: 3.55 us from event to event for the first empty kernel and 0.5 us
    # for each further one, measured on an H200.
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch(kernels, dependent=dependent)
    return graph


def timeline(model: GrammarMiniGPT, ids: Tensor, *, probabilities: bool = True, dependent: bool = True) -> np.ndarray:
    """Replay the forward pass as a CUDA graph, with clocks: what the first thread of each block did when.

    Returns:
        (blocks of all launches, EVENTS, 2) int64, launch after launch. Of a block, row 0 is the multiprocessor and
        the global timer in ns at its start, row 1 zero and its clock at the start; then come a kind of span (1 memory,
        2 arithmetic, 3 waiting) and the clock at its end; unused rows are zero.

    Raises:
        LabError: as `GraphForward` raises it.
    """
    shape = (ids.shape[0], ids.shape[1])
    check_takes(model, shape)
    device, dtype = model.lm_head.weight.device, model.lm_head.weight.dtype
    weights, buffers, ids = pack(model), workspace(model, shape), ids.contiguous()
    output = torch.empty((*shape, model.config.vocab_size), dtype=dtype, device=device)

    def described(stamps: int) -> list[Kernel]:
        return launches(
            model.config, shape, DTYPES[dtype], softmax_cuda.multiprocessors(device.index),
            addresses(weights, ids, output, buffers, stamps), probabilities=probabilities, timed=True,
        )  # fmt: skip

    # Each launch's blocks have rows of their own in `stamps`: the launches are described once to count them.
    blocks = [0, *np.cumsum([kernel.grid[0] * kernel.grid[1] for kernel in described(0)])]
    stamps = torch.zeros((blocks[-1], EVENTS, 2), dtype=torch.int64, device=device)
    kernels = [
        # the stamps are each kernel's last argument
        kernel._replace(arguments=(*kernel.arguments[:-1], stamps[first:last].data_ptr()))
        for kernel, (first, last) in zip(described(stamps.data_ptr()), pairwise(blocks), strict=True)
    ]
    with torch.cuda.device(device):
        graph = _captured(kernels, dependent)
        for _ in range(2):  # the first finds caches cold
            stamps.zero_()
            graph.replay()
        torch.cuda.synchronize()
    return stamps.cpu().numpy()
