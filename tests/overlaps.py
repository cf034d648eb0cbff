"""Texts of a picture that stand on one another, or outside of it, by the boxes that matplotlib gives of them."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

SLACK = 1.0  # pixels: a box has that much of empty ground around its letters


def boxes(figure: Figure) -> list[tuple[str, np.ndarray]]:
    """Each text that is drawn, and the four corners of its box, slanted as the text is; (4, 2), in pixels."""
    drawn: list[Text] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", lambda text, renderer: drawn.append(text) if text.get_visible() else None)
        figure.canvas.draw()
    return [(text.get_text(), corners(text)) for text in drawn if text.get_text().strip()]


def corners(text: Text) -> np.ndarray:
    whole, angle = Text.get_window_extent(text), text.get_rotation()
    text.set_rotation(0)
    sides = Text.get_window_extent(text).size / 2 - SLACK / 2
    text.set_rotation(angle)
    turn = np.array([[np.cos(np.radians(angle)), np.sin(np.radians(angle))]])
    across, up = turn[0] * sides[0], turn[0][::-1] * [-1, 1] * sides[1]
    middle = (whole.min + whole.max) / 2
    return np.array([middle + i * across + j * up for i, j in ((-1, -1), (1, -1), (1, 1), (-1, 1))])


def apart(one: np.ndarray, two: np.ndarray) -> bool:
    """Whether some side of two boxes lies between them."""
    for box in (one, two):
        for side in (box[1] - box[0], box[2] - box[1]):
            a, b = one @ side, two @ side
            if a.max() <= b.min() or b.max() <= a.min():
                return True
    return False


def overlaps(figure: Figure) -> list[str]:
    """What is wrong: `a | b` for two texts that overlap, `a |` for one that the picture cuts off."""
    placed, whole = boxes(figure), figure.bbox
    wrong = [f"{one} | {two}" for (one, a), (two, b) in combinations(placed, 2) if not apart(a, b)]
    return wrong + [f"{said} |" for said, box in placed if (box < whole.min).any() or (box > whole.max).any()]


@pytest.fixture(autouse=True)
def no_text_over_text(monkeypatch: pytest.MonkeyPatch):
    """Whatever a test draws is looked at as it is saved."""
    save = Figure.savefig

    def looked_at(figure: Figure, *arguments: Any, **named: Any) -> None:
        wrong = overlaps(figure)
        assert not wrong, "; ".join(wrong)
        save(figure, *arguments, **named)

    monkeypatch.setattr(Figure, "savefig", looked_at)
