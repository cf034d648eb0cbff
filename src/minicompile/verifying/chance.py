"""Nodes of so few kinds of values that any line may have them: a line is one where its text can be that operation."""

import re
from collections.abc import Collection, Iterable

from minicompile.verifying.ties import Line

COMPARED = r"[<>]|[!=]=|isnan|isinf|isfinite"
# by operation what stands in a line that computes it, in Triton or in C++
TEXTS = {
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf"), COMPARED),
    **dict.fromkeys(("logical_not", "bitwise_not"), rf"{COMPARED}|~|!|\bnot\b"),
    **dict.fromkeys(("logical_and", "bitwise_and", "all"), r"&|\ball\b|min|reduce_all"),
    **dict.fromkeys(("logical_or", "bitwise_or", "any"), r"\||any\b|max|!=|reduce_all"),
    **dict.fromkeys(("logical_xor", "bitwise_xor"), r"\^|!="),
}
READS = re.compile(r"tl\.load|ptr\d+ \+|ptr\d+\[|loadu?\(")
NAMES = re.compile(r"\btmp(?:_acc)?\d+\b")


def operation(target: object) -> str:
    """`any` of `aten.any.dims`."""
    return str(target).removeprefix("aten.").partition(".")[0]


def without_chance(
    lines: Iterable[Line], text: str, few: dict[str, str], loaded: Collection[str]
) -> tuple[list[Line], set[str]]:
    """The lines without nodes that they have the values of by chance; and the nodes that some line is.

    Args:
        lines: of a kernel, in order.
        text: the kernel's.
        few: by node of few kinds of values its operation.
        loaded: nodes that the kernel reads.
    """
    made, shown = list[Line](), set[str]()
    by_name: dict[str, set[str]] = {}
    texts = text.split("\n")
    for line in lines:
        _, _, right = texts[line["line"] - 1].partition("=") if 0 < line["line"] <= len(texts) else ("", "", "")
        before = {node for name in NAMES.findall(right) for node in by_name.get(name, ())}
        reads = READS.search(right) is not None

        def is_here(node: str, right: str = right, before: set[str] = before, reads: bool = reads) -> bool:
            if node not in few or few[node] not in TEXTS or node in before or (reads and node in loaded):
                return True
            return re.search(TEXTS[few[node]], right) is not None

        nodes = [node for node in line["nodes"] if is_here(node)]
        by_name.setdefault(line["name"], set()).update(nodes)
        shown |= {*nodes}
        made.append(Line(**{**line, "nodes": nodes, "part": None if line["nodes"] and not nodes else line["part"]}))
    return made, shown
