"""Compares attention written out, as MiniGPT has it, with `scaled_dot_product_attention`, both compiled.

Written out, Inductor fuses the softmax into one kernel but the scores go to memory and back between it and the two
matrix products. FlashAttention (Dao et al. 2022) never writes them; torch's operator picks it or another fused kernel
by device, dtype and mask.
"""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from minicompile.profile.breakdown import Breakdown, break_down
from minicompile.profile.rows import Core, Variant
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


def compare_attention(
    module: nn.Module, ids: Tensor, dtype: str, samples: int, explicit: Breakdown | None = None
) -> dict:
    """Compile `module` with its attention written out and with it fused, and break both down.

    Args:
        module: MiniGPT, as `models.minigpt` makes it, in float32.
        ids: its input (B, T), on the same device.
        dtype: of the weights, and so of the attention: float32 or bfloat16.
        samples: timed calls of each.
        explicit: the breakdown of `module` itself on `ids`, if it is known already.

    Returns:
        `shape`, `dtype`, `max_difference` between the two eager outputs, and `explicit` and `fused`, as `variant`
        gives them.
    """
    written_out = copy.deepcopy(module).to(getattr(torch, dtype))
    fused = with_fused_attention(written_out)
    with torch.no_grad():
        difference = (written_out(ids) - fused(ids)).abs().max().item()
    if explicit is None or dtype != "float32":
        explicit = break_down(written_out, (ids,), samples, "MiniGPT")
    return {
        "shape": list(ids.shape),
        "dtype": dtype,
        "max_difference": difference,
        "explicit": variant(explicit, ids.shape[1]),
        "fused": variant(break_down(fused, (ids,), samples, "MiniGPT with fused attention"), ids.shape[1]),
    }


def variant(breakdown: Breakdown, length: int) -> Variant:
    """Sum up the kernels, bytes and time of a compiled model, and of attention's core in it, all layers together.

    Returns:
        `split` as `Breakdown.split`, and the `rounds` that it follows from; `generated_kernels` and `library_calls` in
        a call of the model; `bytes` of all; `softmax_kernel`, the generated kernel that holds attention's softmax, or
        None; `operator`, the library call that runs attention as one, or None; and `core`: `calls`, `bytes`, `us` of
        attention alone.
    """
    times = iter(breakdown.libraries_us)
    core: Core = {"calls": 0, "bytes": 0, "us": 0.0}
    bytes_moved, softmax, operators = 0, [], []
    for graph in breakdown.graphs:
        inside = {call["id"] for call in attention_calls(graph, length)}
        softmax += [call["kernel"] for call in softmax_calls(graph, length)]
        for call in graph["calls"]:
            us = next(times) if call["extern"] else breakdown.kernels_us[call["kernel"]]
            bytes_moved += bytes_of(call)
            if call["id"] in inside:
                core = {"calls": core["calls"] + 1, "bytes": core["bytes"] + bytes_of(call), "us": core["us"] + us}
                operators += [call["kernel"]] if call["extern"] and "scaled_dot_product" in call["kernel"] else []
    work = kernel_work(breakdown.graphs)
    return {
        "split": breakdown.split(),
        "rounds": breakdown.rounds,
        "generated_kernels": sum(row["calls"] for row in work),
        "library_calls": len(breakdown.libraries_us),
        "bytes": bytes_moved,
        "softmax_kernel": next(iter(softmax), None),
        "operator": next(iter(operators), None),
        "core": core,
    }
