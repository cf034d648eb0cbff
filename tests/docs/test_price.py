"""What the house costs is counted: in a repository of two commits, with the durations of its tests."""

import subprocess
from pathlib import Path

import pytest

from docs.build import price
from docs.build.__main__ import main
from minilab import LabError

FILES = {
    "src/lab/__init__.py": '"""A lab."""\n',
    "src/lab/oven.py": '''"""Bakes.

Two lines of a docstring.
"""

# Why it is hot:
# because.
HEAT = 200  # degrees, no line of its own


def bake(dough):
    """Bake."""
    said = """a text
    # no comment"""
    return said, dough
''',
    "src/lab/records/__init__.py": '"""Records."""\n\nKEPT = True\n',
    "scripts/bake.py": "# one\nprint()\n",
    "tests/lab/test_oven.py": "def test_hot():\n    assert lab.bake(1)\n",
    "tests/lab/records/test_kept.py": "def test_kept():\n    assert lab.bake(1)\n\n\n",
    "tests/workflow/test_all.py": "def test_all():\n    assert lab.bake(1)\n",
}
DURATIONS = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest">
<testcase classname="tests.lab.test_oven" name="test_hot" time="1.5" />
<testcase classname="tests.lab.test_oven.TestClass" name="test_cold" time="2.25" />
<testcase classname="tests.lab.records.test_kept" name="test_kept" time="4" />
<testcase classname="tests.workflow.test_all" name="test_all" time="8"><skipped /></testcase>
</testsuite></testsuites>
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository whose last commit has three lines of Python more and one less."""
    folder = tmp_path / "repository"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    commit(folder, "Begin")
    (folder / "src/lab/oven.py").write_text(FILES["src/lab/oven.py"].replace("HEAT = 200", "LOW = 100\nHEAT = 2 * LOW"))
    (folder / "tests/lab/test_oven.py").write_text("import lab\n" + FILES["tests/lab/test_oven.py"])
    (folder / "notes.md").write_text("# Notes\n")
    commit(folder, "A low heat")
    (folder / "src/lab/not_added.py").write_text("x = 1\n")
    return folder


def commit(folder: Path, message: str) -> None:
    author = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", message]):
        subprocess.run(["git", "-C", folder, *command], check=True)


@pytest.fixture
def durations(tmp_path: Path) -> Path:
    (tmp_path / "durations.xml").write_text(DURATIONS)
    return tmp_path / "durations.xml"


def test_each_room_has_its_lines_its_tests_their_seconds_and_its_share_of_the_last_commit(root: Path, durations: Path):
    rooms = {name: dict(room) for name, room in price.counted(root, durations).items()}
    assert rooms == {
        "lab": {
            "lines": 17, "code": 6, "comments": 2, "tests": 3, "milliseconds": 3750, "added": 3, "removed": 1,
        },
        "lab/records": {"lines": 3, "code": 1, "comments": 0, "tests": 4, "milliseconds": 4000},
        "scripts": {"lines": 2, "code": 1, "comments": 1},
        "tests/workflow": {"tests": 2, "milliseconds": 8000},
    }  # fmt: skip


def test_the_table_sums_src_up_and_says_what_was_last_and_what_was_timed(root: Path, durations: Path):
    lines = price.report(root, durations).splitlines()
    cells = {line.split("  ")[0]: " ".join(line.split()[1:]) for line in lines}
    assert cells["src"] == "20 7 2 10.0 % 7 7.8 +3 −1"
    assert cells["everything"] == "22 8 3 13.6 % 9 15.8 +3 −1"
    assert lines[-2].endswith(" A low heat")
    assert str(durations) in lines[-1]


def test_without_durations_it_says_how_to_make_some(root: Path):
    assert "pytest --junitxml=results/durations.xml" in price.report(root, None).splitlines()[-1]


def test_a_first_commit_added_everything(root: Path):
    subprocess.run(["git", "-C", root, "checkout", "-q", "HEAD~1"], check=True)
    assert price.counted(root, None)["lab"]["added"] == 1 + 15 + 2


@pytest.mark.parametrize("text", ["", "no XML", '<testsuite><testcase classname="tests.lab.test_oven" /></testsuite>'])
def test_a_file_that_holds_no_durations_is_refused_in_a_sentence(root: Path, durations: Path, text: str):
    durations.write_text(text)
    with pytest.raises(LabError, match=r"is not what `pytest --junitxml=.*` writes"):
        price.counted(root, durations)


def test_a_folder_that_git_does_not_know_is_refused_in_a_sentence(tmp_path: Path):
    with pytest.raises(LabError, match="counted in a clone"):
        price.counted(tmp_path, None)


def test_the_command_prints_and_writes_nothing(
    root: Path, durations: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    monkeypatch.chdir(root)
    assert main(["price", "--durations", str(durations)]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == list(" ".join(price.HEADINGS).split())
    assert not (root / "docs").exists()
