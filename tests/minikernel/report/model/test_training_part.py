"""The part of stage 26's report on the training in one launch, and its picture."""

import re

import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from model_artefact import RECORD, model_artefact
from training_artefact import LIMIT, training_artefact

from minikernel.report.model.stage_26 import report_26
from minikernel.report.model.step_floor import floors
from minikernel.report.model.steps_picture import draw
from minilab.config.check import check_schema, read_schema
from minilab.files import read_json

CEILINGS = read_json(RECORD / "24/ceilings.json")
STALE = {"stale": True, "from": "results/recorded/h200", "reasons": [{"code": "source_changed", "path": "train.cu"}]}


def page(language: str = "en", **changed) -> str:
    return report_26(model_artefact(), language, training_artefact(**changed))


def part(text: str, heading: str = "## The training in one launch") -> str:
    return text.partition(heading)[2].partition("\n## ")[0]


def test_what_is_made_up_is_what_the_schema_has():
    check_schema(training_artefact(), read_schema("schemas/training_contest.schema.yaml"), "training.json")


def test_without_the_artefact_the_page_is_as_it_was():
    plain = report_26(model_artefact())
    assert "training.png" not in plain
    whole = page()
    assert plain == re.sub(r"## The training in one launch.*?(?=\n## )\n", "", whole, flags=re.S)


def test_the_finding_comes_first_with_both_ratios():
    said = part(page()).strip()
    first = re.match(r"\*\*A training step takes (\S+) µs at 64 x 16 tokens, (\S+) times as fast .* (\S+) times", said)
    one, over_graph, over_eager = map(float, first.groups())
    assert (one, over_graph, over_eager) == pytest.approx((131, 611 / 131, 9100 / 131), rel=0.01)
    assert "takes at most 0.272 s in one launch. It ends 0.96% to 1.17% above" in said


def test_a_missed_bar_says_by_how_much():
    said = part(page())
    rows = re.findall(r"^\| a step of `(.*?)`.*?`(\S+)` \| (\S+ x \S+) \| (\S+) \| (\S+) \| (.*) \|$", said, re.M)
    assert [(rung, peer, where, bar) for rung, peer, where, _, bar, _ in rows] == [
        (rung, peer, where, bar)
        for where in ("64 x 16", "8 x 128")
        for rung, peer, bar in (
            ("one", "graph-of-compiled-step", "5"), ("one", "eager", "60"), ("graph", "graph-of-compiled-step", "2.5"),
        )
    ]  # fmt: skip
    (graph,) = [float(value) for rung, _, where, value, _, verdict in rows if (rung, where) == ("graph", "8 x 128")]
    assert graph == pytest.approx(801 / 342.3, rel=0.01)
    missed = [(float(value), verdict) for rung, *_, value, _, verdict in rows if rung == "one" and verdict != "met"]
    assert len(missed) == 2
    for value, verdict in missed:  # which is printed in three digits
        assert float(verdict.removeprefix("missed by ").rstrip("%")) == pytest.approx(100 - 20 * value, abs=0.15)
    assert "| the whole training, s | the worst seed | 0.272 | 0.35 | met |" in said


def test_a_slow_training_and_a_bad_end_are_missed_from_above():
    slow = [dict(row, seconds=0.42, held_out_nats=LIMIT * 1.03) for row in training_artefact()["whole"]]
    said = part(page(whole=slow))
    assert "| 0.42 | 0.35 | missed by 20.0% |" in said
    assert "| 3.00% | 2% | missed by 50.0% |" in said


def test_a_shape_that_was_left_out_is_told_and_none_at_all_draws_nothing():
    said = part(page(steps=[], timelines=[], left_out=[{"batch": 64, "time": 16, "seconds": 100}], complete=False))
    assert "The time was up before 64 x 16." in said
    assert "training.png" not in said
    assert "**" not in said


def test_a_stale_record_says_so():
    made = training_artefact() | {"restored": STALE}
    assert "*stale*: " in part(report_26(model_artefact(), "en", made))
    assert "*caduco*: " in part(report_26(model_artefact(), "es", made), "## El entrenamiento en un lanzamiento")


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """A function: the figure of an artefact in a language."""
    monkeypatch.setattr(plt, "close", lambda figure: None)

    def figure(made: dict, language: str = "en"):
        draw(made, CEILINGS, tmp_path / "training.png", tmp_path / "training.svg", language)
        assert (tmp_path / "training.png").stat().st_size > 10_000
        return plt.gcf()

    yield figure
    monkeypatch.undo()
    plt.close("all")


