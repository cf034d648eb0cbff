"""Pointer arithmetic out of a kernel's text: `in_ptr0 + (r0_1 + 600*x0)` and `out_ptr0[static_cast<int64_t>(x0)]`.

Both come out as pointer and expression, the casts and suffixes of C++ taken off: `x1 + 600*x0`.
"""

import re
from functools import cache, lru_cache

from minicompile.explain.annotation.view import KernelView

CAST = "static_cast<int64_t>("
# how the text declares what its parameters point to; a size is a parameter too
DECLARED = {"cpp": re.compile(r"\w\* (\w+)"), "python": re.compile(r"'(\w+)': '\*")}
LOCAL = re.compile(r"^\s*\w[\w:]*\* (?P<name>\w+) = ")


def pointer_accesses(text: str, view: KernelView) -> list[tuple[str, str | None]]:
    """(pointer, expression) of each place in a line of the kernel that goes through one of its pointers.

    A block pointer and a tensor descriptor have shapes, strides and offsets instead of an expression: it is None.
    """
    return [
        (pointer, None if match["block"] else plain(_operand(text[match.end() :])))
        for pointer in pointers(view) if pointer in text
        for match in _through(pointer).finditer(text)
    ]  # fmt: skip


@lru_cache(maxsize=1)  # asked for each line of a kernel in turn
def pointers(view: KernelView) -> list[str]:
    """The kernel's pointers: its parameters, their other names, and those to scratch memory of its own."""
    local = [match["name"] for _, text in view.lines if (match := LOCAL.match(text))]
    declares = DECLARED[view.kernel["language"]]
    declared = {name for _, text in view.lines for name in declares.findall(text)}
    return [*(name for name in view.parameters if name in declared), *view.aliases, *local]


@cache
def _through(pointer: str) -> re.Pattern:
    """Where memory is reached through a pointer."""
    name = re.escape(pointer)
    block = rf"(?P<block>\bmake_(?:block_ptr|tensor_descriptor)\({name}, )"
    return re.compile(rf"(?<![\w.]){name}(?: \+ |\[)|\batomic_add_vec<[^>]*>\({name}, |{block}")


def plain(expression: str) -> str:
    """An index without C++'s casts and suffixes and without parentheses around all of it."""
    while (start := expression.find(CAST)) >= 0:
        inner = _operand(expression[start + len(CAST) :])
        expression = expression[:start] + f"({inner})" + expression[start + len(CAST) + len(inner) + 1 :]
    expression = re.sub(r"\b(\d+)L+\b", r"\1", expression)
    while expression.startswith("(") and len(_operand(expression[1:])) == len(expression) - 2:
        expression = expression[1:-1]
    return expression


def _operand(text: str) -> str:
    """The text up to the comma or bracket that ends the operand it begins with."""
    depth = 0
    for position, character in enumerate(text):
        if depth == 0 and character in ",)]":
            return text[:position]
        depth += (character in "([") - (character in ")]")
    return text
