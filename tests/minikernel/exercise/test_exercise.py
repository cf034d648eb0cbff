"""The exercise marks what a learner hands in: right where, in how many passes, how fast, and what to try next."""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch
from artefacts import ladder

from minikernel.exercise.exercise import NAME, mark, mark_traffic
from minikernel.exercise.marks import moved_bytes_ratio, step_of_case, steps
from minikernel.judge.proof import KINDS
from minikernel.proof.proof import adversarial_cases
from minikernel.report.exercise_plot import draw_exercise, panel_of
from minikernel.report.exercise_report import advice_in_words, report, why_in_words, words
from minilab.files import read_json

HERE = Path(__file__).parents[1]
ROOT = HERE.parents[1]
BENCH = {"shapes": [[64, 600], [256, 600]], "dtype": "float32", "launches": 10, "warmup": 3, "seed": 42}
LIMITS = {"proof": 120, "bench": 120}


@cache
def marked(function: str, proof_seconds: float = 120) -> dict:
    limits = {**LIMITS, "proof": proof_seconds}
    return mark(str(HERE / "exercise_solutions.py"), function, "cpu", limits, BENCH)


def done(marks: dict) -> list[bool | None]:
    return [step.done for step in steps(marks)]


def test_every_case_of_the_proof_has_its_step_and_a_hint():
    cases, text = {*(case.name for case in adversarial_cases()), *KINDS} - {"as timed"}, words("en")
    assert cases == set(step_of_case()) == set(text.under("case")) == set(text.under("hint"))
    assert set(step_of_case().values()) == {1, 2}


def test_the_empty_one_says_so_and_where_to_begin():
    marks = marked("unfilled")
    assert done(marks) == [False] * 4
    assert "exercise_solutions.py` is not filled in yet" in report(marks, "cpu-x", "roofline.png")
    assert "exercises/README.md" in advice_in_words(marks)[0]


def test_the_file_that_the_lab_ships_is_the_empty_one():
    marks = mark(str(ROOT / "exercises/softmax_mine.py"), "softmax", "cpu", LIMITS, BENCH)
    assert marks["unfilled"]
    assert "exercises/softmax_mine.py` is not filled in yet" in report(marks, "cpu-x", "roofline.png")


def test_a_right_one_of_torch_s_operations_is_timed_and_told_of_its_passes():
    marks = marked("stable")
    assert done(marks)[:3] == [True, True, False]
    assert [row["rows"] for row in marks["timed"]] == [64, 256]
    assert moved_bytes_ratio(marks) == pytest.approx(4, rel=0.01)
    assert "Each of PyTorch's 5 operations" in advice_in_words(marks)[0]


def test_a_right_triton_kernel_in_one_pass_is_interpreted_and_not_timed():
    marks = marked("in_one_read")
    assert done(marks) == [True, True, True, None]
    assert "run by Triton's interpreter." in report(marks, "cpu-x", "roofline.png")
    why = why_in_words(steps(marks)[3], marks["source"])
    assert why == "there is no GPU here, and the interpreter's time says nothing"
    assert (marks["timed"], moved_bytes_ratio(marks)) == ([], 1)


def test_a_second_read_is_counted():
    counted, _ = mark_traffic({"source": str(HERE / "exercise_solutions.py"), "function": "in_two_reads"}, 120)
    assert [(row["reads"], row["writes"], row["launches"]) for row in counted] == [(2, 1, 1)] * 2
    marks = {**ladder(), "traffic": counted}
    assert done(marks)[2] is False
    assert "67% of a copy" in advice_in_words(marks)[0]


def test_a_wrong_one_is_told_on_which_cases_and_what_to_look_at():
    marks = marked("unstable")
    assert done(marks) == [True, False, False, False]
    assert advice_in_words(marks)[0].startswith("`spread`: exp overflows")
    text = report(marks, "cpu-x", "roofline.png")
    assert re.search(r"^\| random \|(?=(.* \d\.\de[-+]\d\d \|){5}$)( –| \d\.\de[-+]\d\d| \|)+$", text, re.M)
    assert re.search(r"^\| far from zero \|(?=(.* wrong \|){5}$)( –| wrong| \|)+$", text, re.M)
    assert re.search(r"^- \*\*spread\*\*: kernel mine on cpu, case 'spread' of shape .* has a NaN", text, re.M)


def test_torch_s_own_softmax_does_not_count():
    marks = ladder(traffic={"operations": ["aten::_softmax"]})
    assert done(marks) == [True, True, False, False]
    assert "race against" in advice_in_words(marks)[0]
    assert moved_bytes_ratio(marks) is None


