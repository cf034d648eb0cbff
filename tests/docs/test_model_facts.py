"""What the concept page on the model in one kernel quotes: waits in microseconds, and a record."""

import json
import re

import pytest
from model_artefact import model_artefact
from training_artefact import training_artefact

from docs.build import concept_pages
from docs.build.facts.model_facts import model_facts
from docs.build.facts.training_facts import training_facts


def test_waits_are_clocks_over_the_clock_s_rate(tmp_path):
    costs = model_facts(tmp_path)["costs"]
    assert costs["grid_barrier_us"] == pytest.approx(costs["grid_barrier_clocks"] / 1980)
    assert costs["exchange_us"] == pytest.approx(426 / 1980)  # the slowest of them


def test_without_a_record_the_page_has_no_table_and_with_one_it_has(tmp_path):
    before = concept_pages.page("one_kernel", {"model": model_facts(tmp_path)})
    assert "over the graph" not in before
    (tmp_path / "model.json").write_text(json.dumps(model_artefact()))
    after = concept_pages.page("one_kernel", {"model": model_facts(tmp_path)})
    assert "On NVIDIA H200, in float32:" in after
    assert after.count("| 64 x 64 | 249 µs | 118 µs | 74.2 µs | 3.4 times | 1.6 times |") == 1


def test_a_training_step_s_page_has_figures_where_a_record_has_and_else_none(tmp_path):
    before = concept_pages.page("a_training_step", {"training": training_facts(tmp_path)})
    assert "On NVIDIA" not in before
    assert len(before.split()) <= 700
    (tmp_path / "training.json").write_text(json.dumps(training_artefact()))
    after = concept_pages.page("a_training_step", {"training": training_facts(tmp_path)})
    assert "On NVIDIA H200, microseconds a step:" in after
    assert re.search(
        r"\| 8 x 128 \| 9\.\d+ ms \| 8\.\d+ ms \| 80\d µs \| 16\d µs \| (4\.9|5) times \| 61 times \|", after
    )
