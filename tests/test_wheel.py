"""The library as a wheel: built from this checkout, installed where nothing else of the lab is, and used there.

What it needs is taken from this environment, so that nothing is fetched, and Snakemake is as if it were not there.
"""

import os
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Callable
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import numpy
import pytest

ROOT = Path(__file__).parents[1]
ALONG = ("schemas", "exercises", "config.yaml", "results/recorded")
PARTS = ("src", *ALONG, "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
NO_SNAKEMAKE = "import sys; sys.modules['snakemake'] = None"

# Everything that can be imported, and what reads the files that came along.
USE = """
import importlib, pkgutil, sys
from pathlib import Path

packages = ("minilab", "minimodel", "minikernel", "minicompile")
found = [module.name for name in packages
         for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}.")]
for name in found:
    if not name.endswith(("__main__", "sitecustomize")):
        importlib.import_module(name)
assert len(found) > 400, len(found)
assert all(module.__file__.startswith(sys.prefix) for name, module in sys.modules.items() if name in found)

import torch
from minikernel import softmax
from minilab.config.check import read_schema

x = torch.randn(4, 600)
assert torch.equal(softmax(x, dim=-1), torch.softmax(x, -1))
assert read_schema("schemas/capture.schema.yaml")["type"] == "object"


@torch.compile(options={"cpp.vec_isa_ok": True, "cpp.simdlen": 256})
def doubled(x):
    return x * 2 + 1

print(doubled(torch.ones(3)).tolist())
"""
SPOIL = """
import json
from pathlib import Path

held = json.loads(Path("explored/capture.json").read_text())
Path("spoilt.json").write_text(json.dumps({**held, "graphs": [None]}))
print(Path("explored/explorer.html").read_text()[:100_000])
"""
FILL_IN = """
import re
from pathlib import Path

file = Path("exercises/01_textbook.py")
text = re.sub(r"^([A-Z_]+) = None", r"\\1 = 3", file.read_text(), flags=re.M)
body = "e = torch.exp(x - x.amax(-1, keepdim=True)); return e / e.sum(-1, keepdim=True)"
file.write_text(re.sub(r"raise NotImplementedError.*", body, text))
"""


def metadata_in(wheel: Path) -> Message:
    with ZipFile(wheel) as held:
        name = next(name for name in held.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(held.read(name).decode())


def asked_for(wheel: Path) -> list[str]:
    """What is installed with a wheel, extras aside."""
    return [one for one in metadata_in(wheel).get_all("Requires-Dist", []) if "extra ==" not in one]


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """A checkout's own files: setuptools leaves what it has built beside them, and would build from it again."""
    folder = tmp_path_factory.mktemp("checkout")
    left = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, ignore=left)
        else:
            shutil.copy(ROOT / part, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "--no-index"]
    subprocess.run([*pip, "-w", folder, source], check=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def run(wheel, tmp_path_factory) -> Callable[..., "subprocess.Popen[str]"]:
    """Starts a program of an environment that the wheel is installed in, in an empty folder outside of it."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, symlinks=True)
    site = next(home.glob("lib/python*/site-packages"))
    site.joinpath("beside.pth").write_text(f"{Path(numpy.__file__).parents[1]}\n{NO_SNAKEMAKE}\n")
    pip = [sys.executable, "-m", "pip", "--python", home / "bin/python", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--no-compile", "--ignore-installed", wheel], check=True)
    empty = tmp_path_factory.mktemp("empty")

    def started(program: str, *arguments: str) -> "subprocess.Popen[str]":
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment["PATH"] = f"{home / 'bin'}{os.pathsep}{environment['PATH']}"
        command = [str(home / "bin" / program), *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, cwd=empty, env=environment, text=True, **pipes)

    return started


def said(process: "subprocess.Popen[str]", status: int = 0) -> str:
    """What a program prints, once it has ended with this status."""
    out, err = process.communicate(timeout=600)
    assert process.returncode == status, err
    return out if status == 0 else err


def test_a_wheel_asks_for_the_library_and_an_installation_in_place_for_the_workflow_too(source, wheel, tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert len(asked_for(wheel)) == len(project["tool"]["minigpt-lab"]["dependencies"])
    assert not [one for one in asked_for(wheel) if "snakemake" in one]
    assert "workflow" in metadata_in(wheel).get_all("Provides-Extra")
    # as pip asks the backend; it has no shorter way to learn what an installation in place needs
    build = "import setup, sys; assert not hasattr(setup, 'prepare_metadata_for_build_editable'); "
    build = [sys.executable, "-c", f"{build}setup.build_editable(sys.argv[1])", tmp_path]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    in_place = asked_for(next(tmp_path.glob("*.whl")))
    assert len(in_place) == len(asked_for(wheel)) + len(project["project"]["optional-dependencies"]["workflow"])
    assert any(one.startswith("snakemake<") for one in in_place)


def test_every_file_of_the_packages_and_what_lies_beside_them_is_in_the_wheel(source, wheel):
    here = {str(path.relative_to(source / "src")) for path in (source / "src").rglob("*") if path.is_file()}
    along = [path for name in ALONG for path in (source / name, *(source / name).rglob("*")) if path.is_file()]
    here |= {f"minilab/lab/{path.relative_to(source)}" for path in along}
    with ZipFile(wheel) as held:
        there = {name for name in held.namelist() if ".dist-info/" not in name}
    assert there == {name for name in here if ".egg-info/" not in name}


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_what_is_installed_works_outside_of_any_checkout(run):
    assert said(run("minicompile", "--version")).startswith("minicompile 0.")
    said(run("python", "-c", f"import pathlib; pathlib.Path('mine.py').write_text({USE!r})"))
    explored = run("minicompile", "explore", "mine.py")
    shown = run("minicompile", "show", "lambda x: torch.softmax(x, -1)", "4x600", "--target", "simulated")
    assert "This is softmax over the last axis of 4x600" in said(shown)
    captured = run("minicompile", "capture", "minigpt", "--target", "simulated")
    assert said(captured).endswith("explored/minigpt/index.html\n")
    doctor = said(run("minicompile", "doctor"))
    assert "the library's packages: works\n" in doctor
    assert "the workflow (snakemake): does not work here. It runs in a clone of the lab" in doctor
    assert said(explored) == "[3.0, 3.0, 3.0]\n"
    assert said(run("minigpt", "Yesterday I")).startswith("Yesterday I ")
    assert said(run("python", "-m", "minilab.first_look")) == "results/first_look.html\n"
    assert "doubled" in said(run("python", "-c", SPOIL))
    assert "spoilt.json: graphs.0 cannot be None" in said(run("minicompile", "annotate", "spoilt.json"), 1)


def test_the_exercises_come_along_and_are_marked(run):
    assert said(run("python", "-m", "minikernel")) == "exercises/README.md says how to begin.\n"
    said(run("python", "-c", FILL_IN))
    told = said(run("python", "-m", "minikernel", "textbook"))
    assert "| 3. right on every row, in every layout | yes |" in told
    assert "| reads of each element | 3 | 5 | no |" in told
    assert "is not filled in yet" in said(run("python", "-m", "minikernel", "blocks"))
    assert "invalid choice: 'no_such'" in said(run("python", "-m", "minikernel", "no_such"), 2)
