"""A small campaign of forgeries, and that the campaign itself sees what it is there to see."""

import json
import os
from pathlib import Path

import campaign
import numpy as np
import pytest
from campaign import Try, counted, in_markdown, tries
from faults import DOCUMENT, document
from forged import Kind
from lies import stands

from minicompile.safe.smoketest import judge
from minilab import LabError


def test_the_document_is_current():
    assert document() == DOCUMENT.read_text(), "write it anew: python tests/faults/faults.py"


SMALL = range(0, 48)  # four of each kind, with the seeds that they have everywhere


@pytest.mark.timeout(300)
def test_every_forgery_of_a_small_campaign_is_held():
    found = tries(SMALL, processes=1)
    assert len(found) == len(SMALL)
    assert [one for one in found if one.verdict != "held"] == []
    refused = [one for one in found if one.said != "accepted"]
    assert len(refused) > len(SMALL) / 2  # forging spoils most of them


def refuses(sentence: str):
    def read(path: Path) -> bool:
        raise LabError(sentence)

    return read


def raises(path: Path) -> bool:
    raise KeyError(path.read_text())


def hangs(path: Path) -> bool:
    while True:
        try:
            pass
        except Exception:
            continue


def allocates(path: Path) -> bool:
    return bool(np.ones(campaign.MEGABYTES << 18)[-1])  # 8 bytes each: twice the limit


def dies(path: Path) -> bool:
    os._exit(3)


@pytest.mark.parametrize(
    ("read", "verdict"),
    [
        (lambda path: True, "held"),
        (refuses("The file is empty; write it."), "held"),
        (refuses("Two\nlines."), "wrong"),
        (lambda path: False, "wrong"),
        (raises, "traceback"),
        (hangs, "hang"),
        (allocates, "memory"),
        (dies, "wrong"),
    ],
)
def test_a_bad_reader_gets_its_verdict(monkeypatch: pytest.MonkeyPatch, read, verdict: str):
    monkeypatch.setattr(campaign, "SECONDS", 1.0)
    kind = Kind("bad", b"original", lambda draw, data: data, read, "file")
    found = tries([0, 1], [kind], processes=1)
    assert [(one.kind, one.verdict) for one in found] == [("bad", verdict), ("bad", verdict)]


def test_a_judge_that_does_not_look_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    forged = {"parts": ["view of the batch"], "lies": "alone", "trains": False, "lie": "a copy", "number": 1}
    path = tmp_path / "compiled.json"
    path.write_text(json.dumps(forged))
    with pytest.raises(LabError, match="memory of output"):
        stands(path)
    monkeypatch.setattr(judge, "ELEMENTS", [element for element in judge.ELEMENTS if element != "sharing"])
    assert not stands(path)


def test_the_table_counts_every_try():
    made = {"kinds": counted([Try(0, "port", "held", ""), Try(1, "port", "hang", ""), Try(2, "config", "held", "")])}
    assert in_markdown(made).splitlines()[2:] == [
        "| config | 1 | 1 | 0 | 0 | 0 | 0 |",
        "| port | 2 | 1 | 0 | 0 | 1 | 0 |",
    ]