def test_one_that_hangs_is_ended_and_the_report_says_where():
    marks = marked("hangs", proof_seconds=4)
    assert done(marks) == [False] * 4
    text = report(marks, "cpu-x", "roofline.png")
    assert re.search(r"^\*\*kernel mine.*: it did not end within 4 seconds, the limit of proof", text, re.M)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "Put it among the lab's kernels"),
        ({"timed": {"ratio_to_reference": 3.0, "fraction_of_copy": 0.3}}, "Neighbouring threads"),
        ({"timed": {"ratio_to_reference": 1.3, "fraction_of_copy": 0.7}}, "num_warps"),
        ({"timed": {"ratio_to_reference": 1.04, "fraction_of_copy": 0.96}}, "last percents"),
        ({"timed": [], "executed_by": "triton-interpreter"}, "docs/cluster.md"),
        ({"timed": [], "untimed": {"code": "raised", "text": "no GPU"}}, "It was not timed"),
        ({"traffic": {"reads": 2.0}}, "keep it"),
    ],
)
def test_the_advice_follows_the_measurement(changes: dict, said: str):
    assert said in " ".join(advice_in_words(ladder(**changes)))


def test_long_rows_and_slow_launches_are_spoken_of_once_the_rest_is_done():
    marks = ladder()
    marks["traffic"][1]["reads"] = 2.0
    marks["timed"][0]["ratio_to_reference"] = 1.5
    advice = " ".join(advice_in_words(marks))
    assert "At 50,257 columns it reads each element 2 times" in advice
    assert "At 64 rows it takes 1.50 of F.softmax's time" in advice


def test_the_noise_floor_decides_what_is_as_fast():
    just = ladder(timed={"ratio_to_reference": 1.02, "noise_floor": 0.03})
    assert done(just)[3] is True
    assert done(ladder(timed={"ratio_to_reference": 1.04, "noise_floor": 0.03}))[3] is False


def test_the_picture_has_the_learner_s_dot_and_what_the_record_s_roof_allows(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr("matplotlib.axes.Axes.annotate", _listening(said))
    row = marked("stable")["timed"][-1]
    ceilings = read_json(ROOT / "results/recorded/h200/24/ceilings.json")
    here = panel_of(row, ceilings, "cpu-x", "a processor", "2026-11-21")
    draw_exercise([here, {**here, "restored": True}], NAME, 4.0, tmp_path / "roofline.png")
    assert (tmp_path / "roofline.png").stat().st_size > 10_000
    assert sum(text.startswith("mine  ") for text in said) == 2
    assert [text for text in said if "at most" in text] == ["mine, at most: 4 x the bytes needed"]
    ratio = {point["kernel"]: point["median_us"] for point in here["points"]}
    assert ratio["mine"] / ratio["F.softmax"] == pytest.approx(row["ratio_to_reference"])


def _listening(said: list[str]):
    from matplotlib.axes import Axes

    annotate = Axes.annotate

    def listening(self, text, *more, **named):
        said.append(text)
        return annotate(self, text, *more, **named)

    return listening


FRAMES = re.findall(r"^```python\n(.*?)^```", (ROOT / "exercises/README.md").read_text(), re.S | re.M)


CHECK = """
import torch
from frame import softmax
x = torch.randn(2, 3, 600, device={device!r})
assert torch.equal(softmax(x), 2 * x)
assert softmax(x[:0]).shape == (0, 3, 600)
"""


def run_frame(number: int, device: str, folder: Path, **variables: str) -> None:
    (folder / "frame.py").write_text(FRAMES[number])
    command = [sys.executable, "-c", CHECK.format(device=device)]
    ran = subprocess.run(command, cwd=folder, env=os.environ | variables, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_there_are_three_frames():
    assert len(FRAMES) == 3


@pytest.mark.parametrize("number", [0, 1])
def test_the_frames_in_pytorch_and_triton_double_their_input(number: int, tmp_path: Path):
    run_frame(number, "cpu", tmp_path, TRITON_INTERPRET="1")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("number", [1, 2])
def test_the_frames_in_triton_and_cuda_double_their_input_on_a_gpu(number: int, tmp_path: Path):
    run_frame(number, "cuda", tmp_path)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_a_triton_kernel_is_timed():
    marks = mark(str(HERE / "exercise_solutions.py"), "in_one_read", "cuda:0", LIMITS, BENCH)
    assert done(marks)[:3] == [True, True, True]
    assert [row["rows"] for row in marks["timed"]] == [64, 256]


def test_every_file_that_the_marking_names_exists():
    texts = list(ROOT.glob("src/minikernel/report/locale/*/exercise.yaml"))
    named = {path for text in texts for path in re.findall(r"\b(?:docs|src|exercises)/[\w/]+\.\w+", text.read_text())}
    assert named
    assert {path for path in named if not (ROOT / path).exists()} == set()
