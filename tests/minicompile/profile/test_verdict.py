"""One thing is called faster than another only where they differ by more than two timings of one thing do."""

import random

import pytest

from minicompile.profile.verdict import gain, noise, verdict


@pytest.mark.parametrize(
    ("before", "after", "within", "said"),
    [(10.0, 5.0, 0.9, "faster"), (5.0, 10.0, 0.9, "slower"), (10.0, 5.0, 1.0, "same"), (10.0, 10.4, 0.05, "same")],
)
def test_a_gain_is_judged_alike_in_both_directions(before: float, after: float, within: float, said: str):
    assert verdict(gain(before, after), within) == said
    assert gain(before, after) == -gain(after, before)


def test_a_side_whose_calls_scatter_wildly_has_much_noise_and_a_steady_one_little():
    generator = random.Random(0)
    wild = [[generator.choice([2.3, 6.8, 25.0]) for _ in range(100)] for _ in range(2)]
    steady = [[generator.gauss(10.0, 0.2) for _ in range(100)] for _ in range(2)]
    assert verdict(gain(13.3, 6.8), noise(*wild)) == "same"
    assert noise(*steady) < 0.03


def test_a_clock_that_drifts_is_no_noise():
    drifting = [10.0 + 0.1 * call for call in range(100)]
    assert noise(drifting, [us * 1.001 for us in drifting]) == pytest.approx(0.001, abs=1e-6)


def test_few_samples_are_compared_one_by_one():
    assert noise([10.0, 10.0], [10.0, 11.0]) == pytest.approx(0.1)
