"""Every exercise is solved by its solution, and each wrong one gets the hint that its mistake needs."""

import runpy
from pathlib import Path

import pytest
import torch
from handed_in import SOLUTIONS, edited, wrong_ones

from minikernel.exercise.diagnosis import next_steps
from minikernel.exercise.exercise import Setting, mark
from minikernel.exercise.exercises import exercises, graded
from minikernel.exercise.marks import INTERPRETER, predictions, verdict
from minikernel.judge.client import Workshop
from minikernel.report.exercise_report import words
from minilab.device import has_cpp_compiler
from minilab.pages.translations import LANGUAGES

HANGS = 0.5  # seconds until what hangs is ended, which keeps a core busy until then


def marked(name: str, file: Path, place: Workshop, seconds: float = 120) -> dict:
    setting = Setting(place, "cpu", {"proof": seconds, "bench": seconds}, "knob", {})
    return mark(exercises()[name], str(file), setting)


def skip_what_cannot_run(name: str) -> None:
    if exercises()[name].means == "triton":
        pytest.importorskip("triton")
    if exercises()[name].means == "cpp" and not has_cpp_compiler():
        pytest.skip("no C++ compiler")


@pytest.mark.parametrize("name", [name for name in graded() if exercises()[name].means == "triton"])
def test_a_solution_s_result_is_where_its_input_is(name: str, monkeypatch: pytest.MonkeyPatch):
    jit = pytest.importorskip("triton.runtime.jit")
    monkeypatch.setattr(jit.JITFunction, "run", lambda *arguments, **named: None)
    exercise = exercises()[name]
    solved = runpy.run_path(str(SOLUTIONS / exercise.file))[exercise.operation]
    x = torch.empty(3, 5, device="meta")
    more = {"layer_norm": [x[0], x[0]], "cross_entropy": [x[:, 0].long()]}
    assert solved(x, *more.get(exercise.operation, [])).device == x.device


@pytest.mark.parametrize("name", graded())
def test_the_solution_is_done_and_its_prediction_holds(name: str, place: Workshop):
    skip_what_cannot_run(name)
    marks = marked(name, SOLUTIONS / exercises()[name].file, place)
    assert verdict(marks) == "done", next_steps(marks)
    assert [one.holds for one in predictions(marks)] == [True] * 4
    assert (marks["executed_by"] == INTERPRETER) == (exercises()[name].means == "triton")


@pytest.mark.parametrize("half", [0, 1], ids=["every other one", "those between"])
@pytest.mark.parametrize("name", graded())
def test_wrong_ones_get_their_hints(name: str, half: int, place: Workshop, tmp_path: Path):
    skip_what_cannot_run(name)
    got, tried = [], wrong_ones()[name][half::2]
    for number, wrong in enumerate(tried):
        file = tmp_path / f"wrong_{number}.py"
        file.write_text(edited(name, wrong["edits"]))
        marks = marked(name, file, place, HANGS if wrong["hint"] == "endless" else 120)
        first = next_steps(marks)[0]
        assert verdict(marks) not in ("done", "unfilled")
        got.append(first.get("name", first["code"]))
        for language in LANGUAGES:
            assert words(language)(f"hint.{got[-1]}")
    assert got == [wrong["hint"] for wrong in tried]
