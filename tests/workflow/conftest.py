"""Labs to run and to break."""

from collections.abc import Callable
from pathlib import Path

import pytest
from handed_in import TEXTBOOK, hand_in, shipped, softmax_that, solution
from lab import DISPATCH_TABLE, EVERY_RULE, PUBLISHED, SMALL, Lab, copy_lab

from minikernel.exercise.exercises import exercises
from minilab.device import cpu_device

# What is not part of `all`: rule -> its arguments; what the exercises have needs nothing but the main job.
MARKED = {"exercise": [], "exercise_roofline": [], "grade": ["--config", "class=class"]}
ASKED = {
    "diff_compiles": ["--config", f"before=tiny_head/{cpu_device()}", "after=tiny_head/simulated-h200"],
    "what_if": ["--config", "model=tiny_head", "knob=online_softmax"],
    "verify_records": [],
    "explain_drift": ["--config", "against=before.lock.json"],
    "record": PUBLISHED,
    "compare_records": PUBLISHED,
    "first_look": [],  # the record of this CPU, which is published by then, among the others
    "dispatch_table": [],
    "bench_users_kernel": ["--config", "kernels={mine: {source: exercises/softmax_mine.py, function: softmax}}"],
}
# Of those that are asked for by a file.
FILES = {
    "dispatch_table": DISPATCH_TABLE,
    "bench_users_kernel": f"results/24/{cpu_device()}/bench/mine.json",
    "exercise_roofline": "results/exercise/mine/roofline.png",
}


def small_class(folder: Path) -> None:
    """A class of four, to be timed: one who is right, one who is not, one who has not begun, and a link."""
    hand_in(folder / "ana", {TEXTBOOK: solution("textbook"), exercises()["blocks"].file: solution("blocks")})
    hand_in(folder / "bo", {TEXTBOOK: softmax_that("return torch.softmax(x, -1)")})
    hand_in(folder / "cy", shipped())
    (folder / "link").symlink_to("ana")


def built_from(
    begun: Callable[[Path], Lab], arguments: list[str], name: str, once: Callable[[str, Callable[[Path], object]], Path]
) -> Lab:
    """The lab that `begun` makes in a folder, with these targets built; what Snakemake said is in {name}.txt."""

    def build(folder: Path) -> None:
        lab = begun(folder / "lab")
        said = lab.snakemake(*arguments, compiles=arguments == EVERY_RULE).stdout
        (lab.root / f"{name}.txt").write_text(said)

    return Lab(once(name, build) / "lab")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A fresh copy of the lab, nothing built."""
    return copy_lab(tmp_path / "lab")


@pytest.fixture(scope="session")
def built(once: Callable[[str, Callable[[Path], object]], Path]) -> Lab:
    """A lab whose main job and report were really built, on the small configuration; its output is in built.txt.

    Not to be changed.
    """
    return built_from(copy_lab, SMALL, "built", once)


@pytest.fixture
def built_copy(built: Lab, tmp_path: Path) -> Lab:
    """A copy of the built lab that a test may change; times of files are kept."""
    return built.copy(tmp_path / "lab")


@pytest.fixture(scope="session")
def whole(built: Lab, once: Callable[[str, Callable[[Path], object]], Path]) -> Lab:
    """The lab with everything built that this machine can, by `EVERY_RULE`; its output is in whole.txt.

    Not to be changed.
    """
    return built_from(built.copy, EVERY_RULE, "whole", once)


@pytest.fixture
def whole_copy(whole: Lab, tmp_path: Path) -> Lab:
    """A copy of the whole lab that a test may change; times of files are kept."""
    return whole.copy(tmp_path / "lab")


def ask(lab: Lab, rules: dict[str, list[str]]) -> None:
    """Run rules by name; the output of each is in {rule}.txt."""
    for rule, arguments in rules.items():
        said = lab.snakemake(FILES.get(rule, rule), *EVERY_RULE, *arguments, check=rule != "compare_records").stdout
        (lab.root / f"{rule}.txt").write_text(said)


@pytest.fixture(scope="session")
def marked(built: Lab, once: Callable[[str, Callable[[Path], object]], Path]) -> Lab:
    """The built lab after its exercises and a class were marked, the output of each rule in {rule}.txt.

    Not to be changed.
    """

    def build(folder: Path) -> None:
        lab = built.copy(folder / "lab")
        small_class(lab.root / "class")
        ask(lab, MARKED)

    return Lab(once("marked", build) / "lab")


@pytest.fixture(scope="session")
def asked(whole: Lab, once: Callable[[str, Callable[[Path], object]], Path]) -> Lab:
    """The whole lab after what is run by name only; the output of each rule is in {rule}.txt. Not to be changed."""

    def build(folder: Path) -> None:
        lab = whole.copy(folder / "lab")
        (lab.root / "before.lock.json").write_text((lab.root / "results/lab.lock.json").read_text())
        ask(lab, ASKED)

    return Lab(once("asked", build) / "lab")
