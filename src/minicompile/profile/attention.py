"""Compares attention written out, as MiniGPT has it, with `scaled_dot_product_attention`, both compiled.

Written out, Inductor fuses the softmax into one kernel but the scores go to memory and back between it and the two
matrix products. FlashAttention (Dao et al. 2022) never writes them; torch's operator picks it or another fused kernel
by device, dtype and mask.
"""

import copy
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from minicompile.models import CapturedModel
from minicompile.profile.breakdown import break_down
from minicompile.profile.rows import TakenApart
from minicompile.profile.subject import shape_of, subject
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


def compare_attention(made: CapturedModel, dtype: str, samples: int, explicit: TakenApart | None = None) -> dict:
    """Compile a model with its attention written out and with it fused, and break both down.

    Args:
        made: MiniGPT, as `models.minigpt` makes it, in float32; its input has the shape (B, T).
        dtype: of the weights, and so of the attention: float32 or bfloat16.
        samples: timed calls of each.
        explicit: the breakdown of the model itself, if it is known already.

    Returns:
        `shape`, `dtype`, `max_difference` between the two eager outputs, and of what: `largest_output`, in magnitude;
        `from_float32`, how far each of the two is from what it computes in float32, by side; and `explicit` and
        `fused`, taken apart.
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
        "explicit": explicit,
        "fused": fused,
    }


def _apart(one: Tensor, other: Tensor) -> float:
    return (one - other).abs().max().item()


def taken_apart(
    made_of: dict,
    options: dict,
    kernels: bool,
    attention: list[str],
    samples: int,
    device: str,
) -> dict:
    """Break a call of the default mode down.

    Args:
        made_of: keyword arguments of `subject`, but for the device.
        options: `dynamic` and `options` to compile with.
        kernels: whether the call itself is broken down.
        attention: dtypes to compare attention in.
        samples: timed calls of each kind of measurement.

    Returns:
        `shapes`, a row if `kernels`, with `shape` and the call taken apart; and `attention`, a row for each dtype.

    Raises:
        NotProfiled: torch.compile made no graph of the model.
    """
    made = replace(subject(**made_of, device=device), **options)
    broken = break_down(made, samples) if kernels else None
    shapes = [] if broken is None else [{"shape": shape_of(made), **broken}]
    compared = [compare_attention(made, dtype, samples, broken) for dtype in attention]
    return {"shapes": shapes, "attention": compared}
