"""A copy of the lab to run and to break, and the jobs that Snakemake would run in it."""

import json
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from forks import COMPILERS_PYTHON, JOBS_PYTHON, forks

from minilab.device import cpu_device
from minilab.records.store import content_sha256

TARGETS = ["results/17/loss.png", "results/24/roofline.png", "results/24/manifest.json", "results/24/README.md"]
SMALL = [*TARGETS, "--configfile", "tests/small.yaml"]
EVERY_RULE = ["--configfile", "tests/small.yaml", "tests/every_rule.yaml"]
PUBLISHED = ["--config", f"records={{stale: mark, publish: [{cpu_device()}]}}"]
DISPATCH_TABLE = "results/24/h200/dispatch_table.json"  # made from the tuning that the record holds
SOURCES_AGO, BUILT_AGO = 7200, 3600  # seconds: edits are newer than what was built, that newer than its sources
ROOT = Path(__file__).parents[2]
PARTS = [
    "Snakefile",
    "config.yaml",
    "rules",
    "report",
    "scripts",
    "schemas",
    "src",
    "profiles",
    "envs",
    "exercises",
    "docs",
    "results/recorded",
    "tests/small.yaml",
    "tests/every_rule.yaml",
]


@dataclass
class Lab:
    """A lab in a folder of its own."""

    root: Path

    def snakemake(
        self, *arguments: str, check: bool = True, timeout: float = 600, compiles: bool = False, cores: int = 2
    ) -> subprocess.CompletedProcess:
        """Run snakemake here, with this copy's own packages; stdout and stderr come back together.

        Args:
            arguments: of the command line.
            check: whether a run that fails is an error.
            timeout: in seconds.
            compiles: whether jobs start processes that compile; these are forked too.
            cores: that jobs may take together.
        """
        environment = {**os.environ, "PYTHONPATH": str(self.root / "src"), JOBS_PYTHON: forks("script").python()}
        if compiles:
            environment[COMPILERS_PYTHON] = forks("compiler").python()
        command = [*arguments, "--cores", str(cores)]
        done = forks("snakemake").run(command, self.root, environment, together=True, timeout=timeout)
        if check and done.returncode:
            raise AssertionError(f"snakemake {' '.join(command)} failed:\n{done.stdout}")
        return done

    def jobs(self, *arguments: str) -> set[str]:
        """The jobs of a dry run, each as its rule and its first output, e.g. `prove results/24/.../triton.json`."""
        text = self.snakemake(*arguments, "--dry-run").stdout
        found = re.findall(r"^(?:local)?rule (\w+):\n(?:    .*\n)*?    output: ([^,\n]+)", text, re.M)
        return {f"{rule} {output}" for rule, output in found}

    def pretend_built(self, *arguments: str) -> None:
        """Make every output of the targets exist and count as up to date, without running anything."""
        summary = self.snakemake(*arguments, "--summary").stdout
        for line in summary.splitlines():
            path = self.root / line.split("\t")[0]
            if "\t" in line and line.startswith("results/") and not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                made = {"provenance": {}}  # with a digest: jobs look at the artefacts that they are given
                made["provenance"]["content_sha256"] = content_sha256(made)
                path.write_text(json.dumps(made) if path.suffix == ".json" else "{}")
        self.snakemake(*arguments, "--touch", "--forceall")
        for file in (self.root / "results").rglob("*"):
            changed = file.stat().st_mtime - BUILT_AGO
            os.utime(file, (changed, changed))

    def copy(self, target: Path) -> "Lab":
        """A copy that a test may change; times of files are kept, so what was up to date still is."""
        shutil.copytree(self.root, target, symlinks=True)
        return type(self)(target)

    def edit(self, path: str, change=lambda text: text + "\n") -> None:
        """Change a file, now."""
        file = self.root / path
        file.write_text(change(file.read_text()))


def copy_lab(target: Path) -> Lab:
    """A fresh copy of the checkout, nothing built, every file of it two hours old."""
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, target / part, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        elif source.exists():
            (target / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / part)
    long_ago = time.time() - SOURCES_AGO
    for file in target.rglob("*"):
        os.utime(file, (long_ago, long_ago))
    return Lab(target)
