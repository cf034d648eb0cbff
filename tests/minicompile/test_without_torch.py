"""A watched compile is concluded from, explained and shown by an interpreter that has neither torch nor Triton."""

import os
import subprocess
import sys
import venv
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "results/recorded/h200/25"
LEFT_OUT = ("torch", "torchgen", "functorch", "triton", "nvidia", "cuda")  # what those two bring into site-packages


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with all that this one has but torch and Triton."""
    folder = tmp_path_factory.mktemp("without_torch")
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    installed = Path(str(distribution("numpy").locate_file("")))
    for path in installed.iterdir():
        if path.name.split("-")[0].split(".")[0] not in LEFT_OUT and path.suffix != ".pth":
            (packages / path.name).symlink_to(path)
    return folder / "bin/python"


def run(python: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-c", text, *arguments]
    around = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, capture_output=True, text=True, env=around, cwd=ROOT)


COMMAND = "import sys; from minicompile.command import main; sys.exit(main())"


def test_that_environment_has_neither(python: Path):
    for package in ("torch", "triton"):
        assert "ModuleNotFoundError" in run(python, f"import {package}").stderr
    assert sys.version.split()[0] == run(python, "import sys; print(sys.version)").stdout.split()[0]


@pytest.mark.parametrize("model", ["tiny_head", "minigpt_train"])
def test_a_watched_compile_is_annotated(python: Path, model: str):
    done = run(python, COMMAND, "annotate", str(RECORD / model / "watched.json.xz"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# `triton_")
    assert "Triton for NVIDIA H200" in done.stdout


def test_two_are_compared(python: Path):
    files = [str(RECORD / model / "watched.json.xz") for model in ("minigpt", "minigpt_swapped")]
    done = run(python, COMMAND, "diff", *files)
    assert done.returncode == 0, done.stderr
    assert "softmax" in done.stdout


def test_one_is_shown_line_by_line(python: Path, tmp_path: Path):
    page = tmp_path / "page.html"
    given = ("open", str(RECORD / "tiny_head/watched.json.xz"), "--page", str(page), "--no-browser")
    done = run(python, COMMAND, *given)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(page)
    assert "<html" in page.read_text()[:200]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ('value["format"] = 0', "was watched in format 0, and this version reads 1; watch the compile again."),
        ('value["format"] = 99', "was watched in format 99, and this version reads 1; install a newer version"),
        ('del value["dynamo"]', "is no whole watch of a compile: it has no 'dynamo'; watch it again."),
    ],
)
def test_one_of_another_format_or_with_a_part_gone_is_refused_in_a_sentence(python, tmp_path, changed, said):
    given = tmp_path / "watched.json"
    text = (
        "import json, lzma, sys; "
        f"value = json.loads(lzma.open({str(RECORD / 'tiny_head/watched.json.xz')!r}).read()); {changed}; "
        f"open({str(given)!r}, 'w').write(json.dumps(value))"
    )
    assert run(python, text).returncode == 0
    done = run(python, COMMAND, "annotate", str(given))
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_file_that_is_neither_is_refused_in_a_sentence(python: Path, tmp_path: Path):
    given = tmp_path / "other.json"
    given.write_text("{}")
    done = run(python, COMMAND, "open", str(given), "--no-browser")
    assert done.returncode == 1
    assert "is no capture" in done.stderr
