"""The picture of the training: readable, and in the reader's language."""

import re
from pathlib import Path

import matplotlib
import pytest
from matplotlib.axes import Axes
from matplotlib.image import imread

from minimodel.loss_plot import plot_losses

RECORD = {
    "conditional_entropy": 2.0,
    "held_out_cross_entropy": 2.05,
    "excess_percent": 2.5,
    "training": {"phases": [{"steps": 60, "time": 16}, {"steps": 40, "time": 32}]},
    "losses": [{"step": 1, "loss": 4.0}, {"step": 100, "loss": 2.1}],
    "held_out_losses": [
        {"step": 0, "time": 16, "loss": 4.5},
        {"step": 50, "time": 16, "loss": 3.0},
        {"step": 80, "time": 32, "loss": 3.1},
        {"step": 100, "time": 32, "loss": 2.05},
    ],
}


def texts(folder: Path, language: str) -> set[str]:
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        plot_losses(RECORD, folder / f"{language}.svg", language)
    return {text.strip() for text in re.findall(r"<text[^>]*>([^<]*)</text>", (folder / f"{language}.svg").read_text())}


def test_the_loss_plot_is_a_picture_wide_enough_to_read(tmp_path: Path):
    plot_losses(RECORD, tmp_path / "loss.png")
    assert imread(tmp_path / "loss.png").shape[1] >= 800


@pytest.mark.parametrize(
    ("language", "title", "tick"),
    [
        ("en", "Held-out loss ends at 2.050, 2.50 % above the limit", "3"),
        ("es", "La pérdida en el texto reservado acaba en 2,050, un 2,50 % sobre el límite", "3"),
    ],
)
def test_its_title_and_numbers_are_the_languages_own(tmp_path: Path, language: str, title: str, tick: str):
    assert {title, tick} <= texts(tmp_path, language)


def test_no_word_of_it_stays_english(tmp_path: Path):
    in_both = texts(tmp_path, "en") & texts(tmp_path, "es")
    assert {text for text in in_both if not text.isdecimal()} == set()


def test_the_held_out_line_breaks_where_the_rows_become_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    drawn: list = []
    plain = Axes.plot
    monkeypatch.setattr(
        Axes, "plot", lambda self, *points, **more: drawn.append(points) or plain(self, *points, **more)
    )
    plot_losses(RECORD, tmp_path / "loss.png")
    held_out = [list(steps) for steps, _ in drawn[1:]]
    assert held_out == [[one["step"] for one in RECORD["held_out_losses"] if one["time"] == time] for time in (16, 32)]
