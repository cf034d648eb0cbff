"""Steps, predictions, verdicts and advice follow from the marks."""

import pytest
from artefacts import ladder

from minikernel.exercise.diagnosis import next_steps
from minikernel.exercise.marks import is_faster, moved, predictions, steps, verdict
from minikernel.report.exercise_report import advice_in_words, report, told, why_in_words
from minikernel.report.exercise_report import ladder as page_of

ANSWERED = {"reads": 1, "writes": 1, "megabytes": 19.66, "share_of_copy": 0.95}
OPERATIONS = {"aten::exp": 1, "aten::sum": 1}
OWN = {"aten::_softmax": 1}


def done(marks: dict) -> dict[str, bool | None]:
    return {step.name: step.done for step in steps(marks)}


def wrong(case: str, cols: int = 600, code: str = "wrong", **more) -> dict:
    error = {"error": 0.5, "tolerance": 4.9e-5} if code == "wrong" else {}
    return {"case": case, "rows": 5, "cols": cols, "error": None, "reason": {"code": code, **error, **more}}


def right(case: str, cols: int = 600) -> dict:
    return {"case": case, "rows": 5, "cols": cols, "error": 1e-7, "reason": None}


def hints(*cases: dict, exercise: str = "textbook") -> list[str]:
    return [one["name"] for one in next_steps(ladder(exercise=exercise, cases=list(cases), predicted=ANSWERED))]


def first_hint(*cases: dict, exercise: str = "textbook", **more) -> str:
    advice = next_steps(ladder(exercise=exercise, cases=list(cases), predicted=ANSWERED, **more))[0]
    return advice.get("name", advice["code"])


def test_ones_own_softmax_has_four_steps_and_asks_for_no_prediction():
    assert done(ladder()) == {"ordinary": True, "every": True, "traffic": True, "speed": True}
    assert verdict(ladder()) == "done"


def test_what_was_counted_is_shown_to_who_has_predicted():
    asks = ladder(exercise="row")
    assert done(asks) == {"predicted": False, "ordinary": True, "every": True, "traffic": False, "speed": False}
    assert verdict(asks) == "unpredicted"
    assert all(one.found is None for one in predictions(asks))
    assert [advice["name"] for advice in next_steps(asks)] == ["predict"]
    said = why_in_words(steps(asks)[0], "row.py")
    assert said == "READS, WRITES, MEGABYTES, SHARE_OF_COPY in the file: no answer yet"
    assert verdict(ladder(exercise="row", predicted=ANSWERED)) == "done"


def test_a_prediction_holds_within_a_tenth_of_a_count_and_a_quarter_of_a_time():
    near = {"reads": 1.09, "writes": 0.5, "megabytes": 19.66, "share_of_copy": 0.8}
    held = {one.question: one.holds for one in predictions(ladder(exercise="row", predicted=near))}
    assert held == {"reads": True, "writes": False, "megabytes": True, "share_of_copy": True}
    untimed = predictions(ladder(exercise="row", predicted=near, timed=[]))[3]
    assert (untimed.found, untimed.holds) == (1.0, False)


def test_the_noise_decides_what_is_as_fast_and_what_is_faster():
    assert done(ladder(timed={"ratio_to_reference": 1.04, "noise_floor": 0.01}))["speed"] is True
    assert done(ladder(timed={"ratio_to_reference": 1.08, "noise_floor": 0.09}))["speed"] is True
    assert done(ladder(timed={"ratio_to_reference": 1.08, "noise_floor": 0.01}))["speed"] is False
    verdicts = {
        ratio: is_faster({"ratio_to_reference": ratio, "noise_floor": 0.01}) for ratio in (0.9, 0.96, 1.04, 1.1)
    }
    assert verdicts == {0.9: True, 0.96: None, 1.04: None, 1.1: False}


@pytest.mark.parametrize(
    ("ratio", "done_", "hint", "word"),
    [(0.5, True, "finished", "done"), (1.02, None, "within_noise", "done"), (1.5, False, "slow_blocks", "slow")],
)
def test_an_exercise_that_must_be_faster(ratio: float, done_: bool | None, hint: str, word: str):
    traffic = {"reads": 2.0, "launches": 0, "operations": OPERATIONS}
    marks = ladder(exercise="blocks", predicted=ANSWERED, traffic=traffic, timed={"ratio_to_reference": ratio})
    assert done(marks)["speed"] is done_
    assert next_steps(marks)[0].get("name", next_steps(marks)[0]["code"]) == hint
    assert (verdict(marks), verdict(marks, with_speed=False)) == (word, "done")


