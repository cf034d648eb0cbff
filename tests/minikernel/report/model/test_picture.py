"""Stage 26's picture: what its bars are made of, hollow when stale, in the words of both languages."""

import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text
from model_artefact import DEVICE_US, model_artefact
from recorded_pages import recorded

from minikernel.report.model import picture
from minikernel.report.model.picture import PARTS, draw, stacked
from minikernel.report.model.views import shown

CEILINGS = recorded("24/ceilings.json")


@pytest.fixture
def texts(monkeypatch, tmp_path):
    """A function: the texts of the picture of an artefact in a language."""
    monkeypatch.setattr(plt, "close", lambda figure: None)

    def drawn(made: dict, language: str = "en", ceilings: dict | None = CEILINGS) -> list[str]:
        draw(made, ceilings, tmp_path / "model.png", tmp_path / "model.svg", language)
        assert (tmp_path / "model.png").stat().st_size > 10_000
        return [text.get_text() for text in plt.gcf().findobj(Text) if text.get_text()]

    yield drawn
    monkeypatch.undo()
    plt.close("all")


def test_a_bar_is_its_parts_end_to_end():
    place = shown(model_artefact()).places[0]
    for rung, kinds in (("one", ["launches", "waiting", "memory", "arithmetic"]), ("compile", ["launches", "kernels"])):
        row = place.rows[rung]
        drawn = stacked(plt.figure().subplots(), 0, row, stale=False)
        assert [part for part, *_ in drawn] == kinds
        assert drawn[-1][1] + drawn[-1][2] == pytest.approx(row["device_us"])
    plt.close("all")


@pytest.mark.parametrize("stale", [False, True])
def test_a_stale_bar_is_hollow(stale):
    axes = plt.figure().subplots()
    stacked(axes, 0, shown(model_artefact()).places[0].rows["one"], stale)
    faces = {to_hex(bar.get_facecolor()).upper() for bar in axes.patches}
    assert faces == (
        {"#FFFFFF"} if stale else {PARTS[part] for part in ("launches", "waiting", "memory", "arithmetic")}
    )
    plt.close("all")


def test_times_ratios_and_floors_are_written(texts):
    said = texts(model_artefact())
    assert {"one", "graph", "compile-max-autotune", "empty launch 3.55", "argued floor 12"} <= set(said)
    assert any(text.startswith("13.1 µs") and text.endswith("x") for text in said)
    assert any("TFLOP/s" in text for text in said)


def test_without_ceilings_there_is_no_roofline(texts):
    assert not any("TFLOP/s" in text for text in texts(model_artefact(), ceilings=None))


def test_a_rung_that_was_left_out_and_parts_that_are_not_known_are_no_failure(texts):
    made = model_artefact()
    made["forward"] = [row for row in made["forward"] if row["rung"] in ("eager", "one")]
    for row in made["forward"]:
        row["parts"] = None
    said = texts(made)
    assert said.count("not taken apart") == len(DEVICE_US)
    assert "graph" not in said


def test_it_speaks_spanish(texts):
    said = texts(model_artefact(restored={"stale": True}), "es")
    assert {"lanzamientos", "espera", "memoria", "aritmética", "µs en el dispositivo"} <= set(said)
    assert [text for text in said if text.replace(".", "", 1).isdigit() and "." in text] == []
    assert any("caduco" in text for text in said)


def test_every_rung_has_a_colour_of_its_own():
    assert len(set(picture.RUNGS.values())) == len(picture.RUNGS) == 6
