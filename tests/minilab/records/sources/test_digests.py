"""Digests follow what runs, not how it is written."""

import ast
import sys
from functools import partial
from pathlib import Path

import pytest

from minilab.files import write_json
from minilab.records.sources.digests import _python, digest_of_code, digest_of_content

PYTHON = '"""A module."""\nLIMIT = 3\n\n\ndef f(x: int) -> int:\n    """Says."""\n    return x + LIMIT\n'
CUDA = (
    '#define WIDTH 4  // columns\n#include "common.cuh"\n/* sums\n   rows */\n__global__ void f(float *x) {\n'
    '    x[0] += WIDTH << 2; // twice\n    printf("// %d\\n", 1\'000);\n}\n'
)
YAML = "# prices\nexp: 1  # one\nlog: [1, 2]\n"
SAME = [
    (".py", PYTHON, PYTHON.replace("A module.", "Another word for it.").replace('    """Says."""\n', "")),
    (".py", PYTHON, "# a comment\n" + PYTHON.replace("return x + LIMIT", "return (\n        x + LIMIT  # why\n    )")),
    (".py", 'def f():\n    """Only says."""\n', "def f():\n    pass\n"),
    (".cu", CUDA, CUDA.replace("// columns", "").replace("/* sums\n   rows */", "// other").replace("    ", "\t")),
    (".cuh", "int a;\n", "int\na ;\n"),
    (".yaml", YAML, "log:\n- 1\n- 2\nexp: 1\n"),
    (".json", '{"a": 1}', '{\n "a": 1\n}\n'),
]
OTHER = [
    (".py", PYTHON, PYTHON.replace("3", "4")),
    (".py", PYTHON, PYTHON.replace("x + LIMIT", "x - LIMIT")),
    (".py", "x = 'a'\n", "x = b'a'\n"),
    (".py", "x = 1\n", "x = True\n"),
    (".py", "x = 1\n", "x = 1.0\n"),
    (".py", "x = None\n", "x = ...\n"),
    (".py", "if a:\n    f()\n    g()\n", "if a:\n    f()\ng()\n"),
    (".py", "f(a, b)\n", "f(b, a)\n"),
    (".py", "f'{x:.1f}'\n", "f'{x:.2f}'\n"),
    (".py", "def f(*, a=1): return a\n", "def f(a=1): return a\n"),
    (".cu", CUDA, CUDA.replace("WIDTH 4", "WIDTH 5")),
    (".cu", CUDA, CUDA.replace("// %d", "/ %d")),
    (".cu", "#define A\nB c;\n", "#define A B c;\n"),
    (".cu", "a = b + +c;\n", "a = b ++c;\n"),
    (".cu", "x = 1e-5f;\n", "x = 1e-6f;\n"),
    (".yaml", YAML, YAML.replace("exp: 1", "exp: 2")),
    (".txt", "a", "b"),
]


def digests(folder: Path, ending: str, *texts: str) -> list[str]:
    found = []
    for number, text in enumerate(texts):
        path = folder / f"{number}{ending}"
        path.write_text(text)
        found.append(digest_of_code(path))
    return found


@pytest.mark.parametrize(("ending", "one", "other"), SAME)
def test_comments_docstrings_and_layout_change_no_digest(tmp_path: Path, ending: str, one: str, other: str):
    first, second = digests(tmp_path, ending, one, other)
    assert first == second


@pytest.mark.parametrize(("ending", "one", "other"), OTHER)
def test_what_runs_otherwise_has_another_digest(tmp_path: Path, ending: str, one: str, other: str):
    first, second = digests(tmp_path, ending, one, other)
    assert first != second


def test_a_file_that_is_not_what_its_name_says_counts_by_its_bytes(tmp_path: Path, request):
    request.addfinalizer(partial(sys.setrecursionlimit, sys.getrecursionlimit()))
    sys.setrecursionlimit(1000)  # Python's own, which torch may have raised in this process
    assert len(set(digests(tmp_path, ".py", "def f(:\n", "def f(: \n"))) == 2
    assert len(set(digests(tmp_path, ".yaml", "a: [", "a:  ["))) == 2
    assert len(set(digests(tmp_path, ".yaml", "a: 2026-13-45", "a: 2026-13-46"))) == 2
    deep = "x" + "+x" * 1500
    assert len(set(digests(tmp_path, ".py", deep, deep + " "))) == 2


def test_an_edit_of_the_same_length_is_seen(tmp_path: Path):
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    before = digest_of_code(path)
    path.write_text("x = 2\n")
    assert digest_of_code(path) != before


def test_a_result_has_one_digest_wherever_it_was_made_or_restored(tmp_path: Path):
    rows = [{"kernel": "naive", "us": 1.0}]
    write_json(tmp_path / "made.json", {"rows": rows, "provenance": {"date": "today"}})
    restored = {"rows": [{**rows[0], "stale": False}], "provenance": {"date": "then"}, "restored": {"stale": False}}
    write_json(tmp_path / "restored.json", restored)
    write_json(tmp_path / "other.json", {"rows": [{**rows[0], "us": 2.0}], "provenance": {}})
    made, again, other = (digest_of_content(tmp_path / f"{name}.json") for name in ("made", "restored", "other"))
    assert made == again != other


def test_the_empty_text_that_python_3_12_adds_to_a_format_changes_no_digest():
    text = 'f"{x:{y}} of {z:>{w}.2f}"'
    here, there = ast.parse(text), ast.parse(text)
    for node in ast.walk(there):
        if isinstance(node, ast.JoinedStr):
            node.values.append(ast.Constant(value=""))
    assert list(_python(here)) == list(_python(there))
