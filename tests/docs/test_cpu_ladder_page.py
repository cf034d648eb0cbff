"""The page on the CPU's ladder: what it quotes is kept of a run, and another run changes it."""

import json
from pathlib import Path

import pytest
from artefacts import allocation, bench, bench_row, counted, cpu_bench

from docs.build import __main__ as build
from docs.build import concept_pages, cpu_ladder
from minilab.files import read_json, write_json

ROOT = Path(__file__).parents[2]
HEADLINE = [32768, 600]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """What is kept of a run of the small artefacts."""
    folder = tmp_path / "results/24/cpu-a"
    write_json(folder / "bench.json", cpu_bench())
    write_json(folder / "allocation.json", allocation(rungs=True))
    cpu_ladder.remember(tmp_path / "results", HEADLINE, tmp_path / "kept.json")
    return tmp_path / "kept.json"


def test_the_picture_is_drawn_from_what_is_kept():
    said = cpu_ladder.drawn_from(cpu_ladder.ladder_facts())
    picture = ROOT / "docs" / concept_pages.LADDER_PICTURE
    assert said in picture.read_text(), "run `python -m docs.build cpu_ladder`"
    assert picture.stat().st_size < 60_000


def test_the_page_says_what_the_run_says(data: Path):
    page = " ".join(concept_pages.page("cpu_ladder", {"ladder": cpu_ladder.ladder_facts(data)}).split())
    assert "The figures here are of A Chip with 2 threads, a softmax of 32,768 x 600 float32." in page
    assert "| 21 | 4.29x | 95.2 % |" in page
    assert "takes 16 cycles an element. That of `vectors` takes 0.8, because" in page
    assert "A call of `threads` meets 10,000 page faults." in page
    assert "A copy with such stores takes 80 % of the time of a plain one here." in page


def test_a_run_without_page_faults_or_with_counters_is_told_otherwise(tmp_path: Path, data: Path):
    cost = counted(allocation(page_faults=0, rungs=True))
    cost["ways"]["streaming"]["page_faults"] = 0
    write_json(tmp_path / "results/24/cpu-a/allocation.json", cost)
    cpu_ladder.remember(tmp_path / "results", HEADLINE, data)
    page = concept_pages.page("cpu_ladder", {"ladder": cpu_ladder.ladder_facts(data)})
    assert "No rung met page faults in this run" in page
    assert "A copy with such stores" not in page


def test_a_run_without_rungs_changes_nothing(tmp_path: Path, data: Path):
    before = data.read_text()
    write_json(tmp_path / "results/24/cpu-a/bench.json", bench([bench_row("F.softmax", 32768, 9.0)], "cpu-a"))
    cpu_ladder.remember(tmp_path / "results", HEADLINE, data)
    cpu_ladder.remember(tmp_path / "nowhere", HEADLINE, data)
    assert data.read_text() == before


def test_a_run_with_a_time_that_cannot_be_changes_nothing(tmp_path: Path, data: Path):
    before = data.read_text()
    write_json(tmp_path / "results/24/cpu-a/bench.json", cpu_bench(above_roof=True))
    cpu_ladder.remember(tmp_path / "results", HEADLINE, data)
    assert data.read_text() == before


def test_the_part_writes_its_page_and_its_picture_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    assert build.main(["cpu_ladder", "--docs", str(tmp_path), "--results", str(tmp_path / "none")]) == 0
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {"concepts/cpu_ladder.md", "images/cpu_ladder.svg"}
    assert read_json(cpu_ladder.DATA)["bars"]
    assert json.loads(cpu_ladder.DATA.read_text())["shape"] == HEADLINE
