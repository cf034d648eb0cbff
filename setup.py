"""What is installed from here, beside what pyproject.toml says.

A wheel is the library: it asks for what `src/` imports, and brings along what lies outside `src/` in a checkout. A
checkout that is installed in place (`pip install -e .`) is the lab: it asks for the workflow's packages too. pip learns
what a package asks for by building it, and only a build knows which of the two it is; so this file is the build's
backend as well: setuptools' own, but that it tells what an installation in place asks for by building it.
"""

import shutil
import sys
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_wheel,
)
from setuptools.command.build_py import build_py

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_wheel",
]

ROOT = Path(__file__).parent
ALONG = ("schemas", "exercises", "config.yaml", "results/recorded")  # of a checkout, at the same place in minilab/lab


class BuildAlong(build_py):
    """Builds the packages, and of a wheel what comes along."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            lab = Path(self.build_lib, "minilab/lab")
            lab.mkdir(exist_ok=True)
            for name in ALONG:
                if (ROOT / name).is_file():
                    shutil.copy(ROOT / name, lab)
                else:
                    left = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(ROOT / name, lab / name, ignore=left, dirs_exist_ok=True)


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    asked = list(project["tool"]["minigpt-lab"]["dependencies"])
    if "editable_wheel" in sys.argv:
        asked += project["project"]["optional-dependencies"]["workflow"]
    setup(install_requires=asked, cmdclass={"build_py": BuildAlong})
