"""A tiny lab to break, and how to run it in a broken world."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from forks import JOBS_PYTHON, forks
from lab import ROOT, Lab, copy_lab

RUN_SECONDS = 800  # a run that takes longer hangs, on any machine
TARGET = "results/24/equivalence.json"
TINY = [TARGET, "--configfile", "tests/faults/tiny.yaml"]
SAID = "said.txt"  # in the undisturbed lab: the output of its build
# What the same inputs give again, byte for byte; the others hold dates.
SAME = [
    "results/17/corpus.txt",
    "results/17/training.npz",
    "results/17/checkpoint.npz",
    "results/24/minigpt.safetensors",
]


class TinyLab(Lab):
    """A lab of its own, whose run may be put into another environment, or behind another command."""

    def run(
        self, *arguments: str, behind: tuple[str, ...] = (), environment: dict[str, str | None] | None = None
    ) -> subprocess.CompletedProcess:
        """Run snakemake, whatever becomes of it; `behind` goes before it, None in `environment` removes a variable."""
        changed = {**os.environ, "PYTHONPATH": str(self.root / "src"), **(environment or {})}
        variables = {name: value for name, value in changed.items() if value is not None}
        if not behind:
            asked = [*(arguments or TINY), "--cores", "2"]
            variables[JOBS_PYTHON] = forks("script").python()
            return forks("snakemake").run(asked, self.root, variables, together=True, timeout=RUN_SECONDS)
        return subprocess.run(
            [*behind, *self.command(*arguments)],
            cwd=self.root,
            env=variables,
            text=True,
            timeout=RUN_SECONDS,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def command(self, *arguments: str) -> list[str]:
        """The command line of a snakemake that is a process of its own."""
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
