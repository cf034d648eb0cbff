"""What is said of the port's training follows from its clocks, every compile counted."""

import copy

import pytest
from stage_25_artefacts import training

from minicompile.report.training_report import interpretation, paid_back, pauses, training_findings


def clocks(step_seconds: float, begin: float, later: float = 0.0, steps: int = 60) -> list[float]:
    """A clock read each ten steps, with a compile before the first step and another in the thirtieth stretch."""
    seconds = [begin + step_seconds]
    for stretch in range(1, steps):
        seconds.append(seconds[-1] + 10 * step_seconds + (later if stretch == 30 else 0.0))
    return seconds


def two_compiles(compiled_step: float = 0.005) -> dict:
    """A training of 591 steps of 1,000 tokens: eager 10 ms a step, compiled less, with compiles of 18 and 25 s."""
    made = training()
    made["steps"] = [1, *(1 + 10 * stretch for stretch in range(1, 60))]
    made["tokens"] = [1000 * step for step in made["steps"]]
    for name, step, begin, later in (("eager", 0.01, 0.0, 0.0), ("compiled", compiled_step, 18.0, 25.0)):
        seconds = clocks(step, begin, later)
        made[name].update(seconds=seconds, first_step_seconds=seconds[0], tokens_per_second=1000 / step)
    return made


def speed_of(made: dict) -> str:
    return " ".join(interpretation(made)[2:3])


def test_every_compile_is_counted_in_what_is_paid_back():
    made = two_compiles()
    # 43 s of compiles, at 5 ms saved on each step of 1,000 tokens
    assert paid_back(made) == pytest.approx(43.0 / 0.005 * 1000)
    told = speed_of(made)
    assert "paid back after 8.6 million tokens, more than this run's 0.591 million" in told
    assert "its first step comes 18.0 s later, and a later compile takes 25.0 s (between steps 292 and 301)" in told


def test_the_text_and_the_picture_agree():
    made = two_compiles()
    tokens = paid_back(made)
    eager, compiled = (
        made[name]["seconds"][-1] + (tokens - made["tokens"][-1]) / made[name]["tokens_per_second"]
        for name in ("eager", "compiled")
    )
    assert eager == pytest.approx(compiled)  # where the picture's lines meet, both going on as they do


def test_what_is_paid_back_within_the_run_is_where_the_clocks_cross_for_good():
    made = two_compiles(compiled_step=0.001)
    for place in range(60):
        made["compiled"]["seconds"][place] -= 17.5 + (22.0 if place >= 30 else 0.0)  # 0.5 and 3 s of compiles
    tokens = paid_back(made)  # and not 0.5 s / 9 ms, before the second compile
    assert tokens == pytest.approx(3.5 / 0.009 * 1000, rel=0.01)
    assert "within this run" in speed_of(made)


def test_a_run_without_a_later_compile_has_no_pause():
    made = two_compiles()
    made["compiled"]["seconds"] = clocks(0.005, 18.0)
    assert pauses(made) == []
    assert "later compile" not in speed_of(made)


@pytest.mark.parametrize(("step", "said"), [(0.02, "**slower** than eager"), (0.005, "2.00 times as fast")])
def test_the_speed_s_sentence_follows_the_rates(step: float, said: str):
    told = speed_of(two_compiles(step))
    assert said in told
    assert ("buys nothing" in told) == (step == 0.02)


def test_a_gap_within_the_noise_is_no_verdict():
    made = two_compiles(0.0098)
    assert training_findings(made)[2]["code"] == "faster"
    noisy = copy.deepcopy(made)
    for place in range(2, 60, 2):  # every other stretch of eager's takes half as long again, at the next one's expense
        noisy["eager"]["seconds"][place] += 0.02
    assert training_findings(noisy)[2]["code"] == "as_fast"
    assert "No difference between compiled and eager in speed can be told" in speed_of(noisy)
