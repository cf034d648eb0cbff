"""Labs to run and to break."""

from pathlib import Path

import pytest
from lab import SMALL, Lab, copy_lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A fresh copy of the lab, nothing built."""
    return copy_lab(tmp_path / "lab")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A lab whose main job and report were really built, on the small configuration. Not to be changed."""
    lab = copy_lab(tmp_path_factory.mktemp("built") / "lab")
    lab.snakemake(*SMALL)
    return lab


@pytest.fixture
def built_copy(built: Lab, tmp_path: Path) -> Lab:
    """A copy of the built lab that a test may change; times of files are kept."""
    return built.copy(tmp_path / "lab")
