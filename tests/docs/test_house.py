"""The house can be remembered: a short page names every room, and each room says what it knows and what it does not."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_ROWS = 12  # of a page that a newcomer remembers
ROOMS = sorted(path.parent for path in (ROOT / "src").rglob("__init__.py"))
END = re.compile(r"(?<=[.?!])\s+")  # of a sentence


def rows(page: str) -> list[str]:
    """The first cell of each row in the table of rooms."""
    table = re.search(r"\n\| folder \|.*?\n\n", page, re.S)[0].strip()
    return [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:]]


def docstring(room: Path) -> str:
    return ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""


def sentences(text: str) -> list[str]:
    return [said for said in END.split(text.strip()) if said[-1:] in (".", "?", "!")]


@pytest.fixture
def page() -> str:
    return (ROOT / "docs/house.md").read_text()


def test_the_table_of_rooms_is_short(page: str):
    assert 5 < len(rows(page)) <= MOST_ROWS


def test_the_table_names_every_room_of_a_package_and_every_folder(page: str):
    named = [Path(name).name for cell in rows(page) for name in re.findall(r"`([^`]+)`", cell)]
    tracked = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True).stdout
    folders = {path.split("/")[0] for path in tracked.splitlines() if "/" in path and not path.startswith(".")}
    rooms = {room.name for room in ROOMS if len(room.relative_to(ROOT / "src").parts) <= 2}
    assert len(rooms) > 20
    assert (folders | rooms) - {"src"} - set(named) == set()


def test_the_table_names_nothing_else(page: str):
    named = {name for cell in rows(page) for name in re.findall(r"`([^`]+)`", cell)}
    assert {name for name in named if not list(ROOT.glob(name)) and not list((ROOT / "src").rglob(name))} == set()


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.relative_to(ROOT / "src").as_posix())
def test_a_room_says_what_it_knows_and_what_it_does_not(room: Path):
    said = sentences(docstring(room))
    assert len(said) >= 2
    assert any(re.search(r"\bknows?\b", one) for one in said)


def test_a_docstring_of_one_sentence_is_seen():
    assert len(sentences("A room: what `minilab.files` and config.yaml hold,\nin all.")) == 1
    assert len(sentences("A room.\n\nIt knows this. It does not know that.")) == 3


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.relative_to(ROOT / "src").as_posix())
def test_a_room_does_not_list_its_modules(room: Path):
    modules = {path.stem for path in room.glob("*.py")} - {"__init__"}
    listed = re.findall(r"^`?(\w+)`?(?: {2,}\S|:)", docstring(room), re.M) + re.findall(r"`(\w+)`", docstring(room))
    assert len(modules & set(listed)) < 2
