"""Captures to look into: plain compiles beside them, and ways to walk their links."""

import contextlib
from collections import defaultdict
from functools import partial
from unittest import mock

import torch
from torch._inductor import compile_fx
from torch._inductor.graph import GraphLowering

from minicompile.models import CapturedModel, Loss, NextWord, last_axis_softmax
from minicompile.torch_private import gpu_decompositions, simulated
from minimodel.checkpoint import Checkpoint
from minimodel.numpy_minigpt import MiniGPTConfig, NumpyMiniGPT
from minimodel.port import port

# Fixes the vector width and spares the probe for it, eight seconds.
FAST = {"cpp.vec_isa_ok": True, "cpp.simdlen": 256}
SMALL = MiniGPTConfig(vocab_size=32, block_size=16, n_layer=2, n_head=2, n_embd=16)


def small_minigpt(train: bool = False) -> CapturedModel:
    """MiniGPT with random weights, too small to be slow; two layers, so that kernels are shared."""
    model, _ = port(Checkpoint(config=SMALL, arrays=NumpyMiniGPT.initialise(SMALL, seed=3).arrays, metadata={}))
    ids = torch.arange(16).reshape(2, 8)
    if train:
        return CapturedModel("minigpt_train", Loss(model), (ids, ids + 1), train=True)
    return CapturedModel("minigpt", NextWord(model, last_axis_softmax), (ids,))


def compiled_code(model: CapturedModel, target: str) -> list[str]:
    """The code that Inductor writes when nobody watches, forward first."""
    codes = []

    def written(code: str) -> None:
        codes.append(code)
        if target == "simulated":
            raise simulated.CodeWritten

    def inner(module, inputs, **kwargs):
        with (
            simulated.gpu_stand_in(),
            gpu_decompositions.traced_on("cuda"),
            contextlib.suppress(simulated.CodeWritten),
        ):
            compile_fx.compile_fx_inner(*simulated.on_gpu(module, inputs), **kwargs)
        return lambda *_: None

    def backend(module, inputs):
        table = gpu_decompositions.table()
        with gpu_decompositions.composites(), gpu_decompositions.traced_on("cpu"):
            compile_fx.compile_fx(simulated.copied(module), inputs, inner_compile=inner, decompositions=table)
        return partial(simulated.made_up_results, module)

    options = simulated.CONFIG if target == "simulated" else FAST
    torch._dynamo.reset()
    with (
        mock.patch.object(GraphLowering, "save_output_code", written),
        torch._inductor.config.patch({"force_disable_caches": True, **options}),
        torch._functorch.config.patch(force_non_lazy_backward_lowering=target == "simulated"),
        torch.set_grad_enabled(model.train),
    ):
        result = torch.compile(model.module, backend=backend if target == "simulated" else "inductor")(*model.inputs)
        if model.train and target == "cpu":
            result.backward()
    torch._dynamo.reset()
    return codes


class Links:
    """The links of a capture, to walk up or down."""

    def __init__(self, capture: dict) -> None:
        self.down, self.up = defaultdict(set), defaultdict(set)
        for link in capture["links"]:
            for first, second in link["pairs"]:
                self.down[link["from"], first].add((link["to"], second))
                self.up[link["to"], second].add((link["from"], first))
        self.lines = {
            (pane["id"], number): line for pane in capture["panes"] for number, line in enumerate(pane["lines"], 1)
        }

    def reached(self, pane: str, line: int, where: dict) -> set[tuple[str, int]]:
        """Everything above (`where=links.up`) or below a line."""
        found, waiting = set(), [(pane, line)]
        while waiting:
            for place in where[waiting.pop()] - found:
                found.add(place)
                waiting.append(place)
        return found


def pane_of(capture: dict, kind: str) -> dict:
    return next(pane for pane in capture["panes"] if pane["kind"] == kind)
