"""Labs to run and to break."""

from collections.abc import Callable
from pathlib import Path

import pytest
from lab import SMALL, Lab, copy_lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A fresh copy of the lab, nothing built."""
    return copy_lab(tmp_path / "lab")


@pytest.fixture(scope="session")
def built(once: Callable[[str, Callable[[Path], object]], Path]) -> Lab:
    """A lab whose main job and report were really built, on the small configuration; its output is in built.txt.

    Not to be changed.
    """

    def build(folder: Path) -> None:
        lab = copy_lab(folder / "lab")
        said = lab.snakemake(*SMALL).stdout
        (lab.root / "built.txt").write_text(said)

    return Lab(once("built", build) / "lab")


@pytest.fixture
def built_copy(built: Lab, tmp_path: Path) -> Lab:
    """A copy of the built lab that a test may change; times of files are kept."""
    return built.copy(tmp_path / "lab")
