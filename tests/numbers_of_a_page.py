"""Hold every number on a built page against the artefact that it came from.

`watched` notes what `minilab.pages.translations.number` writes while a page is made. `strangers` then finds the numbers
that no artefact has. A number is known if it is a leaf of an artefact, in the unit that the page gives it, or one of
the figures that a test derives again from leaves. Where a page names a device or a model, only artefacts of those
count, so a figure of another device is a stranger. `unwritten` finds the digits that nobody wrote through `number`:
somebody typed them.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from minilab.pages import translations

OPEN, CLOSE = "\N{LEFT-POINTING ANGLE BRACKET}", "\N{RIGHT-POINTING ANGLE BRACKET}"
TAG = re.compile(rf"{OPEN}(\d+):([^{CLOSE}]*){CLOSE}")
# Digits that are no figure: code, addresses, years of papers, numbers of a list, dates, versions, names with digits.
NO_FIGURE = re.compile(
    r"```.*?```|`[^`\n]*`|\]\([^)]*\)|[(,] ?(?:19|20)\d\d\)|^\d+\. |"
    r"\d{4}-\d\d-\d\d(?:[T ][\d:.+]+)?|\d+(?:\.\w+){2,}|[A-Za-zµ_][\w.]*",
    re.S | re.M,
)
# What a unit is, in seconds, bytes and operations; a leaf has its unit in its key, a page behind the number.
ON_PAGES = {
    "%": 1e-2, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "GB/s": 1e9, "TB/s": 1e12,
}  # fmt: skip
IN_KEYS = {"us": 1e-6, "ms": 1e-3, "milliseconds": 1e-3, "gb_per_s": 1e9, "tflop_per_s": 1e12, "percent": 1e-2}
ROUNDING = 1e-12  # by which a change of a unit may move a number
# Words of the pages that have digits.
SPELLED = (
    "stage 24", "stage 25", "etapa 24", "etapa 25", "Phase 24", "fase 24", "16-bit", "16 bits", "batch 1", "lote de 1",
)  # fmt: skip
UNIT = re.compile(rf"\s*({'|'.join(sorted(map(re.escape, ON_PAGES), key=len, reverse=True))})(?![\w/])")


class Figure(NamedTuple):
    """A number that was written: its value, and its text."""

    value: float
    text: str


@contextmanager
def watched() -> Iterator[list[Figure]]:
    """Note every number that is written inside, and mark it on its page as ⟨index:text⟩."""
    plain, figures = translations.written, []

    def written(value: float, text: str) -> str:
        figures.append(Figure(value, plain(value, text)))
        return f"{OPEN}{len(figures) - 1}:{figures[-1].text}{CLOSE}"

    translations.written = written
    try:
        yield figures
    finally:
        translations.written = plain


@dataclass(frozen=True, eq=False)
class Source:
    """An artefact that a page is written from.

    Attributes:
        artefact: its JSON.
        names: dimension -> what a page may call it there, as `{"device": ("h200", "NVIDIA H200")}`; a number beside
            another name of the same dimension is not this artefact's.
        derived: name -> the figures that follow from the artefact's leaves, as a test computes them again.
        in_tables: keys whose leaves stand in tables only, as ratios that a sentence says the other way round.
    """

    artefact: Any
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    derived: dict[str, Iterable[float]] = field(default_factory=dict)
    in_tables: tuple[str, ...] = ()


@cache
def known(source: Source, table: bool, unit: bool) -> set[str]:
    """Everything that a table or a sentence may say of it, as `key` writes it: leaves, the lengths of lists, and
    what is derived. Behind a number with a `unit` it is in seconds, bytes or operations, else as the leaf is."""
    found = set()
    for value, scale in leaves(source.artefact, left_out=() if table else source.in_tables):
        found.add(key(value * scale if unit else value))
    for values in source.derived.values():
        found |= {key(value) for value in values if value is not None}
    return found


def leaves(tree: Any, scale: float = 1.0, left_out: tuple[str, ...] = ()) -> Iterator[tuple[float, float]]:
    """Every number of a JSON tree with the scale of its unit, which its nearest key gives; lists count by length."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            if name in left_out:
                continue
            own = next((unit for ending, unit in IN_KEYS.items() if f"_{name}".endswith(f"_{ending}")), None)
            yield from leaves(value, own or scale, left_out)
    elif isinstance(tree, list | tuple):
        yield len(tree), 1.0
        for value in tree:
            yield from leaves(value, scale, left_out)
    elif isinstance(tree, int | float) and not isinstance(tree, bool):
        yield tree, scale


