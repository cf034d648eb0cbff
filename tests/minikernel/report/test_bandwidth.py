"""The contest's picture: how near a copy the lab's best kernel and the best of the others come, by width."""

from pathlib import Path

import pytest
from artefacts import contest, contest_row

from minikernel.report.bandwidth_plot import draw, shares
from minilab import LabError

ROWS = [
    contest_row("fused", 600, 1.0, rows=64),
    *(contest_row("fused", cols, cols / 30) for cols in (600, 4096, 50257)),
    *(contest_row("naive", cols, cols / 3) for cols in (600, 4096)),
    *(contest_row("softmax", cols, cols / 40) for cols in (600, 4096, 50257)),
    *(contest_row("quack", cols, cols / 28) for cols in (600, 4096)),
    *(contest_row("liger", cols, cols / 20) for cols in (600, 4096)),
    contest_row("fused", 600, 40.0, "backward", "bfloat16"),
]
CONTEST = contest(ROWS)


def share(cols: int, us: float) -> float:
    return 100 * 16384 * cols * 8 / us / 1e3 / 4000


def test_each_panel_holds_one_direction_and_dtype_at_the_most_rows():
    forward, backward = shares(CONTEST)["panels"]
    assert [forward[key] for key in ("direction", "dtype", "widths")] == ["forward", "float32", [600, 4096, 50257]]
    assert [backward[key] for key in ("direction", "dtype", "widths")] == ["backward", "bfloat16", [600]]
    assert forward["lines"]["fused"][600] == pytest.approx(share(600, 20.0))  # the 16,384 rows, not the 64


def test_the_fastest_of_each_side_is_in_front():
    forward, backward = shares(CONTEST)["panels"]
    assert forward["ours"] == {cols: pytest.approx(share(cols, cols / 30)) for cols in (600, 4096, 50257)}
    assert forward["peer"] == {cols: pytest.approx(share(cols, cols / 28)) for cols in (600, 4096)}
    assert backward["peer"] == {}


def test_the_dispatched_softmax_is_not_drawn_a_second_time():
    assert list(shares(CONTEST)["panels"][0]["lines"]) == ["fused", "naive", "quack", "liger"]


def test_faster_means_by_more_than_the_noise_and_counts_only_places_with_both_sides():
    assert shares(CONTEST)["score"] == {"count": 2, "ahead": 2, "behind": 0}
    noisy = [row | {"noise_floor": 0.1} if row["cols"] == 600 else row for row in ROWS]
    assert shares(contest(noisy))["score"] == {"count": 2, "ahead": 1, "behind": 0}
    slower = [row | {"median_us": 9e9} if row["kernel"] in ("fused", "naive") else row for row in ROWS]
    assert shares(contest(slower))["score"] == {"count": 2, "ahead": 0, "behind": 2}


def test_a_contest_without_rows_is_refused():
    with pytest.raises(LabError, match="the contest of h200 has no row"):
        shares(contest([]))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the picture, drawn twice, and that of the same contest when it is stale."""
    folder = tmp_path_factory.mktemp("drawn")
    for name, changes in (("fresh", {}), ("again", {}), ("stale", {"restored": {"stale": True}})):
        draw(shares(CONTEST | changes), folder / f"{name}.png", folder / f"{name}.svg")
    return folder


def test_the_picture_says_who_is_faster_and_names_the_widths(drawn: Path):
    svg = (drawn / "fresh.svg").read_text()
    for text in ("the lab's best", "the best of all others", ">50,257<", "forward, float32", "NVIDIA H200"):
        assert text in svg, text
    assert "Ours is faster at 2 of 2 places and slower at 0." in svg
    assert (drawn / "fresh.png").read_bytes().startswith(b"\x89PNG")


def test_a_stale_contest_is_drawn_hollow_and_said(drawn: Path):
    fresh, stale = ((drawn / f"{name}.svg").read_text() for name in ("fresh", "stale"))
    assert "(record of 2026-11-20, stale)" in stale
    assert "stale" not in fresh
    assert stale.count("fill: #ffffff; stroke: #0072b2") > fresh.count("fill: #ffffff; stroke: #0072b2") == 0


def test_the_same_contest_gives_the_same_bytes(drawn: Path):
    for kind in ("png", "svg"):
        assert (drawn / f"fresh.{kind}").read_bytes() == (drawn / f"again.{kind}").read_bytes()
