"""The timeline: blocks as rows of multiprocessors, gaps in which nothing runs, and a page that asks for nothing."""

import json
import re

import pytest
from model_artefact import RATE, model_artefact
from training_artefact import training_artefact

from minikernel.report.model.timeline import by_multiprocessor, gaps, shape_view, timeline_page


def block(sm: int, start_ns: int, *cycles: int) -> dict:
    return {"sm": sm, "start_ns": start_ns, "codes": [1, 512 + 2, 3][: len(cycles)], "cycles": list(cycles)}


def test_a_multiprocessor_is_a_row_and_several_where_blocks_run_side_by_side():
    blocks = [block(5, 0, 2000), block(3, 100, 1000, 1000), block(5, 2000, 400), block(3, 200, 500)]
    rows = by_multiprocessor(blocks, rate=1000.0)
    assert [row["sm"] for row in rows] == [3, 3, 5]
    assert rows[0]["blocks"] == [[0.1, [1, 512 + 2], [1000, 1000]]]
    assert rows[2]["blocks"] == [[0.0, [1], [2000]], [2.0, [1], [400]]]


def test_gaps_are_where_nothing_runs():
    assert gaps([[3.0, 4.0], [0.5, 1.0], [0.75, 2.0]], 4.5) == [[0.0, 0.5], [2.0, 3.0], [4.0, 4.5]]
    assert gaps([[0.0, 1.0], [1.0, 2.0]], 2.0) == []


def test_a_strip_has_the_figures_of_its_pass():
    made = model_artefact()
    view = shape_view(made, 1, 16)
    at = {strip["rung"]: strip for strip in view["strips"]}
    kernels = next(line["kernels"] for line in made["timelines"] if line["rung"] == "compile" and line["batch"] == 1)
    busy = sum(kernel["duration_us"] for kernel in kernels)
    assert at["compile"]["idle"] == pytest.approx(1 - busy / at["compile"]["length"])
    blocks = next(line["blocks"] for line in made["timelines"] if line["rung"] == "one" and line["batch"] == 1)
    longest = max(one["start_ns"] / 1e3 + sum(one["cycles"]) / RATE for one in blocks)
    assert at["one"]["length"] == pytest.approx(longest, abs=1e-2)
    assert (at["one"]["idle"], at["one"]["blocks"], at["one"]["multiprocessors"]) == (0, 4, 4)
    assert view["length"] == max(strip["length"] for strip in view["strips"])


@pytest.mark.parametrize(
    ("language", "replayed"), [("en", "are replayed from a CUDA graph"), ("es", "se repiten desde un grafo CUDA")]
)
def test_the_page_is_one_file_with_its_data_and_says_how_graphs_ran(language, replayed):
    page = timeline_page(model_artefact(), language)
    # as tests/minikernel/model/graph/test_graph_captured.py holds
    assert replayed in " ".join(page.split())
    assert not re.search(r"one\s+by\s+one|uno\s+a\s+uno", page)
    assert re.findall(r'(?:src|href)="(?!data:|README\.md)[^"]*"', page) == []
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    assert [(shape["batch"], shape["time"]) for shape in data["shapes"]] == [(1, 16), (64, 64)]
    assert {strip["rung"] for strip in data["shapes"][0]["strips"]} == {
        "compile",
        "compile-max-autotune",
        "graph",
        "one",
    }
    assert "undefined" not in page.partition("<script")[0]


def test_a_name_that_is_markup_stays_text_and_a_stale_record_says_so():
    made = model_artefact() | {"restored": {"stale": True}}
    next(line for line in made["timelines"] if line["kernels"])["kernels"][0]["name"] = "<b>k</b></script>"
    page = timeline_page(made)
    assert "<b>k" not in page
    assert "&lt;b&gt;k" in page
    assert "stale: the code has changed since" in page


@pytest.mark.parametrize(("language", "label", "words"), [
    ("en", "training, 64 x 16", "norm and AdamW"), ("es", "entrenamiento, 64 x 16", "norma y AdamW"),
])  # fmt: skip
def test_steps_of_the_training_come_behind_the_passes(language, label, words):
    made = training_artefact()
    page = timeline_page(model_artefact(), language, made)
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    assert [shape["label"] for shape in data["shapes"]][:3] == ["1 x 16", "64 x 64", label]
    assert f"> {label}</label>" in page
    one = next(strip for strip in data["shapes"][2]["strips"] if strip["rung"] == "one")
    (row,) = [row for row in made["steps"] if (row["batch"], row["rung"]) == (64, "one")]
    assert one["device"] == row["us_per_step"]
    phases = {code // data["phase"] for each in one["rows"] for _, codes, _ in each["blocks"] for code in codes}
    assert phases == {6, 7, 8, 9, 10}
    assert words in data["text"]["phase10"]
    assert all(data["text"][f"phase{phase}"] for phase in phases)
    assert "undefined" not in page.partition("<script")[0]
