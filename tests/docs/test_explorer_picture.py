"""The explorer's picture in the README is of today's explorer, opened where something is to be seen."""

from pathlib import Path

import pytest
from PIL import Image
from recorded_pages import recorded

from docs.build import explorer_picture
from minilab import LabError

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs/images/explorer.png"


def test_the_picture_shows_the_tool_bar_of_today():
    with Image.open(PICTURE) as image:
        assert image.size == explorer_picture.SIZE
        assert image.text["Description"] == explorer_picture.laid_out(), "run `python -m docs.build explorer`"
    assert PICTURE.stat().st_size < 200_000


def test_it_is_opened_at_the_exponential_of_the_last_softmax():
    capture = recorded("25/minigpt/capture.json")
    pane, _, line = explorer_picture.address(capture).partition("/")[2].replace("%3A", ":").rpartition(":")
    texts = next(one for one in capture["panes"] if one["id"] == pane)["lines"]
    assert "aten.exp.default" in texts[int(line) - 1]


def test_without_a_browser_it_is_refused_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(explorer_picture, "BROWSERS", ())
    with pytest.raises(LabError, match="apt-get install chromium"):
        explorer_picture.take(recorded("25/minigpt/capture.json"), tmp_path / "picture.png")
