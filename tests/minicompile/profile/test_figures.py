"""What took turns is judged by its own samples: a side that differs from itself hides a difference."""

import pytest

from minicompile.profile.figures import judged, noise_of


def test_the_noise_is_of_every_other_step_against_those_between():
    assert noise_of([1.0] * 8) == 0.0
    assert noise_of([1.0, 1.5] * 4) == pytest.approx(0.5)
    assert noise_of([1.0]) == 0.0


def test_a_difference_within_the_noise_is_none():
    quiet, busy = [1.0] * 8, [1.0, 2.0] * 4
    assert judged(2.0, 1.0, [[2.0] * 8, quiet]) == ("faster", 0.0)
    assert judged(1.0, 2.0, [quiet, [2.0] * 8]) == ("slower", 0.0)
    assert judged(1.5, 1.0, [busy, quiet])[0] == "same"
