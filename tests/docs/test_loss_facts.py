"""What the head's concept page says of what was timed: only where it was, and by the logit."""

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from loss_artefact import TIMED, loss_artefact

from docs.build.concept_pages import page
from docs.build.facts.loss_facts import loss_facts

RECORD = Path("results/recorded/h200/24")


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """A record of stage 24 alone."""
    (tmp_path / "24").mkdir()
    shutil.copy(RECORD / "ceilings.json", tmp_path / "24")
    return tmp_path / "24"


def test_nothing_is_said_to_be_timed_that_was_not(record: Path):
    assert "Timed there" not in page("the_head_that_trains", {"loss": loss_facts(record)})


def test_what_was_timed_stands_by_the_logit_and_by_width(record: Path):
    places = ((8192, 768, 50257, "bfloat16"), (65536, 64, 600, "float32"), (65536, 64, 600, "bfloat16"))
    (record.parent / "27").mkdir()
    fast_and_wrong = TIMED | {"eager": (200.0, 450.0, 2.5)}
    made = loss_artefact(places=places[:1]) | {
        "rows": [*loss_artefact(places=places[:1])["rows"], *loss_artefact(fast_and_wrong, places=places[1:])["rows"]]
    }
    (record.parent / "27/loss.json").write_text(json.dumps(made))
    facts = loss_facts(record)
    narrow, wide = facts["measured"]
    assert (narrow["width"], wide["width"]) == (64, 768)
    assert (narrow["who"], wide["who"]) == ("eager", "compile")  # the fastest of the others
    assert narrow["lab"] == pytest.approx(TIMED["lab"][0] * 1e6 / (65536 * 600))
    assert wide["other"] == pytest.approx(TIMED["compile"][0] * 1e6 / (8192 * 50257))
    lines = page("the_head_that_trains", {"loss": facts}).splitlines()
    assert "| 64 | 600 | 3.5 | 5.1 (`eager`, wrong) | 1.4 |" in lines
    assert not any(one == two == "" for one, two in pairwise(lines))
