"""The units of a block's ring: every member's, read in the order of use, are the model."""

import numpy as np
import pytest

from minikernel.model.block.units import LOG2E, PIECE_WORDS, PIECES, TAIL, WORDS, unit_bytes, units
from minikernel.model.fragments import folded, pieces
from minimodel.model_config import MiniGPTConfig
from minimodel.numpy_minigpt import NumpyMiniGPT

SIZES = MiniGPTConfig(vocab_size=70, block_size=16, n_layer=2)


@pytest.fixture(scope="module")
def model():
    made = NumpyMiniGPT.initialise(SIZES, seed=1)
    made.parameters[:] = np.random.default_rng(1).normal(0, 0.2, made.parameters.shape)
    return made


def taken_apart(unit, dtype):
    """A unit's pieces (16, 32, words), biases (32,), stream (64,), and two factors."""
    of_pieces = PIECES * PIECE_WORDS[dtype]
    tail = unit[of_pieces:].view(np.float32)
    assert tail.shape == (TAIL,)
    parts = unit[:of_pieces].reshape(PIECES, 32, -1), tail[:WORDS], tail[WORDS : WORDS + 64]
    return *parts, tail[WORDS + 64], tail[WORDS + 65]


@pytest.mark.parametrize("team", [1, 2, 4])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_members_units_are_its_heads_hidden_activations_and_words(model, dtype, team):
    made = units(SIZES, model.arrays, dtype, team)
    of_layer = 8 // team + 16 // team
    assert made.of_head == -(-70 // (32 * team))
    assert made.words.shape == (team, SIZES.n_layer * of_layer + made.of_head, unit_bytes(dtype) // 4)
    assert made.words.dtype == np.uint32
    for layer in range(SIZES.n_layer):
        name = f"blocks.{layer}"
        qkv, qkv_bias = folded(model.arrays, f"{name}.attention.qkv", f"{name}.ln_1")
        matrices = {"query": qkv[:64], "keys, values": qkv[64:]}
        matrices["fc"], fc_bias = folded(model.arrays, f"{name}.mlp.fc", f"{name}.ln_2")
        matrices["proj"] = model.arrays[f"{name}.attention.proj.weight"].astype(np.float64)
        matrices["out"] = model.arrays[f"{name}.mlp.proj.weight"].astype(np.float64)
        cut = {key: pieces(matrix, dtype) for key, matrix in matrices.items()}
        to_base_2 = LOG2E / 4
        for member in range(team):
            rest = iter(made.words[member, layer * of_layer :])
            heads = range(member * 4 // team, (member + 1) * 4 // team)
            for head in heads:
                of_unit, bias, _, factor, _ = taken_apart(next(rest), dtype)
                packed, expected = cut["keys, values"]
                assert (of_unit[:8].reshape(2, 4, 32, -1) == packed[2 * head : 2 * head + 2]).all()
                assert (of_unit[8:].reshape(2, 4, 32, -1) == packed[8 + 2 * head : 10 + 2 * head]).all()
                rows = slice(16 * head, 16 * head + 16)
                np.testing.assert_array_equal(bias[:16], qkv_bias[64:128][rows].astype(np.float32))
                np.testing.assert_array_equal(bias[16:], qkv_bias[128:][rows].astype(np.float32))
                assert factor == expected
            for head in heads:
                of_unit, bias, stream, factor, following = taken_apart(next(rest), dtype)
                assert (of_unit[:8].reshape(2, 4, 32, -1) == cut["query"][0][2 * head : 2 * head + 2]).all()
                assert (of_unit[8:] == cut["proj"][0][:, head]).all()
                rows = slice(16 * head, 16 * head + 16)
                np.testing.assert_allclose(bias[:16], qkv_bias[:64][rows] * to_base_2, rtol=1e-6)
                np.testing.assert_allclose(factor, cut["query"][1] * to_base_2, rtol=1e-6)
                assert (stream == model.arrays[f"{name}.attention.proj.bias"]).all()
                assert following == cut["proj"][1]
            for step in range(member * 16 // team, (member + 1) * 16 // team):
                of_unit, bias, stream, factor, following = taken_apart(next(rest), dtype)
                assert (of_unit[:8].reshape(2, 4, 32, -1) == cut["fc"][0][2 * step : 2 * step + 2]).all()
                assert (of_unit[8:] == cut["out"][0][:, step]).all()
                np.testing.assert_array_equal(bias[:16], fc_bias[16 * step : 16 * step + 16].astype(np.float32))
                assert (stream == model.arrays[f"{name}.mlp.proj.bias"]).all()
                assert (factor, following) == (cut["fc"][1], cut["out"][1])


@pytest.mark.parametrize("team", [1, 2, 4])
@pytest.mark.parametrize("words", [1, 37, 64, 600, 2048])
def test_every_word_is_in_one_members_units_and_a_lanes_four_are_neighbours(team, words):
    sizes = MiniGPTConfig(vocab_size=words, block_size=16, n_layer=1)
    made_model = NumpyMiniGPT.initialise(sizes, seed=1)
    made_model.arrays["lm_head.bias"][:] = np.arange(words) / 32  # by which a word is known
    made = units(sizes, made_model.arrays, "bfloat16", team)
    seen = []
    for step in range(made.of_head):
        for member in range(team):
            unit = made.words[member, made.words.shape[1] - made.of_head + step]
            _, bias, stream, factor, to_base_2 = taken_apart(unit, "bfloat16")
            assert (bias[np.isfinite(bias)] * 32 < words).all()
            np.testing.assert_allclose(stream[:32], bias * LOG2E, rtol=1e-6)
            np.testing.assert_allclose(to_base_2, factor * LOG2E, rtol=1e-6)
            # (pair of tiles, tile, lane of a row, two) -> (pair, lane, four)
            fours = bias.reshape(2, 2, 4, 2).transpose(0, 2, 1, 3).reshape(-1, 4)
            known = np.arange(len(seen), len(seen) + 32).reshape(-1, 4)
            np.testing.assert_array_equal(fours, np.where(known < words, known / 32, -np.inf).astype(np.float32))
            seen += [*range(len(seen), len(seen) + 32)]
    assert len(seen) >= words


def test_logits_are_bounded_unless_their_exponentials_could_leave_float32():
    model = NumpyMiniGPT.initialise(SIZES, seed=1)
    assert units(SIZES, model.arrays, "float32", 1).bounded
    model.arrays["lm_head.bias"][3] = -75.0
    assert not units(SIZES, model.arrays, "float32", 1).bounded


@pytest.mark.parametrize(("dtype", "expected"), [("float32", 8592), ("bfloat16", 4496)])
def test_a_unit_is_16_pieces_and_its_tail_and_a_multiple_of_16_bytes(dtype, expected):
    assert unit_bytes(dtype) == expected
    assert expected % 16 == 0  # the copy engine's
