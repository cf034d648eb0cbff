"""The contest's picture: each kernel's share of a copy, by width."""

import numpy as np
import pytest
from artefacts import contest, contest_row, standard

from minikernel.report.bandwidth_plot import draw, shares, stretched, unstretched
from minilab import LabError

OUT = {"part": "softmax", "direction": "forward", "dtype": "float32", "rows": 16384, "reason": "refuses"}
ROWS = [
    contest_row("fused", 600, 1.0, rows=64),
    *(contest_row("fused", cols, cols / 30) for cols in (600, 4096, 50257)),
    *(contest_row("softmax", cols, cols / 30) for cols in (600, 4096, 50257)),
    *(contest_row("quack", cols, cols / 28) for cols in (600, 4096)),
    contest_row("fused", 600, 40.0, "backward", "bfloat16"),
]
CONTEST = contest(
    ROWS,
    left_out=[
        OUT | {"kernel": "quack", "cols": 50257},
        OUT | {"kernel": "all", "cols": 4096},
        OUT | {"kernel": "liger", "cols": 600, "rows": 64},
        OUT | {"kernel": "liger", "cols": 600, "part": "host"},
    ],
    standards=[
        standard(2, 20.0, 0.98, 0.97, cols=600, peer="copy"),
        standard(2, 20.0, 0.98, 0.97, cols=600, peer="copy", timing="graphs"),
        standard(2, 20.0, 0.98, 0.95, cols=50257, peer="copy"),
        standard(1, 20.0, 0.98, 1.0, cols=4096),
    ],
)


def test_each_panel_holds_one_direction_and_dtype_at_the_most_rows():
    forward, backward = shares(CONTEST)["panels"]
    assert [forward[key] for key in ("direction", "dtype", "widths")] == ["forward", "float32", [600, 4096, 50257]]
    assert [backward[key] for key in ("direction", "dtype", "widths")] == ["backward", "bfloat16", [600]]
    fused = next(line for line in forward["lines"] if line["kernel"] == "fused")
    share = 100 * 16384 * 600 * 8 / 20.0 / 1e3 / 4000  # the 16,384 rows, not the 64
    assert fused["percent"][600] == pytest.approx(share)


def test_the_dispatched_softmax_is_not_drawn_a_second_time():
    assert [line["kernel"] for line in shares(CONTEST)["panels"][0]["lines"]] == ["fused", "quack"]


def test_bars_are_those_of_the_standards_against_a_copy():
    forward, backward = shares(CONTEST)["panels"]
    assert forward["bars"] == {600: 97.0, 50257: 95.0}
    assert backward["bars"] == {}


def test_left_out_is_who_refused_the_shape_that_is_drawn():
    assert shares(CONTEST)["panels"][0]["left_out"] == [{"kernel": "quack", "cols": 50257}]


def test_a_contest_without_rows_is_refused():
    with pytest.raises(LabError, match="the contest of h200 has no row"):
        shares(contest([]))


def test_the_stretched_axis_is_monotonic_and_has_an_inverse():
    percent = np.linspace(0, 107, 400)
    assert (np.diff(stretched(percent)) > 0).all()
    assert unstretched(stretched(percent)) == pytest.approx(percent)
    assert stretched(np.array([0.0, 107.0])) == pytest.approx([0, 1])


def test_the_picture_names_kernels_and_widths(tmp_path):
    draw(shares(CONTEST), tmp_path / "b.png", tmp_path / "b.svg")
    svg = (tmp_path / "b.svg").read_text()
    for text in (">fused<", ">quack<", ">50,257<", "forward, float32", "NVIDIA H200", ">97<", ">×<"):
        assert text in svg, text
    assert ">liger<" not in svg
    assert (tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")


def test_a_stale_contest_is_drawn_hollow_and_said(tmp_path):
    for name, changes in (("fresh", {}), ("stale", {"restored": {"stale": True}})):
        draw(shares(CONTEST | changes), tmp_path / f"{name}.png", tmp_path / f"{name}.svg")
    fresh, stale = ((tmp_path / f"{name}.svg").read_text() for name in ("fresh", "stale"))
    assert "(record of 2026-11-20, stale)" in stale
    assert "stale" not in fresh
    assert stale.count("fill: #ffffff; stroke: #0072b2") > fresh.count("fill: #ffffff; stroke: #0072b2") == 0


def test_the_same_contest_gives_the_same_bytes(tmp_path):
    for name in "ab":
        draw(shares(CONTEST), tmp_path / f"{name}.png", tmp_path / f"{name}.svg")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