def test_a_bar_is_as_long_as_its_step_and_says_so(drawn):
    figure = drawn(made := training_artefact())
    for axes, batch in zip(figure.axes[:2], (64, 8), strict=True):
        floor, *widths = [bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle)]
        assert sorted(widths) == sorted(row["us_per_step"] for row in made["steps"] if row["batch"] == batch)
        (argued,) = (one.us for (rows, _), one in floors(made, CEILINGS).items() if rows == batch)
        assert floor == argued
    said = [text.get_text() for text in figure.findobj(Text)]
    assert any(text.startswith("9.1") and text.endswith("x one launch") for text in said)
    assert {"graph-of-compiled-step", "64 x 16", "µs a step", "argued floor"} <= set(said)


def test_a_curve_is_everybodys_loss_by_its_seconds_and_white_where_it_was_cut_short(drawn):
    made = training_artefact()
    *_, axes = drawn(made).axes
    assert axes.get_xscale() == "log"
    lines = {line.get_label(): line for line in axes.lines}
    for row in made["curves"]:
        line = lines[row["rung"]]
        later = [point for point in row["points"] if point["steps"]]
        assert line.get_xydata().tolist() == [[point["seconds"], point["nats"]] for point in later]
        assert (line.get_markerfacecolor() == "white") == (row["rung"] in ("numpy", "torch-cpu"))
    assert lines["the best possible"].get_ydata()[0] == LIMIT
    assert len(drawn(training_artefact(curves=[])).axes) == 2


@pytest.mark.parametrize(("graph", "said"), [
    (0.5, "2 times as fast as in one launch, with the same bits"), (2.0, ", 2 times as long as in one launch"),
    (1.0, "the noise does not tell from one launch"),
])  # fmt: skip
def test_the_page_says_how_the_graph_stands_to_the_one_launch(graph, said):
    made = training_artefact()
    one = next(row for row in made["steps"] if row["rung"] == "one")
    row = next(row for row in made["steps"] if row["rung"] == "graph")
    row["us_per_step"] = graph * one["us_per_step"]
    assert said in part(report_26(model_artefact(), "en", made))


def test_the_page_says_where_every_curve_ended():
    said = part(page())
    assert "| `numpy` | 400 | 20.2 | 1.8723 | 0.5 |" in said
    assert "| `one` | 1,600 | 0.272 | 1.7487 | – |" in said
    assert "loss against seconds" not in part(page(curves=[]))


def test_the_page_says_where_the_time_of_a_step_goes():
    made = training_artefact()
    rows = re.findall(r"^\| 64 x 16 \| `(\w+)` \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|$", part(page()), re.M)
    assert [rung for rung, *_ in rows] == ["graph", "one"]
    us = {row["rung"]: row["us_per_step"] for row in made["steps"] if row["batch"] == 64}
    for rung, *parts in rows:
        assert sum(map(float, parts)) == pytest.approx(us[rung], rel=0.02)
    assert "Where the time" not in part(page(timelines=[]))


def test_the_page_says_how_far_a_step_is_from_its_floor():
    made = training_artefact()
    said = part(report_26(model_artefact(), "en", made, CEILINGS)).partition("How little")[2]
    rows = re.findall(r"^\| (\d+) x \d+ ((?:\| [\d.]+ ){6})\| (\S+) \|$", said, re.M)
    assert [int(batch) for batch, *_ in rows] == [64, 8]
    us = {row["batch"]: row["us_per_step"] for row in made["steps"] if row["rung"] == "one"}
    for batch, parts, times in rows:
        launch, weights, products, update, waiting, floor = map(float, parts.replace("|", "").split())
        assert launch + max(weights, products) + update + waiting == pytest.approx(floor, rel=0.02)
        assert us[int(batch)] / floor == pytest.approx(float(times), rel=0.02)
    assert "How little" not in part(page())


def test_a_stale_picture_is_hollow_and_speaks_spanish(drawn):
    figure = drawn(training_artefact() | {"restored": STALE}, "es")
    assert {to_hex(bar.get_facecolor()) for axes in figure.axes for bar in axes.patches} == {"#ffffff"}
    said = [text.get_text() for text in figure.findobj(Text)]
    assert "µs por paso" in said
    assert any(text.endswith("(caduco)") for text in said)
