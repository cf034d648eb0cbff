"""Panes of text, and links between their lines.

A pane is a list of lines under an id; line 12 of pane `aten.0.forward` has the id `aten.0.forward:12`. Links are
pairs of line numbers between two panes, kept by pane and kind so that thousands of them stay small.
"""

import re
from collections.abc import Iterable

# `    add: "f32[2, 16]" = torch.ops...`: how FX writes a node's definition
DEFINITION = re.compile(r"^\s+(\w+)(?:\s*:\s*\"[^\"]*\")?\s*=\s")
SIGNATURE = re.compile(r"(\w+)\s*:\s*\"[^\"]*\"")


class Panes:
    """The panes of one capture, in the order in which they are added."""

    def __init__(self) -> None:
        self.panes: list[dict] = []
        self._links: dict[tuple[str, str, str], dict[tuple[int, int], None]] = {}

    def add(
        self, pane: str, kind: str, title: str, language: str, lines: Iterable[str], graph: str | None = None
    ) -> str:
        """Add a pane and return its id."""
        self.panes.append(
            {"id": pane, "kind": kind, "title": title, "language": language, "graph": graph, "lines": list(lines)}
        )
        return pane

    def link(self, kind: str, first: str, first_line: int | None, second: str, second_line: int | None) -> None:
        """Tie a line to a line of a later pane; nothing happens where either is unknown."""
        if first_line and second_line:
            self._links.setdefault((first, second, kind), {})[first_line, second_line] = None

    def links(self) -> list[dict]:
        """Every link, by pane and kind: `from`, `to`, `kind`, and `pairs` of lines, sorted."""
        return [
            {"from": first, "to": second, "kind": kind, "pairs": [list(pair) for pair in sorted(pairs)]}
            for (first, second, kind), pairs in self._links.items()
        ]


def definition_lines(lines: list[str]) -> dict[str, int]:
    """Line (from 1) on which each node of a printed FX graph is defined; placeholders are in the signature."""
    found: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("def forward("):
            for name in SIGNATURE.findall(line):
                found.setdefault(name, number)
        elif match := DEFINITION.match(line):
            found.setdefault(match[1], number)
        elif line.lstrip().startswith("return "):
            found.setdefault("output", number)
    return found


def stacked(items: Iterable[tuple[str, str]]) -> tuple[list[str], dict[str, int]]:
    """Texts one below the other with a blank line between, and the line (from 1) at which each named one starts."""
    lines: list[str] = []
    starts: dict[str, int] = {}
    for name, text in items:
        starts[name] = len(lines) + 1
        lines += [*text.rstrip().splitlines(), ""]
    return lines, starts
