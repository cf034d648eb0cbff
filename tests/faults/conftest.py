"""A tiny lab to break, and how to run it in a broken world."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))

from lab import ROOT, Lab, copy_lab

TARGET = "results/24/equivalence.json"
TINY = [TARGET, "--configfile", "tests/faults/tiny.yaml"]
# What the same inputs give again, byte for byte; the others hold dates.
SAME = [
    "results/17/corpus.txt",
    "results/17/training.npz",
    "results/17/checkpoint.npz",
    "results/24/minigpt.safetensors",
]


class TinyLab(Lab):
    """A lab of its own, whose run may be put into another environment, or behind another command."""

    seconds: float  # that the undisturbed build took

    def run(
        self, *arguments: str, behind: tuple[str, ...] = (), environment: dict[str, str | None] | None = None
    ) -> subprocess.CompletedProcess:
        """Run snakemake, whatever becomes of it; `behind` goes before it, None in `environment` removes a variable."""
        changed = {**os.environ, "PYTHONPATH": str(self.root / "src"), **(environment or {})}
        return subprocess.run(
            [*behind, *self.command(*arguments)],
            cwd=self.root,
            env={name: value for name, value in changed.items() if value is not None},
            text=True,
            timeout=300,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "snakemake", *(arguments or TINY), "--cores", "2"]

    def contents(self) -> dict[str, bytes]:
        """The bytes of every deterministic result that is there."""
        return {name: (self.root / name).read_bytes() for name in SAME if (self.root / name).exists()}

    def leftovers(self) -> list[Path]:
        """Temporary files that somebody forgot."""
        return list((self.root / "results").rglob(".*.[0-9]*"))


def tiny_lab(root: Path) -> TinyLab:
    lab = TinyLab(copy_lab(root).root)
    (root / "tests/faults").mkdir(parents=True, exist_ok=True)
    shutil.copy2(ROOT / "tests/faults/tiny.yaml", root / "tests/faults")
    return lab


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> TinyLab:
    """The tiny lab, built on a good day. Not to be changed."""
    lab = tiny_lab(tmp_path_factory.mktemp("undisturbed") / "lab")
    began = time.monotonic()
    done = lab.run()
    lab.seconds = time.monotonic() - began
    assert done.returncode == 0, done.stdout
    assert sorted(lab.contents()) == sorted(SAME)
    return lab


@pytest.fixture
def tiny(undisturbed: TinyLab, tmp_path: Path) -> TinyLab:
    """A copy of the built lab to break."""
    shutil.copytree(undisturbed.root, tmp_path / "lab", copy_function=shutil.copy2)
    return TinyLab(tmp_path / "lab")


@pytest.fixture
def unbuilt(tmp_path: Path) -> TinyLab:
    """A tiny lab of which nothing is built."""
    return tiny_lab(tmp_path / "lab")


@pytest.fixture
def says(request: pytest.FixtureRequest) -> str:
    """The sentence that the test's fault declares."""
    (declared,) = request.function.faults
    return declared.says


needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("mount"),
    reason="mounts and network namespaces need root",
)


@contextmanager
def mounted(*arguments: str) -> Iterator[None]:
    """`mount` with these arguments, the last of them the folder, for the block."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", arguments[-1]], check=True)
