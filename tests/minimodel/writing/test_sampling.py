"""How a token is chosen: Philox by its authors' known answers, draws by the distribution that they follow."""

import numpy as np
import pytest

from minilab import ConfigError
from minimodel.writing.sampling import Sampling, philox, uniform

# known-answer tests of Random123, the authors' library: philox4x32 10, counter, key, result
KNOWN = [
    ((0, 0, 0, 0), 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, 2**64 - 1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        0x299F31D0A4093822,
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_philox_gives_its_authors_answers(counter, key, answer):
    assert tuple(philox(np.array([counter], np.uint32), key)[0]) == answer


def test_the_number_of_a_token_does_not_depend_on_how_many_sequences_there_are():
    assert uniform(7, 3, 5).tolist() == uniform(7, 100, 5)[:3].tolist()
    assert len({*uniform(7, 100, 5), *uniform(7, 100, 6), *uniform(8, 100, 5)}) == 300


def test_draws_follow_the_softmax_at_the_temperature():
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05]))
    draws = Sampling(temperature=2.0).choose(np.tile(logits, (20000, 1)), 0)
    expected = np.exp(logits / 2) / np.exp(logits / 2).sum()
    counts = np.bincount(draws, minlength=4)
    chi_squared = ((counts - 20000 * expected) ** 2 / (20000 * expected)).sum()
    assert chi_squared < 16.3  # the 0.999 quantile for three degrees of freedom


def test_only_the_likeliest_are_drawn_and_of_equal_ones_the_first():
    draws = Sampling(temperature=1.0, top_k=2).choose(np.tile([1.0, 3.0, 1.0, 1.0], (500, 1)), 0)
    assert set(draws) == {0, 1}
    assert set(Sampling(temperature=1.0, top_k=9).choose(np.zeros((500, 3)), 0)) == {0, 1, 2}


def test_greedy_takes_the_likeliest_whatever_the_seed():
    logits = np.random.default_rng(0).normal(size=(6, 40)).astype(np.float32)
    assert Sampling(seed=9).choose(logits, 3).tolist() == logits.argmax(-1).tolist()
    assert Sampling(temperature=1.0, top_k=1).choose(logits, 3).tolist() == logits.argmax(-1).tolist()


@pytest.mark.parametrize("never", [-np.inf, -1e30])
def test_a_token_of_no_probability_is_never_drawn(never):
    assert set(Sampling(temperature=1.0).choose(np.tile([never, 0.0, never], (300, 1)), 0)) == {1}


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"temperature": "hot"}, "temperature is 'hot'"),
        ({"top_k": 0}, "top_k is 0"),
        ({"top_k": 2.5}, "top_k is 2.5"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**64}, "seed is 18446744073709551616"),
    ],
)
def test_what_cannot_be_is_refused(wrong, named):
    with pytest.raises(ConfigError, match=named):
        Sampling(**wrong)
