"""Two calls timed in turn: a difference is said only where it is more than the clock's noise."""

import pytest

from minicompile.paired import judged, paired


def samples(before: list[float], after: list[float], again: list[float]) -> dict:
    return {"calls": 1, "before_us": before, "after_us": after, "again_us": again}


@pytest.mark.parametrize(("after", "verdict"), [(8.0, "faster"), (12.0, "slower"), (10.4, None), (9.6, None)])
def test_a_difference_within_the_noise_is_none(after: float, verdict: str | None):
    noisy = samples([10.0] * 10, [after] * 10, [9.5, 10.5] * 5)  # the same code, half a microsecond apart
    assert judged(noisy)["verdict"] == verdict
    assert judged(noisy)["noise_us"] == 0.5


def test_a_clock_that_drifts_makes_no_difference():
    drifting = [10.0 + step for step in range(10)]
    found = judged(samples(drifting, [us + 0.1 for us in drifting], [us + 0.2 for us in drifting]))
    assert found["difference_us"] == pytest.approx(0.0, abs=1e-3)
    assert found["verdict"] is None


def test_the_sides_take_turns():
    called = []
    found = paired(lambda: called.append("before"), lambda: called.append("after"), rounds=2)
    assert [len(found[name]) for name in ("before_us", "after_us", "again_us")] == [2, 2, 2]
    turns = [name for place, name in enumerate(called) if place == 0 or called[place - 1] != name]
    assert turns[:6] == ["before", "after", "before", "after", "before", "after"]