def key(value: float) -> str:
    """Ten digits of a number: as many as survive a change of its unit."""
    return f"{value:.9e}"


def strangers(page: str, figures: list[Figure], sources: list[Source]) -> list[str]:
    """The numbers on a page that none of its artefacts knows, each with its line.

    Args:
        page: as it was made under `watched`.
        figures: what was written.
        sources: all that the page was written from.
    """
    found = []
    for block, heading in _blocks(page):
        table = block.lstrip().startswith("|")
        for at in TAG.finditer(block):
            figure, unit = figures[int(at[1])], UNIT.match(block, at.end())
            percent = figure.text.endswith("%")
            value = figure.value * (ON_PAGES[unit[1]] if unit and not percent else 1.0)
            near = {key(value * (1 - ROUNDING)), key(value * (1 + ROUNDING))}
            meant = _meant(sources, block, at, heading)
            if not any(near & known(source, table, bool(unit) or percent) for source in meant):
                found.append(f"{figure.text} ({figure.value!r}) in: {TAG.sub(lambda tag: tag[2], block)}")
    return found


def _blocks(page: str) -> Iterator[tuple[str, str]]:
    """Every paragraph, item and row of a table, with the heading above it."""
    heading = ""
    for block in re.split(r"\n\s*\n|\n(?=\s*[-|#*<])", page):
        if block.lstrip().startswith(("#", "<details", "</details")):
            heading = block
        yield block, heading


def _meant(sources: list[Source], block: str, at: re.Match, heading: str) -> list[Source]:
    """The sources that a number can be of: those whose name stands nearest, or which have none."""
    for dimension in sorted({name for source in sources for name in source.names}):
        every = "|".join(sorted({re.escape(name) for one in sources for name in one.names.get(dimension, ())}))
        named = _nearest(every, block, at.start()) or _nearest(every, heading, 0)
        sources = [one for one in sources if not named or named in one.names.get(dimension, (named,))]
    return sources


@cache
def _nearest(names: str, text: str, place: int) -> str | None:
    """The name that stands last before a place, or else first behind it."""
    found = list(re.finditer(rf"(?<![\w-])(?:{names})(?![\w-])", text))
    before = [one for one in found if one.end() <= place]
    chosen = before[-1:] or found[:1]
    return chosen[0][0] if chosen else None


def unwritten(page: str, spelled: Iterable[str] = (), sources: Iterable[Source] = ()) -> list[str]:
    """The digits of a page that no figure wrote, in the page's order.

    Args:
        page: made under `watched`, or the text of a template.
        spelled: words with digits that a page may have, as `stage 24`.
        sources: whose texts a page may quote.
    """
    left = TAG.sub("", page)
    quoted = {text.strip() for source in sources for text in _texts(source.artefact) if re.search(r"\d", text)}
    for words in (*spelled, *sorted(quoted, key=len, reverse=True)):
        left = left.replace(words, "")
    return re.findall(r"\d+(?:[.,]\d+)*", NO_FIGURE.sub("", left))


def _texts(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict | list | tuple):
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from _texts(value)
    elif isinstance(tree, str) and len(tree) > 2:
        yield tree


def in_prose(page: str, figures: list[Figure]) -> set[float]:
    """The fractions that stand in a page's prose; tables, headings and code are left out."""
    prose = re.sub(r"^[|#][^\n]*|```.*?```", "", page, flags=re.S | re.M)
    shown = {int(at[1]) for at in TAG.finditer(prose)}
    return {figures[index].value for index in shown if figures[index].value % 1}
