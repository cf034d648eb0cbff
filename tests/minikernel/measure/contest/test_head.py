"""The LM head, on the CPU with providers of our own: what it moves, who is left out, what the artefact holds."""

import json
from functools import partial

import pytest
from artefacts import restored_from_a_record

from minikernel.measure import eligibility, recompute
from minikernel.measure.ceilings import Rate
from minikernel.measure.contest import head, head_contest
from minilab.config.check import check_schema, read_schema
from minilab.records.artefact import artefact
from minilab.records.verify import differences

PARAMS = {"rows": [16, 8], "launches": 100, "warmup": 3, "seed": 42, "time_limit_seconds": 100}


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Nobody is too slow on a busy machine."""
    monkeypatch.setattr(eligibility, "SHORTEST", 60.0)


@pytest.fixture
def result(monkeypatch):
    """`head.json` without provenance, of the eager head alone, beside a copy that took a microsecond."""
    monkeypatch.setattr(head, "large_copy", lambda device: Rate(10_000, [1.0]))
    monkeypatch.setattr(head, "head_providers", lambda weight: {"eager": partial(head_contest.eager, weight=weight)})
    return json.loads(json.dumps(head.run_head(PARAMS, "cpu", lambda line: None)))


def test_every_number_of_rows_is_timed_and_restored(result, tmp_path):
    restored = restored_from_a_record("head", PARAMS, result, tmp_path)
    assert restored["complete"]
    del restored["restored"]  # what reading takes off
    check_schema(restored, read_schema(artefact("head").schema), "head.json")
    assert [(row["kernel"], row["rows"]) for row in restored["rows"]] == [("eager", 16), ("eager", 8)]
    assert {(entry["standard"], entry["met"]) for entry in restored["standards"]} == {(6, False)}


def test_every_figure_follows_from_the_raw_samples(result):
    assert list(differences(result, recompute.head(result))) == []
    result["rows"][0]["median_us"] *= 0.5
    assert [found["where"] for found in differences(result, recompute.head(result))] == ["rows[0].median_us"]


def test_a_number_of_rows_that_fails_or_comes_too_late_is_left_out(monkeypatch):
    monkeypatch.setattr(head, "large_copy", lambda device: Rate(10_000, [1.0]))
    monkeypatch.setattr(head, "head_providers", lambda weight: {"eager": lambda h: h.no_such_method()})
    failed = head.run_head(PARAMS, "cpu", lambda line: None)
    assert [(out["kernel"], out["reason"]["code"]) for out in failed["left_out"]] == [("all", "raised")] * 2
    late = head.run_head(PARAMS | {"time_limit_seconds": 1e-9}, "cpu", lambda line: None)
    assert [(out["kernel"], out["reason"]["code"]) for out in late["left_out"]] == [("all", "time_over")] * 2
    assert (late["rows"], late["complete"]) == ([], False)
