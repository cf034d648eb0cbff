"""The picture of time against memory: a dot each, hollow where the error is too large, the floor of the products."""

from pathlib import Path

import pytest
from loss_artefact import GPU, PLACES, TIMED, loss_artefact
from matplotlib import pyplot as plt

from minikernel.report.loss.picture import HUES, draw, draw_place, floor_us
from minikernel.report.loss.views import shown
from minilab.pages.translations import Translations

CEILINGS = {"bf16_tflop_per_s": 750.0, "fp32_tflop_per_s": 50.0}
TEXT = Translations("minikernel.report", "loss", "en")


@pytest.fixture
def axes():
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


def test_the_floor_is_the_time_of_three_products():
    place = shown(loss_artefact()).places[0]
    assert floor_us(place, CEILINGS) == pytest.approx(3 * 2 * 65536 * 64 * 600 / 750e12 * 1e6)
    assert floor_us(place, {**CEILINGS, "bf16_tflop_per_s": None}) is None
    assert floor_us(place, None) is None


def test_each_is_a_dot_hollow_where_its_error_is_too_large(axes):
    seen = shown(loss_artefact())
    draw_place(axes, seen, seen.places[0], CEILINGS, TEXT)
    dots = {tuple(line.get_xydata()[0]): line for line in axes.lines if line.get_marker() == "o"}
    assert len(dots) == len(TIMED)
    for who, (us, mib, over) in TIMED.items():
        dot = dots[us / 1e3, mib]
        assert dot.get_color() == HUES[who]
        assert (dot.get_markerfacecolor() == "white") is (over > 1)
    (floor,) = (line for line in axes.lines if line.get_marker() != "o")
    left, right = axes.get_xlim()
    assert left < floor.get_xdata()[0] < right


def test_each_axis_has_numbers_enough_to_be_read(axes):
    near = {who: (100.0 * place, 30.0 + 10 * place, over) for place, (who, (*_, over)) in enumerate(TIMED.items(), 1)}
    seen = shown(loss_artefact(near))
    draw_place(axes, seen, seen.places[0], None, TEXT)
    axes.figure.canvas.draw()
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        numbers = [tick.label1.get_text() for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        assert 3 <= len(list(filter(None, numbers))) <= 8, numbers


def test_a_stale_record_is_said(axes):
    seen = shown(loss_artefact() | {"restored": {"stale": True}})
    draw_place(axes, seen, seen.places[0], None, TEXT)
    assert "(stale)" in axes.get_title(loc="left")


@pytest.mark.parametrize("language", ["en", "es"])
def test_long_names_and_many_panels(tmp_path: Path, language: str):
    # tests/overlaps.py looks at each picture that is saved, for text over text
    long = {**GPU, "gpu": {"name": "NVIDIA RTX PRO 6000 Blackwell Max-Q Edition"}}
    losses = [loss_artefact(), loss_artefact(hardware=long, places=(*PLACES, (4096, 4096, 128256, "bfloat16")))]
    draw(losses, [CEILINGS, None], tmp_path / "loss.png", tmp_path / "loss.svg", language)
    assert (tmp_path / "loss.png").stat().st_size > 10_000
    assert (tmp_path / "loss.svg").exists()
