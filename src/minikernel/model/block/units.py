"""MiniGPT's weights in the units that `forward.cu` streams, in the order of use.

A unit is what a warp takes from the ring at a time: 16 pieces (`fragments.py`), then the biases and factors that belong
to them. A team of 1, 2 or 4 warps shares 16 tokens; heads, hidden activations and words are divided among its members,
each of which has units of its own.
"""

from math import e, log2, sqrt
from typing import Any, NamedTuple

import numpy as np

from minikernel.model.fragments import FEATURES, HEADS, WIDTH, folded, pieces
from minimodel.model_config import MiniGPTConfig

PIECES, WORDS = 16, 32  # of a unit, and words of a unit of the language-model head
TAIL = WORDS + WIDTH + 4  # floats of a unit behind its pieces
PIECE_WORDS = {"float32": 128, "bfloat16": 64}  # of 4 bytes
BOUND = 100.0  # 2^100, 2,048 of them, and their inverses are normal floats
LOG2E = log2(e)


class Units(NamedTuple):
    """A model's weights for teams of one size: (team, units, bytes of a unit / 4) uint32, and what goes with them."""

    words: np.ndarray
    of_head: int  # units of the language-model head, a member's last
    bounded: bool  # no exponential of a logit leaves float32's range, so that no maximum need be subtracted


def units(config: MiniGPTConfig, arrays: dict[str, np.ndarray], dtype: str, team: int) -> Units:
    """Pack a model's arrays, named as `MiniGPTConfig.shapes` names them, for teams of `team` warps.

    Args:
        config: sizes that `fragments.check_fits` takes.
        arrays: float32, or what bfloat16 parameters are as float32.
        dtype: `float32` or `bfloat16`.
        team: 1, 2 or 4.
    """
    layers = [_layer(config, arrays, dtype, team, i) for i in range(config.n_layer)]
    head, bounded = _head(config, arrays, dtype, team)
    members = [np.concatenate([*(layer[member] for layer in layers), head[member]]) for member in range(team)]
    return Units(np.stack(members), len(head[0]), bounded)


def _layer(config: MiniGPTConfig, arrays: dict[str, np.ndarray], dtype: str, team: int, layer: int) -> list[np.ndarray]:
    """Each member's units of a layer: keys and values of its heads; queries and projection; the feed-forward pieces."""
    name = f"blocks.{layer}"
    qkv, qkv_bias = folded(arrays, f"{name}.attention.qkv", f"{name}.ln_1")
    to_base_2 = LOG2E / sqrt(WIDTH // HEADS)  # scores come out ready for 2^x
    query, query_factor = pieces(qkv[:WIDTH], dtype)
    key_value, key_value_factor = pieces(qkv[WIDTH:], dtype)
    proj, proj_factor = pieces(arrays[f"{name}.attention.proj.weight"].astype(np.float64), dtype)
    fc_weight, fc_bias = folded(arrays, f"{name}.mlp.fc", f"{name}.ln_2")
    fc, fc_factor = pieces(fc_weight, dtype)
    out, out_factor = pieces(arrays[f"{name}.mlp.proj.weight"].astype(np.float64), dtype)
    # Whole heads and whole steps of 16 hidden columns for each member: none needs another's before the sum.
    heads = np.arange(HEADS).reshape(team, -1)
    hidden = np.arange(4 * WIDTH // FEATURES).reshape(team, -1)
    made = []
    for member in range(team):
        of_member = []
        # Keys and values of all heads come first: other warps wait for them while this one goes on to its queries.
        for head in heads[member]:
            both = [key_value[2 * head : 2 * head + 2], key_value[8 + 2 * head :][:2]]
            rows = WIDTH + 16 * head + np.arange(16)
            bias = np.concatenate([qkv_bias[rows], qkv_bias[rows + WIDTH]])
            of_member.append(_unit(both, bias, key_value_factor))
        for head in heads[member]:
            # a head's queries and its columns of the projection: from score to contribution without another unit
            both = [query[2 * head : 2 * head + 2], proj[:, head]]
            bias = qkv_bias[16 * head : 16 * head + 16] * to_base_2
            stream = arrays[f"{name}.attention.proj.bias"]
            of_member.append(_unit(both, bias, query_factor * to_base_2, stream, proj_factor))
        for step in hidden[member]:
            # 16 hidden columns' weights in, and out again
            both = [fc[2 * step : 2 * step + 2], out[:, step]]
            bias = fc_bias[16 * step : 16 * step + 16]
            of_member.append(_unit(both, bias, fc_factor, arrays[f"{name}.mlp.proj.bias"], out_factor))
        made.append(np.stack(of_member))
    return made


def _head(config: MiniGPTConfig, arrays: dict[str, np.ndarray], dtype: str, team: int) -> tuple[list[np.ndarray], bool]:
    """Each member's units of the head, 32 words each, and whether the logits are bounded.

    The words of two neighbouring tiles are mixed so that a lane's four are neighbours. Words beyond the last have no
    weights and a bias of minus infinity.
    """
    weight, bias = folded(arrays, "lm_head", "ln_f")
    # As in `check_range`: where no logit can be large, the kernel need not look for the largest.
    reach = sqrt(WIDTH) * np.linalg.norm(weight, axis=1) + np.abs(bias)
    count = -(-config.vocab_size // (WORDS * team))  # of a member
    room = count * team * WORDS
    words = np.concatenate([weight, np.zeros((room - len(weight), WIDTH))])
    biases = np.concatenate([bias, np.full(room - len(bias), -np.inf)])
    # 16 words: (t, tile, i) -> (tile, t, i)
    order = np.arange(room).reshape(-1, 4, 2, 2).transpose(0, 2, 1, 3).ravel()
    packed, factor = pieces(words[order], dtype)
    made = []
    for member in range(team):
        of_member = []
        for unit in range(member, count * team, team):
            rows = order[WORDS * unit : WORDS * (unit + 1)]
            stream = np.concatenate([biases[rows] * LOG2E, np.zeros(WIDTH - WORDS)])
            of_member.append(_unit([packed[4 * unit : 4 * unit + 4]], biases[rows], factor, stream, factor * LOG2E))
        made.append(np.stack(of_member))
    return made, bool(reach.max() * LOG2E <= BOUND)


def _unit(parts: list[np.ndarray], bias: Any, factor: float, stream: Any = 0.0, following: float = 1.0) -> np.ndarray:
    """16 pieces and their tail, as forward.cu's `Unit` has them."""
    tail = np.zeros(TAIL, np.float32)
    tail[: len(bias)] = bias
    tail[WORDS : WORDS + WIDTH] = stream
    tail[WORDS + WIDTH :][:2] = factor, following
    return np.concatenate([*(np.ascontiguousarray(part).ravel() for part in parts), tail.view(np.uint32)])


def unit_bytes(dtype: str) -> int:
    """Bytes of a unit."""
    return 4 * (PIECES * PIECE_WORDS[dtype] + TAIL)
