"""Compares attention written out, as MiniGPT has it, with `scaled_dot_product_attention`, both compiled.

Written out, Inductor fuses the softmax into one kernel but the scores go to memory and back between it and the two
matrix products. FlashAttention (Dao et al. 2022) never writes them; torch's operator picks it or another fused kernel
by device, dtype and mask.
"""

import copy
import statistics
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from minicompile.lowering.captured import Graph
from minicompile.models import CapturedModel
from minicompile.profile.breakdown import Breakdown, between_rounds, break_down, quietest
from minicompile.profile.rows import Parts, Variant
from minicompile.profile.work import attention_calls, bytes_of, kernel_work, softmax_calls
from minilab import LabError
from minimodel.torch_minigpt import Attention


class FusedAttention(nn.Module):
    """The same attention with the same weights, (B, T, d) to (B, T, d), its core by torch's fused operator."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.n_head, self.qkv, self.proj = attention.n_head, attention.qkv, attention.proj

    def forward(self, x: Tensor) -> Tensor:
        B, T, d = x.shape
        heads = (B, T, self.n_head, d // self.n_head)
        query, key, value = (part.view(heads).transpose(1, 2) for part in self.qkv(x).split(d, dim=-1))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.proj(mixed.transpose(1, 2).reshape(B, T, d))


def with_fused_attention(model: nn.Module) -> nn.Module:
    """Copy `model` with every `Attention` of the port replaced by a `FusedAttention`.

    Raises:
        LabError: the model has no such attention.
    """
    swapped = copy.deepcopy(model)
    attentions = {name: module for name, module in swapped.named_modules() if isinstance(module, Attention)}
    if not attentions:
        raise LabError(f"{type(model).__name__} has no attention of the port to swap; give it a GrammarMiniGPT.")
    for name, attention in attentions.items():
        parent, _, attribute = name.rpartition(".")
        setattr(swapped.get_submodule(parent), attribute, FusedAttention(attention))
    return swapped


def compare_attention(made: CapturedModel, dtype: str, samples: int, explicit: Breakdown | None = None) -> dict:
    """Compile a model with its attention written out and with it fused, and break both down.

    Args:
        made: MiniGPT, as `models.minigpt` makes it, in float32; its input has the shape (B, T).
        dtype: of the weights, and so of the attention: float32 or bfloat16.
        samples: timed calls of each.
        explicit: the breakdown of the model itself, if it is known already.

    Returns:
        `shape`, `dtype`, `max_difference` between the two eager outputs, and of what: `largest_output`, in magnitude;
        `from_float32`, how far each of the two is from what it computes in float32, by side; and `explicit` and
        `fused`, as `variant` gives them.
    """
    ids = made.inputs[0]
    sides = {"explicit": made.module, "fused": with_fused_attention(made.module)}
    with torch.no_grad():
        exact = {name: module(ids) for name, module in sides.items()}
        sides = {name: copy.deepcopy(module).to(getattr(torch, dtype)) for name, module in sides.items()}
        outputs = {name: module(ids).float() for name, module in sides.items()}
    if explicit is None or dtype != "float32":
        explicit = break_down(replace(made, module=sides["explicit"]), samples)
    fused = break_down(replace(made, module=sides["fused"], name="MiniGPT with fused attention"), samples)
    return {
        "shape": list(ids.shape),
        "dtype": dtype,
        "max_difference": _apart(outputs["explicit"], outputs["fused"]),
        "largest_output": outputs["explicit"].abs().max().item(),
        "from_float32": {name: _apart(outputs[name], exact[name]) for name in sides},
        "explicit": variant(explicit, ids.shape[1]),
        "fused": variant(fused, ids.shape[1]),
    }


def _apart(one: Tensor, other: Tensor) -> float:
    return (one - other).abs().max().item()


def variant(breakdown: Breakdown, length: int) -> Variant:
    """Sum up the kernels, bytes and time of a compiled model, and of attention's core in it, all layers together.

    Returns:
        `split` as `Breakdown.split`, and the `rounds` that it follows from; `generated_kernels` and `library_calls` in
        a call of the model; `bytes` of all; `softmax_kernel`, the generated kernel that holds attention's softmax, or
        None; `operator`, the library call that runs attention as one, or None; `core`: `calls`, `bytes`, `us` of
        attention alone; and `noise`, how far the two quietest rounds lie apart, of the `call` and of the `core`.
    """
    softmax = [call["kernel"] for graph in breakdown.graphs for call in softmax_calls(graph, length)]
    core = [call for graph in breakdown.graphs for call in attention_calls(graph, length)]
    operators = [call["kernel"] for call in core if call["extern"] and "scaled_dot_product" in call["kernel"]]
    work = kernel_work(breakdown.graphs)
    calls = [statistics.median(one["call_us"]) for one in breakdown.rounds]
    cores = [_core_us(breakdown.graphs, quietest([one]), length) for one in breakdown.rounds]
    return {
        "split": breakdown.split(),
        "rounds": breakdown.rounds,
        "noise": {"call": between_rounds(calls), "core": between_rounds(cores)},
        "generated_kernels": sum(row["calls"] for row in work),
        "library_calls": len(breakdown.libraries_us),
        "bytes": sum(bytes_of(call) for graph in breakdown.graphs for call in graph["calls"]),
        "softmax_kernel": next(iter(softmax), None),
        "operator": next(iter(operators), None),
        "core": {
            "calls": len(core),
            "bytes": sum(map(bytes_of, core)),
            "us": _core_us(breakdown.graphs, quietest(breakdown.rounds), length),
        },
    }


def _core_us(graphs: list[Graph], parts: Parts, length: int) -> float:
    """The time of attention's core, all layers together."""
    times, taken = iter(parts["libraries_us"]), 0.0
    for graph in graphs:
        inside = {call["id"] for call in attention_calls(graph, length)}
        for call in graph["calls"]:
            us = next(times) if call["extern"] else parts["kernels_us"][call["kernel"]]
            taken += us if call["id"] in inside else 0.0
    return taken
