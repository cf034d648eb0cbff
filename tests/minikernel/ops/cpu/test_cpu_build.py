"""A rung's library: built once, by the compiler that torch.compile asks, with what that compiler has, or refused."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from minikernel.ops.cpu import build
from minikernel.ops.cpu.build import HERE, MISSING, NATIVE, OPENMP, built, cache, source
from minikernel.ops.cpu.rungs import function
from minikernel.ops.ladder.table import LADDERS, kernels
from minikernel.proof.proof import TOLERANCE, numpy_error
from minilab import LabError
from minilab.device import cpp_compiler, has_cpp_compiler

needs_compiler = pytest.mark.skipif(not has_cpp_compiler(), reason="needs a C++ compiler")
LINES = 60


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Libraries and folders of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    remembered = (built, cache, build._version, build._temporary, function)
    for one in remembered:
        one.cache_clear()
    yield
    for one in remembered:
        one.cache_clear()


def compiler_that(refuses: str, folder: Path) -> Path:
    """A compiler that does not know an option, and is g++ otherwise."""
    path = folder / "picky"
    path.write_text(
        f'#!/bin/sh\ncase " $* " in *" {refuses} "*) echo "unknown option {refuses}" >&2; exit 1;; esac\n'
        f'exec {shutil.which("g++")} "$@"\n'
    )
    path.chmod(0o755)
    return path


def test_every_rung_is_a_short_file_with_its_idea_said_first():
    for name in LADDERS["C++"]:
        lines = (HERE / f"{name}.cpp").read_text().splitlines()
        assert len(lines) < LINES, name
        assert lines[0].startswith("// Softmax on a CPU, step ")
        assert '#include "' not in source(name)


def test_the_compiler_is_the_one_that_torch_compile_asks():
    torch_s = "from torch._inductor.cpp_builder import get_cpp_compiler; print(get_cpp_compiler())"
    done = subprocess.run([sys.executable, "-c", torch_s], capture_output=True, text=True)
    if not has_cpp_compiler():
        assert done.returncode != 0
    else:
        assert done.stdout.strip() == cpp_compiler()


@needs_compiler
def test_a_rung_is_built_once_and_anew_when_its_text_changes(monkeypatch: pytest.MonkeyPatch):
    assert built("loop").left_out == ()
    first = list(cache().iterdir())
    assert len(first) == 1
    built.cache_clear()
    monkeypatch.setattr(subprocess, "run", lambda *command, **options: pytest.fail("it was built again"))
    built("loop")
    monkeypatch.undo()
    built.cache_clear()
    text = source("loop")
    monkeypatch.setattr(build, "source", lambda name: text + "// another\n")
    built("loop")
    assert len(list(cache().iterdir())) == 2


@needs_compiler
@pytest.mark.parametrize("option", [NATIVE, OPENMP])
def test_what_the_compiler_does_not_know_is_left_out_and_said(option, monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("CXX", str(compiler_that(option, tmp_path)))
    with caplog.at_level("WARNING", logger="minilab"):
        assert built("streaming").left_out == (MISSING[option],)
    assert MISSING[option] in caplog.text
    x = torch.randn(7, 601)  # with the shortest vectors, or on one thread, it is as right
    assert numpy_error(kernels["streaming"](x), x) <= TOLERANCE["float32"]


def test_without_a_compiler_it_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(LabError, match=r"loop needs a C\+\+ compiler, and no-such-compiler is not here; install one"):
        built("loop")


@needs_compiler
def test_a_source_that_does_not_compile_is_named_with_the_compilers_words(monkeypatch, tmp_path):
    (tmp_path / "loop.cpp").write_text("int broken() { return undeclared; }\n")
    monkeypatch.setattr(build, "HERE", tmp_path)
    with pytest.raises(LabError, match=r"(?s)loop\.cpp does not compile with .*undeclared"):
        built("loop")
    assert list(cache().iterdir()) == []


@needs_compiler
@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_home_that_cannot_be_written_is_no_obstacle(monkeypatch, tmp_path):
    (tmp_path / "cache").mkdir(mode=0o500)
    built("loop")
    assert not cache().is_relative_to(tmp_path)


@needs_compiler
def test_a_cache_that_cannot_be_made_is_no_obstacle(monkeypatch, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder would be")
    built("loop")
    assert not cache().is_relative_to(tmp_path)
