"""What a kernel's lines are, by their text: `data/kernel_patterns.yaml`, read once.

The capture ties a line to an operation exactly; how the backend expresses it, and what the lines are that belong to
no operation, is read from the text, by patterns for what Inductor writes. A line that no pattern knows stays without.
"""

import re
from functools import cache
from pathlib import Path

import yaml

DATA = Path(__file__).parents[1] / "data" / "kernel_patterns.yaml"
SECTIONS = ("expressions", "variables", "scratch", "structure")


@cache
def reduction_kinds() -> dict[str, dict]:
    """Inductor's kinds of reduction, each with its `meaning`."""
    return yaml.safe_load(DATA.read_text())["reductions"]


@cache
def _patterns(section: str, language: str) -> list[tuple[re.Pattern, str]]:
    entries = yaml.safe_load(DATA.read_text())[section]
    return [(re.compile(entry["pattern"]), entry["sentence"]) for entry in entries if entry["language"] == language]


def said(text: str, section: str, language: str) -> str | None:
    """What the first pattern of a section that matches a line says of it; None where none does."""
    for pattern, sentence in _patterns(section, language):
        if match := pattern.search(text):
            return sentence.format(**match.groupdict())
    return None


def said_of_all(lines: list[tuple[int, str]], section: str, language: str) -> list[dict]:
    """`sentence` and `lines`: what a section says of a kernel, the same words once, in the order of their lines."""
    found: dict[str, list[int]] = {}
    for number, text in lines:
        if sentence := said(text, section, language):
            found.setdefault(sentence, []).append(number)
    return [{"sentence": sentence, "lines": numbers} for sentence, numbers in found.items()]


def not_as_named(kind: str | None, lines: list[tuple[int, str]]) -> str | None:
    """A sentence where a kernel computes a kind of reduction otherwise than its name says; None where it does not."""

    def stands(pattern: str) -> bool:
        return any(re.search(pattern, text) for _, text in lines)

    entry = reduction_kinds().get(kind, {})
    if "otherwise" not in entry or stands(entry["unless"]) or not all(map(stands, entry["shown"])):
        return None
    return entry["otherwise"]
