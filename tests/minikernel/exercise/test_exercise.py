"""An exercise is marked from outside: right where, what it moves, how fast; and its report says so."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from artefacts import bench_row
from handed_in import SHIPPED, softmax_that, solution

from minikernel.exercise.answers import answers_in
from minikernel.exercise.exercise import NAME, Setting, add_times, mark
from minikernel.exercise.exercises import exercises
from minikernel.exercise.marks import moved, nothing_yet, steps, verdict
from minikernel.judge.client import Workshop
from minikernel.report.exercise_plot import draw_exercise, panel_of
from minikernel.report.exercise_report import advice_in_words, ladder, report, why_in_words
from minilab.files import read_json
from minilab.sandbox.landlock import version

ROOT = Path(__file__).parents[3]
BENCH = {"shapes": [[64, 600], [256, 600]], "dtype": "float32", "launches": 10, "warmup": 3, "seed": 42}
LIMITS = {"proof": 120, "bench": 120}
MINE, TEXTBOOK = exercises()["mine"], exercises()["textbook"]


@pytest.fixture
def marked(place: Workshop, tmp_path: Path):
    """A function that marks a text as a solution of an exercise."""

    def marked(text: str, exercise=MINE, device: str = "cpu", **limits: float) -> dict:
        (tmp_path / "solution.py").write_text(text)
        setting = Setting(place, device, {**LIMITS, **limits}, "proof.time_limit_seconds", BENCH)
        marks = mark(exercise, str(tmp_path / "solution.py"), setting)
        add_times(marks, str(tmp_path / "solution.py"), setting)
        return marks

    return marked


def done(marks: dict) -> list[bool | None]:
    return [step.done for step in steps(marks)]


@pytest.mark.parametrize("name", exercises())
def test_the_file_that_the_lab_ships_is_empty_and_says_where_to_begin(name: str, place: Workshop):
    exercise = exercises()[name]
    marks = mark(exercise, str(SHIPPED / exercise.file), Setting(place, "cpu", LIMITS, "knob", BENCH))
    assert (marks["unfilled"], verdict(marks)) == (True, "unfilled")
    assert not any(done(marks))
    assert f"{exercise.file}` is not filled in yet" in report(marks, "cpu-x")
    assert "the questions at the top of the file" in advice_in_words(marks)[0]


def test_one_that_raises_not_implemented_further_down_is_empty_too(marked):
    assert marked(softmax_that("if True: raise NotImplementedError('not yet')"), TEXTBOOK)["unfilled"]


def test_a_right_one_of_torch_s_operations_is_timed_and_told_of_its_passes(marked):
    marks = marked(solution("textbook"))
    assert done(marks)[:3] == [True, True, False]
    assert marks["untimed"] is None
    assert [row["rows"] for row in marks["timed"]] == [64, 256]
    assert moved(marks) == pytest.approx(4, rel=0.01)
    assert "Each of PyTorch's 5 operations" in advice_in_words(marks)[0]
    assert "| amax | 1 | 1 | 0.00167 |\n| div.Tensor | 1 | 1 | 1 |\n| exp | 1 | 1 | 1 |" in report(marks, "cpu-x")


def test_an_exercise_is_timed_against_the_rung_before_it(marked):
    blocks = exercises()["blocks"]
    marks = marked(solution("blocks"), blocks)
    assert marks["untimed"] is None
    [row] = marks["timed"]
    assert ([row["rows"], row["cols"]], row["launches"]) == (blocks.timed, 9)
    assert row["fraction_of_copy"] == pytest.approx(row["copy_us"] / row["median_us"])
    assert "of the time of textbook at 8,192 x 600" in why_in_words(steps(marks)[-1], "blocks.py")


def test_a_wrong_one_is_told_on_which_cases_and_what_to_look_at(marked):
    marks = marked(solution("textbook").replace("(x - x.amax(-1, keepdim=True))", "x"))
    assert done(marks) == [True, False, False, False]
    [advice] = advice_in_words(marks)
    assert advice.startswith("exp overflows")
    text = report(marks, "cpu-x")
    assert re.search(r"^\| random \| 1, 7, 64, 600, 1,000, 2,500, 50,257 \| \d\.\de-\d\d \|  \|$", text, re.M)
    assert re.search(r"^\| far from zero \|  \| – \| \*\*600\*\* \|$", text, re.M)
    assert re.search(r"^- \*\*spread\*\*: kernel mine on cpu, case 'spread' of shape .*: it is NaN at row", text, re.M)
    begun = SHIPPED / TEXTBOOK.file
    page = ladder([marks, nothing_yet(TEXTBOOK, str(begun), answers_in(begun))])
    assert "| wrong on some rows | [report](mine/REPORT.md) |" in page
    assert "| not begun | – |" in page


@pytest.mark.skipif(not version(), reason="this kernel has no Landlock")
def test_one_can_write_in_its_own_folder_alone(marked, tmp_path: Path):
    writes = softmax_that(f"pathlib.Path({str(tmp_path / 'mine')!r}).write_text('')", "pathlib")
    assert "PermissionError" in marked(writes, TEXTBOOK)["cases"][0]["reason"]["text"]
    assert not (tmp_path / "mine").exists()
    in_its_own = softmax_that("tempfile.NamedTemporaryFile().write(b'mine')", "tempfile")
    assert verdict(marked(in_its_own, TEXTBOOK)) == "done"


def test_the_picture_has_the_learner_s_dot_and_what_the_record_s_roof_allows(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr("matplotlib.axes.Axes.annotate", _listening(said))
    row = bench_row("mine", 4096, 1500.0, launches=100)
    ceilings = read_json(ROOT / "results/recorded/h200/24/ceilings.json")
    here = panel_of(row, ceilings, "cpu-x", {"cpu": "a processor", "gpu": None}, "2026-11-21")
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
def test_on_a_gpu_a_triton_kernel_is_timed(marked):
    marks = marked(solution("row"), device="cuda:0")
    assert done(marks)[:3] == [True, True, True]
    assert [row["rows"] for row in marks["timed"]] == [64, 256]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ["row", "online", "layer_norm", "cross_entropy"])
def test_on_a_gpu_the_solutions_in_triton_are_right(marked, name: str):
    marks = marked(solution(name), exercises()[name], "cuda:0")
    assert verdict(marks, with_speed=False) == "done"


def test_every_file_that_the_marking_names_exists():
    texts = list(ROOT.glob("src/minikernel/report/locale/*/exercise.yaml"))
    named = {path for text in texts for path in re.findall(r"\b(?:docs|src|exercises)/[\w/]+\.\w+", text.read_text())}
    assert named
    assert {path for path in named if not (ROOT / path).exists()} == set()
