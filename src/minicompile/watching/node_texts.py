"""What Inductor prints of its nodes, each text once.

A node is printed before fusion and again when its code has been written. Most of it is the same: printing a loop body
compiles a module each time, whose text is its graph's, and printing dependencies walks all their expressions. One index
stands in what a node reads, in its loop body and in what the capture keeps of both, and sympy takes as long to print it
each time.
"""

import re
from collections.abc import Callable, Iterator, Set
from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from unittest import mock

import sympy

from minicompile.watching.choosing.hooking import Hooks

DELETIONS = re.compile(r";[^\n]*")  # of variables, which Inductor leaves out of a loop body


class NodeTexts:
    """Texts that were printed, by what they depend on."""

    def __init__(self) -> None:
        self._hooks = Hooks()
        self._texts: dict[Any, str] = {}
        self._blocks: dict[tuple[int, str], tuple[Any, list, str]] = {}  # graph, what it held, its text

    def patches(self) -> Iterator[AbstractContextManager]:
        """The patches to enter for the time of a compile."""
        yield from self._hooks.around("pformat", self._set)
        yield from self._hooks.around("block_text", self._block)
        for method in ("__str__", "__repr__"):
            yield mock.patch.object(sympy.Basic, method, self._expression(getattr(sympy.Basic, method)))

    def _once(self, key: Any, printed: Callable[[], str]) -> str:
        if key not in self._texts:
            self._texts[key] = printed()
        return self._texts[key]

    def _set(self, original):
        def pformat(obj):
            if isinstance(obj, Set):  # of dependencies, which are never changed
                return self._once(tuple(obj), partial(original, obj))
            return original(obj)

        return pformat

    def _expression(self, original):
        def printed(expression):  # never changed; of another type, 1 and 1.0 say, one may equal it
            return self._once((type(expression), expression), partial(original, expression))

        return printed

    def _block(self, _original):
        def debug_str(block, name="block"):
            graph = block.graph
            held = [(node.name, node.target, node.args, [*map(type, node.args)], node.kwargs) for node in graph.nodes]
            known = self._blocks.get((id(graph), name))
            if known is None or known[1] != held:
                code = graph.python_code("self").src.strip().replace("def forward(", f"def {name}(")
                self._blocks[id(graph), name] = known = (graph, held, DELETIONS.sub("", code))
            return known[2]

        return debug_str
