"""Tiny labs to break."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tiny import SAID, SAME, TinyLab, tiny_lab


@pytest.fixture(scope="session")
def undisturbed(once: Callable[[str, Callable[[Path], object]], Path]) -> TinyLab:
    """The tiny lab, built on a good day, once a session. Not to be changed."""

    def build(folder: Path) -> None:
        lab = tiny_lab(folder / "lab")
        done = lab.run()
        assert done.returncode == 0, done.stdout
        assert sorted(lab.contents()) == sorted(SAME)
        (lab.root / SAID).write_text(done.stdout)

    return TinyLab(once("undisturbed", build) / "lab")


@pytest.fixture
def tiny(undisturbed: TinyLab, tmp_path: Path) -> TinyLab:
    """A copy of the built lab to break."""
    return undisturbed.copy(tmp_path / "lab")


@pytest.fixture
def unbuilt(tmp_path: Path) -> TinyLab:
    """A tiny lab of which nothing is built."""
    return tiny_lab(tmp_path / "lab")
