"""The LM head, on the CPU with providers of our own: what it moves, who is left out, what the artefact holds."""

import json

import pytest
import torch

from minikernel.measure import cost, eligibility, head, recompute
from minikernel.measure.ceilings import Rate
from minilab.records.artefact import artefact
from minilab.records.checksums import write_sums
from minilab.records.provenance import provenance
from minilab.records.restore import Today, restore
from minilab.records.store import write_artefact
from minilab.records.verify import differences

PARAMS = {"rows": [16, 8], "launches": 100, "warmup": 3, "seed": 42, "time_limit_seconds": 100}
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Nobody is too slow on a busy machine."""
    monkeypatch.setattr(eligibility, "SHORTEST", 60.0)


def test_the_head_counts_the_logits_only_where_they_reach_memory(monkeypatch):
    monkeypatch.setattr(head, "fuses", lambda h, weight: True)
    weight = head.head_weight(CPU, 42)
    heads = head.head_providers(weight)
    heads["compile"] = heads["eager"]
    rows, reasons = head.time_heads(heads, weight, 16, PARAMS, CPU, 10.0)
    assert not reasons
    found = {row["kernel"]: row for row in rows}
    read_and_written = 4 * (16 * 64 + 600 * 64 + 16 * 600)
    assert found["linear_softmax"]["bytes"] == found["linear_softmax-tf32"]["bytes"] == read_and_written
    assert found["eager"]["bytes"] == found["compile"]["bytes"] == read_and_written + 2 * 4 * 16 * 600
    assert {row["flop"] for row in rows} == {16 * 600 * (2 * 64 + 5)} == {cost.linear_softmax_flop(16, 64, 600)}
    assert found["linear_softmax"]["max_rel_err"] < 1e-5


def test_a_wrong_head_is_left_out():
    weight = head.head_weight(CPU, 42)
    heads = {"eager": head.head_providers(weight)["eager"], "linear_softmax": lambda h: torch.ones(16, 600)}
    rows, reasons = head.time_heads(heads, weight, 16, PARAMS, CPU, 10.0)
    assert [row["kernel"] for row in rows] == ["eager"]
    assert reasons["linear_softmax"]["code"] == "wrong"


@pytest.fixture
def result(monkeypatch):
    """`head.json` without provenance, of the eager head alone, beside a copy that took a microsecond."""
    monkeypatch.setattr(head, "large_copy", lambda device: Rate(10_000, [1.0]))
    monkeypatch.setattr(head, "head_providers", lambda weight: {"eager": lambda h: head.eager(h, weight)})
    saved = []
    result = head.run_head(PARAMS, "cpu", lambda line: None, lambda so_far: saved.append(json.dumps(so_far)))
    assert len(saved) == len(PARAMS["rows"]) + 1, "saved after each case"
    return result


def test_every_number_of_rows_is_timed_and_restored(result, tmp_path):
    path = tmp_path / "h200/24/head.json"
    write_artefact(path, {"provenance": provenance([], PARAMS, "h200"), **result})
    write_sums(tmp_path / "h200", [path])
    restored = restore(path, artefact("head"), tmp_path / "h200", Today(PARAMS, {}), "fail")
    assert not restored["restored"]["stale"]
    assert restored["complete"]
    assert [(row["kernel"], row["rows"]) for row in restored["rows"]] == [("eager", 16), ("eager", 8)]
    assert {(entry["standard"], entry["met"]) for entry in restored["standards"]} == {(6, False)}


def test_every_figure_follows_from_the_raw_samples(result):
    assert list(differences(result, recompute.head(result))) == []
    result["rows"][0]["median_us"] *= 0.5
    assert [found["where"] for found in differences(result, recompute.head(result))] == ["rows[0].median_us"]
