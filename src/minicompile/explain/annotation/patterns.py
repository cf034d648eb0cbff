"""What a kernel's lines are, by their text: patterns of `data/kernel_patterns.yaml`, sentences of `kernel_lines.yaml`.

The capture ties a line to an operation exactly; how the backend expresses it, and what the lines are that belong to
no operation, is read from the text, by patterns for what Inductor writes. A line that no pattern knows stays without.
"""

import re
from functools import cache
from pathlib import Path

import yaml

from minilab.pages.translations import Translations

DATA = Path(__file__).parents[1] / "data" / "kernel_patterns.yaml"
SECTIONS = ("expressions", "variables", "scratch", "structure")


@cache
def _data() -> dict:
    return yaml.safe_load(DATA.read_text())


@cache
def _patterns(section: str, language: str) -> list[tuple[re.Pattern, str]]:
    """(pattern, key of its sentence) pairs, in order."""
    keyed = [entry for entry in _data()[section] if entry["language"] == language]
    return [(re.compile(entry["pattern"]), f"{section}.{entry['key']}") for entry in keyed]


def _words(reader: str) -> Translations:
    return Translations("minicompile.explain", "kernel_lines", reader)


def meaning(kind: str | None, reader: str = "en") -> str | None:
    """What a kind of reduction, by Inductor's name for it, computes; None for one that is not known."""
    words, key = _words(reader), f"reductions.{kind}.meaning"
    return words(key) if key in words else None


def said(text: str, section: str, language: str, reader: str = "en") -> str | None:
    """What the first pattern of a section that matches a line says of it; None where none does.

    Args:
        text: the line.
        section: of the patterns.
        language: that the kernel is written in, cpp or python.
        reader: the language that the sentence is in.
    """
    for pattern, key in _patterns(section, language):
        if match := pattern.search(text):
            return _words(reader)(key, **match.groupdict())
    return None


def said_of_all(lines: list[tuple[int, str]], section: str, language: str, reader: str = "en") -> list[dict]:
    """`sentence` and `lines`: what a section says of a kernel, the same words once, in the order of their lines."""
    found: dict[str, list[int]] = {}
    for number, text in lines:
        if sentence := said(text, section, language, reader):
            found.setdefault(sentence, []).append(number)
    return [{"sentence": sentence, "lines": numbers} for sentence, numbers in found.items()]


def not_as_named(kind: str | None, lines: list[tuple[int, str]], reader: str = "en") -> str | None:
    """A sentence where a kernel computes a kind of reduction otherwise than its name says; None where it does not."""

    def stands(pattern: str) -> bool:
        return any(re.search(pattern, text) for _, text in lines)

    entry = _data()["reductions"].get(kind or "")
    if entry is None or stands(entry["unless"]) or not all(map(stands, entry["shown"])):
        return None
    return _words(reader)(f"reductions.{kind}.otherwise")
