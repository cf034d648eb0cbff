"""Weights as tensor cores take them: the pieces put together are the matrix, and what does not fit is refused."""

import numpy as np
import pytest
import torch

from minikernel.model.fragments import check_fits, check_range, folded, linears, pieces, to_bfloat16
from minilab import LabError
from minimodel.model_config import MiniGPTConfig
from minimodel.numpy_minigpt import NumpyMiniGPT

SIZES = MiniGPTConfig(vocab_size=37, block_size=16, n_layer=2)


def put_back(packed, dtype):
    """(n_tiles, chunks, 32, words) as the matrix (8 n_tiles, 16 chunks), by where a lane's four numbers belong."""
    if dtype == "float32":
        halves = packed.view(np.float16).astype(np.float64)
        lanes = halves[..., :4] + halves[..., 4:]
    else:
        lanes = (packed.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    tiles, chunks = packed.shape[:2]
    matrix = np.full((8 * tiles, 16 * chunks), np.nan)
    for tile, chunk, lane in np.ndindex(tiles, chunks, 32):
        g, t = divmod(lane, 4)
        matrix[8 * tile + g, 16 * chunk + np.array([2 * t, 2 * t + 1, 2 * t + 8, 2 * t + 9])] = lanes[tile, chunk, lane]
    return matrix


@pytest.mark.parametrize("shape", [(8, 16), (37, 64), (64, 256)])
@pytest.mark.parametrize("size", [1e-30, 0.02, 3e4])
def test_float32_pieces_put_back_together_are_the_matrix(shape, size):
    weight = np.random.default_rng(1).normal(0, size, shape)
    packed, factor = pieces(weight, "float32")
    assert np.frexp(factor)[0] == 0.5  # a power of two
    matrix = put_back(packed, "float32") * factor
    np.testing.assert_allclose(matrix[: len(weight)], weight, rtol=0, atol=2.0**-22 * np.abs(weight).max())
    assert not matrix[len(weight) :].any()


@pytest.mark.parametrize("shape", [(8, 16), (37, 64)])
def test_bfloat16_pieces_are_the_matrix_rounded(shape):
    weight = np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)
    packed, factor = pieces(weight, "bfloat16")
    assert factor == 1
    expected = torch.from_numpy(weight).bfloat16().float().numpy()
    assert (put_back(packed, "bfloat16")[: len(weight)] == expected).all()


def test_bfloat16_is_rounded_as_torch_rounds():
    values = np.random.default_rng(1).normal(0, 1, 10_000).astype(np.float32)
    ties = np.arange(0x3F800000, 0x3F900000, 0x8000, dtype=np.uint32).view(np.float32)  # every second lies half-way
    values = np.concatenate([values, ties, -ties, values * np.float32(1e-38), [0.0, -0.0, np.inf, -np.inf]])
    values = values.astype(np.float32)
    expected = torch.from_numpy(values).bfloat16().view(torch.int16).numpy().view(np.uint16)
    assert (to_bfloat16(values) == expected).all()


def test_the_layernorm_is_folded_into_the_matrix_behind_it():
    rng = np.random.default_rng(1)
    model = NumpyMiniGPT.initialise(SIZES, seed=1)
    model.parameters[:] = rng.normal(0, 1, model.parameters.shape)
    x, arrays = rng.normal(0, 1, (5, 64)), model.arrays
    for linear, norm in linears(SIZES):
        weight, bias = folded(arrays, linear, norm)
        if norm:
            through = x * arrays[f"{norm}.weight"] + arrays[f"{norm}.bias"]
            expected = through @ arrays[f"{linear}.weight"].astype(np.float64).T + arrays[f"{linear}.bias"]
            np.testing.assert_allclose(x @ weight.T + bias, expected, rtol=1e-12, atol=1e-12)
        else:
            assert (weight == arrays[f"{linear}.weight"]).all()
            assert (bias == arrays[f"{linear}.bias"]).all()


def test_every_matrix_of_the_model_is_named_once():
    named = [f"{linear}.weight" for linear, _ in linears(SIZES)]
    assert sorted(named) == sorted(
        name for name, shape in SIZES.shapes.items() if len(shape) == 2 and "embedding" not in name
    )


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"n_embd": 32}, "has n_embd 64 and n_head 4, and this model 32 and 4; call the model itself"),
        ({"n_head": 8}, "has n_embd 64 and n_head 4, and this model 64 and 8"),
        ({"vocab_size": 2049}, "has at most 2048 words, and this model 2049; call the model itself"),
        ({"block_size": 129}, "has at most 128 positions, and this model 129"),
    ],
)
def test_a_model_of_other_sizes_is_refused(sizes, sentence):
    with pytest.raises(LabError, match=sentence):
        check_fits(MiniGPTConfig(**{"vocab_size": 2048, "block_size": 128} | sizes))


def test_the_largest_model_fits():
    check_fits(MiniGPTConfig(vocab_size=2048, block_size=128, n_layer=9))


@pytest.mark.parametrize("name", ["attention.qkv", "mlp.fc"])
@pytest.mark.parametrize(("part", "value"), [("weight", 8000.0), ("bias", 70000.0), ("bias", np.nan)])
def test_weights_that_could_leave_float16_are_refused(name, part, value):
    model = NumpyMiniGPT.initialise(SIZES, seed=1)
    check_range(SIZES, model.arrays)
    model.arrays[f"blocks.1.{name}.{part}"].flat[3] = value
    with pytest.raises(LabError, match=rf"those of blocks\.1\.{name} could reach .*, above 60,000; call the model"):
        check_range(SIZES, model.arrays)


def test_the_heads_outputs_are_not_split():
    model = NumpyMiniGPT.initialise(SIZES, seed=1)
    model.arrays["lm_head.bias"][:] = 1e6
    check_range(SIZES, model.arrays)
