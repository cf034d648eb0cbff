"""What a job asks for: enough at first, twice as much at each retry."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minilab.config.resources import OVERHEAD, growing, minutes


@given(first=st.integers(1, 100_000), attempt=st.integers(1, 6))
def test_each_attempt_asks_for_twice_as_much_as_the_one_before(first: int, attempt: int):
    asked = growing(first)
    assert asked(None, 1) == first
    assert asked(None, attempt + 1) == 2 * asked(None, attempt)


def test_the_first_amount_may_depend_on_the_job():
    asked = growing(lambda wildcards: 3 if wildcards.kernel == "fused" else 10)
    assert [asked(SimpleNamespace(kernel=kernel), 2) for kernel in ("fused", "mine")] == [6, 20]


@pytest.mark.parametrize(("seconds", "whole"), [(0, 0), (1, 1), (60, 1), (61, 2), (390, 7)])
def test_a_time_limit_fits_into_the_minutes(seconds: float, whole: int):
    assert minutes(seconds) == whole + OVERHEAD
