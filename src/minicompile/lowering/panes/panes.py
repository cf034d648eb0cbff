"""Panes of text, and links between their lines.

A pane is a list of lines under an id; line 12 of pane `aten.0.forward` has the id `aten.0.forward:12`. Links are
pairs of line numbers between two panes, kept by pane and kind so that thousands of them stay small.
"""

from collections.abc import Iterable

from minicompile.lowering.captured import Coded, Graph, Link, Pane

Place = int | tuple[int, ...] | None  # a line; of what was inlined, the line that it is on and those that call it
Mapped = list[tuple[str, Place]]  # lines, each with what it was made from


def lines_of(place: Place) -> tuple[int, ...]:
    """The lines of a place, of which there may be none."""
    return place if isinstance(place, tuple) else (place,) if place else ()


def place_of(lines: Iterable[int]) -> Place:
    """The place that these lines are together."""
    found = tuple(sorted(set(lines)))
    return found if len(found) > 1 else next(iter(found), None)


class Panes:
    """The panes of one capture, in the order in which they are added."""

    def __init__(self) -> None:
        self.panes: list[Pane] = []
        self._links: dict[tuple[str, str, str], set[tuple[int, int]]] = {}

    def add(
        self, pane: str, kind: str, title: Coded, language: str, lines: Iterable[str], graph: str | None = None
    ) -> str:
        """Add a pane and return its id; `title` is a code with its fields."""
        self.panes.append(
            {"id": pane, "kind": kind, "title": title, "language": language, "graph": graph, "lines": list(lines)}
        )
        return pane

    def add_machine(self, graph: Graph, number: int, kind: str, language: str, mapped: Mapped) -> str:
        """Add what one of a graph's kernels was compiled to, tied to lines of the code pane; returns the pane's id."""
        title = {"code": kind, "kernel": graph["kernels"][number]["name"]}
        lines = [text for text, _ in mapped]
        pane = self.add(f"{kind}.{graph['id']}.{number}", kind, title, language, lines, graph["id"])
        for number, (_, place) in enumerate(mapped, 1):
            for line in lines_of(place):
                self.link("machine", graph["panes"]["code"], line, pane, number)
        return pane

    def link(self, kind: str, first: str, first_line: int | None, second: str, second_line: int | None) -> None:
        """Tie a line to a line of a later pane; nothing happens where either is unknown."""
        # a line that no text has would lead a reader to nothing; what is not linked shows in the coverage
        if first_line and second_line:
            self._links.setdefault((first, second, kind), set()).add((first_line, second_line))

    def link_alike(self, pane: str, line: int, other: int) -> None:
        """Tie another line of a pane to whatever operations a line of it is tied to."""
        for (_, second, kind), pairs in self._links.items():
            if second == pane and kind == "operation":
                pairs |= {(first, other) for first, last in pairs if last == line}

    def extend(self, other: "Panes") -> None:
        """Add another's panes and links after these."""
        self.panes += other.panes
        for key, pairs in other._links.items():
            self._links.setdefault(key, set()).update(pairs)

    def links(self) -> list[Link]:
        """Every link, by pane and kind: `from`, `to`, `kind`, and `pairs` of lines, sorted."""
        return [
            {"from": first, "to": second, "kind": kind, "pairs": [list(pair) for pair in sorted(pairs)]}
            for (first, second, kind), pairs in self._links.items()
        ]