def test_what_moves_too_much_is_right_and_not_done():
    marks = ladder(exercise="row", predicted=ANSWERED, traffic={"reads": 2.0})
    assert (verdict(marks), done(marks)["traffic"], moved(marks)) == ("traffic", False, 1.5)
    assert [advice.get("name", advice["code"]) for advice in next_steps(marks)] == ["second_read", "passes"]
    tile = ladder(exercise="online", predicted=ANSWERED, traffic={"tile": 8192})
    assert (verdict(tile), next_steps(tile)[0]["name"]) == ("traffic", "tile")
    calls = {"launches": 0, "operations": {"aten::exp": 700}}
    small = ladder(exercise="blocks", predicted=ANSWERED, traffic=calls)
    assert (verdict(small), next_steps(small)[0]["name"]) == ("traffic", "small_blocks")


def test_torch_s_own_does_not_count():
    marks = ladder(traffic={"operations": OWN})
    assert (verdict(marks), moved(marks), done(marks)["speed"]) == ("borrowed", None, False)
    assert "race against" in advice_in_words(marks)[0]
    assert verdict(ladder(exercise="row", predicted=ANSWERED, traffic={"operations": OWN})) == "borrowed"


def test_an_interpreters_time_and_what_hung_are_told_in_the_report():
    interpreted = ladder(executed_by="triton-interpreter", timed=[])
    assert done(interpreted)["speed"] is None
    assert "run by Triton's interpreter." in report(interpreted, "cpu-x")
    why = why_in_words(steps(interpreted)[-1], "mine.py")
    assert why == "there is no GPU here, and the interpreter's time says nothing"
    hung = {"code": "timed_out", "seconds": 3, "knob": "proof.time_limit_seconds"}
    said = report(ladder(ended=hung, cases=[], traffic=[], timed=[]), "cpu-x")
    assert "**it did not end within 3 seconds, the limit of proof.time_limit_seconds" in said


def test_what_nobody_saw_move_is_not_judged_in_ones_own_and_not_done_elsewhere():
    unseen = {"reads": 0.0, "writes": 0.0, "launches": 0}
    assert done(ladder(traffic=unseen))["traffic"] is None
    assert verdict(ladder(traffic=unseen)) == "done"
    assert verdict(ladder(exercise="row", predicted=ANSWERED, traffic=unseen)) == "uncounted"


@pytest.mark.parametrize(
    ("code", "hint", "word"),
    [
        ("timed_out", "endless", "ended"), ("crashed", "crash", "ended"), ("memory", "memory", "ended"),
        ("processes", "processes", "ended"), ("exited", "exits", "ended"), ("meddled", "meddled", "ended"),
        ("not_importable", "not_loaded", "ended"), ("not_compiled", "not_compiled", "ended"),
        ("no_compiler", "no_compiler", "unjudged"),
    ],
)  # fmt: skip
def test_how_it_ended_has_its_hint(code: str, hint: str, word: str):
    marks = ladder(
        exercise="machine", cases=[], ended={"code": code, "seconds": 4, "knob": "k", "text": "x", "compiler": "g++"}
    )
    assert (next_steps(marks)[0]["name"], verdict(marks)) == (hint, word)


def test_what_was_wrong_before_a_crash_explains_it():
    outside = wrong("random", code="wrote_outside")
    crashed = {"code": "crashed", "signal": "SIGSEGV"}
    assert first_hint(outside, ended=crashed) == "store_mask"
    assert first_hint(outside, ended={"code": "timed_out"}) == "endless"


