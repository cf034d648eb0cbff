"""The README is short, its figures are those of the records, and its two commands are those that CI and users run."""

import json
from pathlib import Path

import pytest

from docs.build import readme
from minilab import LabError

ROOT = Path(__file__).parents[2]
MOST_WORDS = 1200
TEXT = (ROOT / readme.README).read_text()


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)


def test_it_is_short():
    assert len(TEXT.split()) <= MOST_WORDS


def test_its_two_commands_are_there_as_people_copy_them():
    assert "\npip install -e . && snakemake --cores 4 results/24/roofline.png\n" in TEXT
    assert "\npip install -e '.[test]' && pytest\n" in TEXT


def test_its_figures_are_those_of_the_records():
    assert all(f"<!-- generated: {part} -->" in TEXT for part in readme.PARTS)
    assert readme.written(TEXT) == TEXT, "run `python -m docs.build readme`"


def test_a_faster_record_or_a_refuted_sentence_changes_it(tmp_path: Path):
    made, data = json.loads(readme.MODEL.read_text()), json.loads(readme.EXPLAINED.read_text())
    for row in made["generate"]:
        row.update(tokens_per_s=158_400.0, same_tokens=0.5) if row["rung"] == "one" else None
    (tmp_path / "model.json").write_text(json.dumps(made))
    said = readme.one_launch(tmp_path / "model.json")
    assert "**158,000 tokens a second**" in said
    assert "Each word" not in said
    next(iter(data["rows"].values()))["false"].append("bytes")
    (tmp_path / "explained.json").write_text(json.dumps(data))
    assert "**1 was refuted**" in readme.explained(tmp_path / "explained.json")
    told = {"as facts": {"held": 1000, "false": 2, "unread": 30}, "by notes": {"held": 100, "false": 5, "unread": 4}}
    (tmp_path / "second.json").write_text(json.dumps({"stored.cpu": {"told": told}, "stored.cuda": {"told": told}}))
    said = " ".join(readme.explained(second=tmp_path / "second.json").split())
    assert "judged 2,214 sentences: **4 false** of those said plainly, 10 of those said" in said
    assert "for 68 more it has no rule" in said


def test_a_record_without_such_a_text_is_refused(tmp_path: Path):
    made = json.loads(readme.MODEL.read_text())
    (tmp_path / "model.json").write_text(json.dumps({**made, "generate": []}))
    with pytest.raises(LabError, match="measure stage 26 again"):
        readme.one_launch(tmp_path / "model.json")
