"""Writing with a cache is the model itself, token for token, in NumPy and in PyTorch."""

import numpy as np
import pytest

from minilab import LabError
from minimodel.checkpoint import Checkpoint
from minimodel.model_config import MiniGPTConfig
from minimodel.numpy_minigpt import NumpyMiniGPT
from minimodel.port import port
from minimodel.writing.generate import generate, stream, writer_of
from minimodel.writing.sampling import Sampling

SIZES = MiniGPTConfig(vocab_size=50, block_size=24, n_layer=3, n_head=2, n_embd=16)


@pytest.fixture(scope="module")
def models():
    model = NumpyMiniGPT.initialise(SIZES, seed=1)
    model.parameters *= 8  # far from uniform: its greedy choices hang on more than the last bit
    return {"numpy": model, "torch": port(Checkpoint(config=SIZES, arrays=model.arrays, metadata={}))[0]}


@pytest.fixture(scope="module")
def prompts():
    return np.random.default_rng(2).integers(0, SIZES.vocab_size, (5, 4))


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_each_step_gives_the_forward_pass_logits(models, prompts, kind):
    writer = writer_of(models[kind], len(prompts))
    steps = np.stack([writer.step(prompts[:, place], place) for place in range(4)], 1)
    exact = models["numpy"].astype(np.float64).forward(prompts)
    assert np.abs(steps - exact).max() < 2e-5 * np.abs(exact).max()
    assert writer.name == kind


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_greedy_text_is_what_the_whole_forward_pass_says_each_time(models, prompts, kind):
    ids = prompts
    while ids.shape[1] < SIZES.block_size:
        ids = np.concatenate([ids, models["numpy"].forward(ids)[:, -1].argmax(-1)[:, None]], 1)
    assert generate(models[kind], prompts, 20).tolist() == ids[:, 4:].tolist()


@pytest.mark.parametrize("sampling", [Sampling(0.8, None, 3), Sampling(1.3, 5, 4)])
def test_numpy_and_torch_draw_the_same_text_for_the_same_seed(models, prompts, sampling):
    ours = generate(models["numpy"], prompts, 20, sampling)
    assert generate(models["torch"], prompts, 20, sampling).tolist() == ours.tolist()
    other = Sampling(sampling.temperature, sampling.top_k, 99)
    assert generate(models["numpy"], prompts, 20, other).tolist() != ours.tolist()


def test_a_sequence_is_written_as_if_it_were_alone(models, prompts):
    together = generate(models["numpy"], prompts, 12, Sampling(1.0, seed=5))
    assert generate(models["numpy"], prompts[:1], 12, Sampling(1.0, seed=5)).tolist() == together[:1].tolist()


def test_a_token_is_there_before_the_next_is_computed(models, prompts):
    tokens = stream(models["numpy"], prompts, 20)
    assert [next(tokens).tolist() for _ in range(3)] == generate(models["numpy"], prompts, 3).T.tolist()
    assert generate(models["numpy"], prompts, 0).shape == (5, 0)


@pytest.mark.parametrize(
    ("ids", "new_tokens", "named"),
    [
        ([[1, 2]], 23, "23 new tokens after 2 do not fit"),
        ([[1, 2]], -1, "-1 new tokens"),
        ([[1, 2]], 2.0, "2.0 new tokens"),
        ([[50]], 1, "from 50 to 50"),
        ([[-1]], 1, "from -1 to -1"),
        ([1, 2], 1, r"shape \(2,\)"),
        ([[]], 1, r"shape \(1, 0\)"),
        ([[0.5]], 1, "dtype float64"),
    ],
)
def test_a_prompt_that_does_not_fit_is_refused_before_anything_is_written(models, ids, new_tokens, named):
    with pytest.raises(LabError, match=named):
        stream(models["numpy"], ids, new_tokens)
