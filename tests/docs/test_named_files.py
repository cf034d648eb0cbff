"""Every file, module and rule that the documents name is there."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "exercises/README.md",
    ROOT / "findings/README.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "templates"),
]
FOLDERS = "benchmarks|docs|envs|exercises|findings|profiles|report|rules|schemas|scripts|src|tests"
FILE = re.compile(rf"(?<![\w/.-])(?:{FOLDERS})/[\w./-]*\w")
MODULE = re.compile(r"\bmini(?:compile|kernel|lab|model)(?:\.\w+)+")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_file_that_a_page_names_is_there(page: Path):
    named = set(FILE.findall(page.read_text()))
    assert {name for name in named if not list(ROOT.glob(f"{name}*"))} == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_module_and_function_that_a_page_names_is_there(page: Path):
    named = set(MODULE.findall(page.read_text()))
    assert {name for name in named if not is_there(name)} == set()


def is_there(name: str) -> bool:
    """Whether a dotted name is a module, or leads from one to what it holds."""
    parts = name.split(".")
    for split in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[split:]:
            found = getattr(found, attribute, None)
        return found is not None
    return False


def test_the_page_on_the_stages_names_every_rule_and_no_other():
    table = re.search(r"^\| stage .*?\n\n", (ROOT / "docs/stages.md").read_text(), re.S | re.M)[0]
    cells = [line.split(" | ")[1] for line in table.strip().splitlines()[2:]]
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    texts = "".join(path.read_text() for path in (ROOT / "rules").glob("*.smk"))
    assert named == set(re.findall(r"^rule (\w+):", texts, re.M))


def test_a_name_that_is_not_there_is_seen():
    assert is_there("minilab.files.read_json")
    assert not is_there("minilab.files.read_yaml")
    assert not is_there("minilab.no_such_module.read")
