"""The one command that writes what is generated under docs/."""

import shutil
from pathlib import Path

import pytest

from docs.build import __main__ as build
from docs.build import concept_pages, playbook

ROOT = Path(__file__).parents[2]
CAPTURE = "tests/minicompile/data/tiny_head_capture_simulated.json"


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the pages, seen from the project's root."""
    monkeypatch.chdir(ROOT)
    return tmp_path / "docs"


def test_a_part_is_written_alone(docs: Path):
    assert build.main(["config", "--docs", str(docs)]) == 0
    assert [path.name for path in docs.iterdir()] == ["config.md"]
    assert (docs / "config.md").read_text() == (ROOT / "docs/config.md").read_text()


def test_the_concept_pages_are_written_with_their_figures(docs: Path):
    assert build.main(["concepts", "--docs", str(docs), "--capture", CAPTURE]) == 0
    assert {path.stem for path in (docs / "concepts").iterdir()} == set(concept_pages.PAGES)
    assert len(list((docs / "images").glob("*.svg"))) == 6


def test_the_playbook_s_parts_are_written_and_the_rest_of_a_page_is_left(docs: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(playbook, "remember_failures", lambda: None)
    monkeypatch.setattr(playbook, "PARTS", {**playbook.PARTS, "logs": lambda: "", "modes": lambda: "OF TODAY"})
    shutil.copytree(ROOT / "docs/torch_compile", docs / "torch_compile")
    shutil.copy(ROOT / "docs/torch_compile.md", docs)
    assert build.main(["playbook", "--docs", str(docs)]) == 0
    assert "OF TODAY" in (docs / "torch_compile/modes.md").read_text()
    assert (docs / "torch_compile/shapes.md").read_text() == (ROOT / "docs/torch_compile/shapes.md").read_text()


def test_a_part_that_there_is_not_is_refused(docs: Path, capsys: pytest.CaptureFixture):
    with pytest.raises(SystemExit):
        build.main(["concept", "--docs", str(docs)])
    assert f"there is no part 'concept'; write one of {', '.join(build.PARTS)}, price" in capsys.readouterr().err


def test_a_record_that_is_not_there_ends_it_with_one_sentence(docs: Path, capsys: pytest.CaptureFixture):
    asked = ["concepts", "--docs", str(docs), "--capture", CAPTURE, "--record", "results/recorded/none/24"]
    assert build.main(asked) == 1
    assert capsys.readouterr().err.startswith("Error: results/recorded/none/24/bench.json does not exist")
