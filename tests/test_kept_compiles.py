"""The tests' C++ compiler (`compiler/g++`) compiles the same once, and never gives what was made of anything else."""

import os
import subprocess
from pathlib import Path

import pytest

COMPILER = Path(__file__).parent / "compiler/g++"
COUNTED = """#!/bin/sh
echo "$@" >> "$COUNT"
grep -q wrong "$1" && exit 3
while [ "$1" != -o ]; do cat "$1" 2>/dev/null; echo "$1"; shift; done > made.$$
mv made.$$ "$2"
"""


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A function `compiled(text, *options)`: the status, and how often the real compiler has been started by then."""
    (tmp_path / "real").write_text(COUNTED)
    (tmp_path / "real").chmod(0o755)
    (tmp_path / "kept").mkdir()
    for name, value in {"KEPT_CXX": "real", "KEPT_COMPILES": "kept", "COUNT": "count"}.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    number = iter(range(99))

    def run(text: str, *options: str) -> tuple[int, int]:
        name = f"{next(number)}"
        (tmp_path / f"{name}.cpp").write_text(text)
        done = subprocess.run([COMPILER, f"{name}.cpp", *options, "-o", f"{name}.so"], cwd=tmp_path, env=os.environ)
        assert done.returncode or text in (tmp_path / f"{name}.so").read_text()
        return done.returncode, len((tmp_path / "count").read_text().splitlines())

    return run


def test_the_same_is_compiled_once_wherever_it_lies(compiled):
    assert compiled("int one;") == compiled("int one;") == (0, 1)


def test_other_text_and_other_options_are_compiled(compiled):
    assert [compiled("int one;"), compiled("int two;"), compiled("int one;", "-O3")] == [(0, 1), (0, 2), (0, 3)]


def test_what_fails_fails_each_time(compiled):
    assert [compiled("wrong"), compiled("wrong")] == [(3, 1), (3, 2)]


@pytest.mark.parametrize(("text", "option"), [('#include "a.h"', "-O1"), ("int one;", "-MMD"), ("int one;", "-xc++")])
def test_what_reads_or_makes_other_files_is_not_kept(compiled, text, option):
    assert [compiled(text, option), compiled(text, option)] == [(0, 1), (0, 2)]
