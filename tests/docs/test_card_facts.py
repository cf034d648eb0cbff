"""The page on two cards shows a second one only where there is a record of it."""

import json
import shutil
from pathlib import Path

import pytest

from docs.build import concept_pages
from docs.build.facts.card_facts import card_facts
from minilab.files import read_json

ROOT = Path(__file__).parents[2]
RECORD, HEADLINE = ROOT / "results/recorded/h200/24", [524288, 600]


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """The H200's record, and a made-up card's of half its bandwidth, where most take twice as long."""
    for device in ("h200", "made-up", "cpu-a"):
        folder = tmp_path / device / "24"
        folder.mkdir(parents=True)
        for name in ("bench.json", "ceilings.json"):
            shutil.copy(RECORD / name, folder / name)
    bench, ceilings = (read_json(tmp_path / f"made-up/24/{name}.json") for name in ("bench", "ceilings"))
    bench["provenance"]["hardware"]["gpu"]["name"] = "Made Up 7"
    for row in bench["rows"]:
        slower = {"smem": 1.0, "warp": 1.81}.get(row["kernel"], 2.0)
        row["median_us"] *= slower
    ceilings |= {"copy_gb_per_s": ceilings["copy_gb_per_s"] / 2, "multiprocessors": 132, "latency_ns": 700.0}
    (tmp_path / "made-up/24/bench.json").write_text(json.dumps(bench))
    (tmp_path / "made-up/24/ceilings.json").write_text(json.dumps(ceilings))
    return tmp_path


def page(record: Path) -> str:
    return concept_pages.page("two_cards", {"cards": card_facts(record, HEADLINE), "record": "the record"})


def test_with_one_record_the_page_says_so_and_has_no_second_cards_table():
    text = page(RECORD)
    assert "The lab has one card on record" in text
    assert "if it waits for memory |" not in text
    assert "is not in this record" in text  # the latency


def test_with_two_each_kernel_is_said_to_wait_for_what_its_times_say(records: Path):
    text = page(records / "h200/24")
    assert "one card on record" not in text
    ends = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `") and line.count("|") == 7}
    assert ends["naive"].endswith("| for memory |")
    assert ends["smem"].endswith("| in the multiprocessors |")
    assert ends["warp"].endswith("| in the multiprocessors |")  # into a copy's time there
    assert ends["fused"].endswith("both expect the same |")
    assert "`naive` | 15 ms | 30.1 ms | 30.1 ms |" in text
    assert "Made Up 7 copies 2,123 GB/s with 132 multiprocessors: a row every 298 ns." in text


def test_a_measured_latency_says_how_many_rows_must_be_on_their_way(records: Path):
    text = page(records / "made-up/24")
    assert "A load takes 700 ns here where it waits for nothing else, so that 2.3 rows must be on their way" in text
