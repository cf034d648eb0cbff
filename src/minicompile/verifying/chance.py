"""Nodes that a line may have the values of by chance: it is one where its text can be that operation.

Of few kinds of values any line may have them. Of many it may where numbers are alike for the model's own reasons: less
a mean that is 0 already; of two samples, whose square deviations are one; at an index that is always the first; read,
though the graph computes it as well.
"""

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
# and whatever the values
NAMED = {
    "abs": "abs|where|max", "sign": "sign|[<>]|where", "exp": "exp", "log": "log", "sqrt": "sqrt|pow",
    "rsqrt": "sqrt|pow", "erf": "erf", "sin": "sin", "cos": "cos", "tanh": "tanh|exp", "maximum": "max|where",
    "minimum": "min|where",
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"), "scan"),
}  # fmt: skip
# and but where a block of C++ begins, or where what such a block gives is taken
WRITTEN = {
    "mul": r"[*&]|fn?m[as]|where", "add": r"[+|-]|fn?m[as]", "sub": r"[+-]|fn?m[as]", "div": r"[/*]|div|>>",
    "neg": "-|neg", "reciprocal": "/|reciprocal", "sigmoid": "sigmoid|exp", "pow": "[*/]|pow|sqrt|reciprocal",
    **dict.fromkeys(("max", "amax", "argmax"), "max|where|[<>]"),
    **dict.fromkeys(("min", "amin", "argmin"), "min|where|[<>]"),
}  # fmt: skip
BLOCK = re.compile(r"^\s*$|\[&\]|tmp\d+\(\)")
# operations that a sum of two values is not, whatever the values
NO_SUM = ("mul", "div", "pow", "exp", "log", "sqrt", "rsqrt", "reciprocal", "sigmoid", "tanh", "erf")
SUM = re.compile(r"^\s*tmp\d+ [+-] tmp\d+;?\s*$")
# nor a value that is only passed on: read from memory that holds another, cast, given the block's shape
NO_MOVE = (
    *NO_SUM, "add", "sub", "neg", "abs", "sign", "relu", "maximum", "minimum", "max", "min",
    "amax", "amin", "argmax", "argmin",
)  # fmt: skip
MOVE = re.compile(
    r"^\s*(?:tl\.broadcast_to\(tmp\d+, [^()]*\)|\(?(?:tmp\d+|[a-z]+\d?_?\d*)\)?\.to\([\w.]+\)"
    r"|tl\.where\([^,]*mask[^,]*, tmp\d+, [^,]*\))\s*$"
)
CHOSEN = re.compile(r"^\s*tl\.where\(\w+, (tmp\d+), (tmp\d+)\)\s*$")
# of two values, one of which may be 1 or 0: it then has the other's
OF_TWO = re.compile(r"^\s*tmp\d+ [-+*/] tmp\d+;?\s*$")
# by operation what the text of a kernel that computes it has: of sorted values, too, every sort has the values
UNMISTAKABLE = dict.fromkeys(("sort", "argsort", "msort", "topk"), re.compile("sort|topk"))
# operations that read where a value says, which a text shows up to their line
AT_VALUES = ("gather", "index", "index_select", "embedding", "take")
# ... and that add where a value says: their result is in memory alone
SCATTERED = ("_unsafe_masked_index_put_accumulate", "scatter_add", "scatter_reduce", "index_add")
BY_VALUE = re.compile(r"load\w*\(\w+ \+ \(?[^,]*\btmp\d|ptr\d+\[[^\]]*\btmp")
INPUT = "placeholder"  # of a graph: where it is read, and where that is passed on
READS = re.compile(r"tl\.load|ptr\d+ \+|ptr\d+\[|loadu?\(")
NAMES = re.compile(r"\btmp(?:_acc)?\d+\b")


def operation(target: object) -> str:
    """`any` of `aten.any.dims`."""
    return str(target).removeprefix("aten.").partition(".")[0]


def shows(operation: str | None) -> bool:
    """Whether what a kernel computes of an operation is on one of its lines."""
    return operation in NO_MOVE or operation in UNMISTAKABLE or operation in NAMED or operation in WRITTEN


def is_no_line_of(operation: str, right: str, reads: bool, up_to_index: bool, text: str) -> bool:
    """Whether a line cannot be the one that computes an operation, whatever its values.

    Args:
        right: of the line, what is right of its equals sign.
        reads: whether it reads memory.
        up_to_index: whether no line before it reads where a value says.
        text: the kernel's.
    """
    if operation in UNMISTAKABLE:
        return UNMISTAKABLE[operation].search(text) is None
    if operation in AT_VALUES:
        return up_to_index
    if operation in SCATTERED:
        return not reads
    if operation == "mul" and (chosen := CHOSEN.match(right)):  # as a factor of 0 or 1 is written: one of both is 0
        return not any(re.search(rf"\b{one} = tl\.full\([^=]*\], 0(?:\.0)?,", text) for one in chosen.groups())
    if operation in NO_MOVE and (reads or MOVE.match(right) is not None):
        return True
    signs = NAMED.get(operation) or (WRITTEN.get(operation) if not BLOCK.search(right) else None)
    return signs is not None and re.search(signs, right) is None


def without_chance(
    lines: Iterable[Line], text: str, few: dict[str, str], loaded: Collection[str], operations: dict[str, str]
) -> tuple[list[Line], set[str]]:
    """The lines without nodes that they have the values of by chance; and the nodes that some line is.

    Args:
        lines: of a kernel, in order.
        text: the kernel's.
        few: by node of few kinds of values its operation.
        loaded: nodes that the kernel reads.
        operations: by node its operation.
    """
    made, shown = list[Line](), set[str]()
    by_name: dict[str, set[str]] = {}
    texts = text.split("\n")
    first_at_value = next((number for number, one in enumerate(texts, 1) if BY_VALUE.search(one)), len(texts) + 1)
    for line in lines:
        _, _, right = texts[line["line"] - 1].partition("=") if 0 < line["line"] <= len(texts) else ("", "", "")
        before = {node for name in NAMES.findall(right) for node in by_name.get(name, ())}
        reads = READS.search(right) is not None
        up_to_index = line["line"] < first_at_value

        def is_here(
            node: str, right: str = right, before: set[str] = before, reads: bool = reads, up: bool = up_to_index
        ) -> bool:
            operation = operations.get(node, "")
            known = node in before or (reads and node in loaded)
            if known and text and OF_TWO.match(right) and is_no_line_of(operation, right, False, up, text):
                return False
            if operation in NO_SUM and SUM.match(right):
                return False
            if not known and text and operation == INPUT:
                return False
            elsewhere = node not in loaded or operation in SCATTERED
            if not known and text and elsewhere and is_no_line_of(operation, right, reads, up, text):
                return False
            if known or few.get(node) not in TEXTS:
                return True
            return re.search(TEXTS[few[node]], right) is not None

        nodes = [node for node in line["nodes"] if is_here(node)]
        by_name.setdefault(line["name"], set()).update(nodes)
        shown |= {*nodes}
        made.append(Line(**{**line, "nodes": nodes, "part": None if line["nodes"] and not nodes else line["part"]}))
    return made, shown
