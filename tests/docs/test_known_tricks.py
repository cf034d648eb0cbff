"""The page of tricks names kernels that exist and are tried, and leaves none of them out."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "tests/minikernel"
TESTS = [*KERNELS.rglob("test_*.py"), *(ROOT / "tests/faults").glob("test_*.py")]


def functions(file: str) -> set[str]:
    """What a file of kernels defines for a tensor."""
    found = ast.parse((KERNELS / file).read_text()).body
    return {one.name for one in found if isinstance(one, ast.FunctionDef) and [a.arg for a in one.args.args] == ["x"]}


def listed() -> set[str]:
    rows = re.findall(r"^\|.*\| ([^|]*) \|$", (ROOT / "docs/known_tricks.md").read_text(), re.M)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_each_kernel_of_the_page_exists_and_is_tried():
    names = listed()
    assert len(names) > 30
    assert names <= functions("misbehaving.py") | functions("tricks.py")
    tried = "".join(path.read_text() for path in TESTS)
    assert {name for name in names if f'"{name}"' not in tried} == set()


def test_no_trick_upon_the_clock_is_left_out():
    assert functions("tricks.py") - {"honest", "slow"} <= listed()