@pytest.mark.parametrize(
    ("hint", "cases"),
    [
        ("rank", [right("random"), wrong("rank 1"), wrong("rank 4")]),
        ("strides", [right("random"), wrong("transposed")]),
        ("width", [right("random"), wrong("random", 7), wrong("random", 1000)]),
        ("tile_too_small", [right("random", 7), right("random"), wrong("random", 50257)]),
        ("remainder", [right("random", 64), right("random"), wrong("random", 7), wrong("random", 50257)]),
        ("load_mask", [right("random", 1), right("random", 64), wrong("random", 7), wrong("random")]),
        ("remainder", [wrong("random", 7), wrong("random"), right("many rows", 8)]),
        ("maximum", [right("random"), wrong("spread"), wrong("far from zero"), wrong("rows apart")]),
        ("one_maximum", [right("random"), wrong("rows apart"), right("far from zero")]),
        ("in_place", [wrong("random", code="changed_input"), right("equal")]),
        ("kept", [right("random"), wrong("results kept", code="not_kept")]),
        ("base", [wrong("random", mistake="base"), wrong("random", 7, mistake="base"), wrong("equal", mistake="axis")]),
        ("not_a_number", [right("random"), wrong("NaN, inf and extremes")]),
        ("many_rows", [right("random"), wrong("many rows", 8)]),
        ("raises", [wrong("random", 7, "raised"), wrong("random", code="raised"), wrong("equal", code="raised")]),
        ("width", [right("random"), wrong("random", 7, "raised"), wrong("random", 64, "raised")]),
        ("no_rows", [right("random"), wrong("zero rows", code="raised")]),
    ],
)  # fmt: skip
def test_which_cases_are_wrong_says_why(hint: str, cases: list[dict]):
    assert first_hint(*cases) == hint


def test_no_hint_is_about_a_mistake_that_nothing_shows():
    of_values = [wrong(case) for case in ("spread", "far from zero", "rows apart", "masked", "NaN, inf and extremes")]
    assert hints(right("random"), *of_values) == ["maximum"]
    assert hints(right("random"), wrong("masked"), wrong("NaN, inf and extremes")) == ["minus_infinity"]
    assert hints(wrong("random", mistake="base"), wrong("masked", mistake="base")) == ["base"]


def test_what_a_step_allows_stands_beside_what_was_counted():
    marks = ladder(exercise="row", predicted=ANSWERED, traffic={"reads": 3.0})
    said = why_in_words(steps(marks)[3], "row.py")
    assert said == "at 4 x 600 reads of each element: 3 of at most 1.05, writes: 1 of at most 1.05"


def test_the_terminal_s_last_words_are_the_verdict_the_steps_and_what_to_try():
    said = told(ladder(exercise="textbook", predicted=ANSWERED, cases=[wrong("spread")]), "REPORT.md").splitlines()
    assert said[0] == "Exercise 1, the formula, safe: wrong on some rows"
    assert said[3] == "  3. right on every row, in every layout: no (0 of 1 cases are right)"
    assert said[-2].startswith("Next: ")
    assert said[-1] == "All of it: REPORT.md"


def test_one_that_was_not_marked_now_is_said_to_be_that():
    begun = ladder(exercise="textbook", cases=[], traffic=[], timed=[])
    assert verdict(begun) == "unmarked"
    assert "| `mine.py` | begun, not marked in this run | – |" in page_of([begun])


def test_small_errors_everywhere_are_of_low_precision():
    small = {"error": 3e-3}
    assert first_hint(wrong("random", 7, **small), wrong("random", **small), right("random", 1)) == "precision"


def test_a_loss_that_is_right_but_for_its_last_digits_far_from_zero():
    assert (
        first_hint(right("random"), wrong("far from zero", error=6e-5), exercise="cross_entropy") == "large_difference"
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "Put it among the lab's kernels"),
        ({"timed": {"ratio_to_reference": 3.0, "fraction_of_copy": 0.3}}, "Neighbouring threads"),
        ({"timed": {"ratio_to_reference": 1.3, "fraction_of_copy": 0.7}}, "num_warps"),
        ({"timed": {"ratio_to_reference": 1.1, "fraction_of_copy": 0.96}}, "last percents"),
        ({"timed": [], "executed_by": "triton-interpreter"}, "docs/cluster.md"),
        ({"timed": [], "untimed": {"code": "raised", "text": "no GPU"}}, "It was not timed"),
        ({"traffic": {"reads": 2.0}}, "67% of a copy"),
    ],
)
def test_the_advice_on_ones_own_follows_the_measurement(changes: dict, said: str):
    assert said in " ".join(advice_in_words(ladder(**changes)))


def test_long_rows_and_slow_launches_are_spoken_of_once_the_rest_is_done():
    marks = ladder()
    marks["traffic"][1]["reads"] = 2.0
    marks["timed"][0]["ratio_to_reference"] = 1.5
    advice = " ".join(advice_in_words(marks))
    assert "At 50,257 columns it reads each element 2 times" in advice
    assert "At 64 rows it takes 1.50 of F.softmax's time" in advice
