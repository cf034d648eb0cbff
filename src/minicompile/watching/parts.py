"""Which buffer holds each of an operation's several results, the mean beside the variance say.

Inductor names a buffer after the ATen node that it was at when it made it, which of such a result may be the whole
operation, or nothing. What lowering hands on for the result itself leads to the memory that it came to lie in.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from operator import getitem
from typing import Any
from unittest import mock

from minicompile.torch_private.names import owner
from minicompile.watching.choosing.hooking import aside


class Parts:
    """Results of the graphs that are being lowered."""

    def __init__(self) -> None:
        self._results: dict[int, tuple[Any, dict[str, Any]]] = {}  # graph, what its nodes became

    def patches(self) -> Iterator[AbstractContextManager]:
        """The patches to enter for the time of a compile."""
        graph_class = owner("save_output_code")
        run_node = graph_class.run_node

        def run(graph, node):
            result = run_node(graph, node)
            if node.target is getitem:
                self._results.setdefault(id(graph), (graph, {}))[1][node.name] = result
            return result

        yield mock.patch.object(graph_class, "run_node", run)

    def forget(self) -> None:
        """Let go of all results."""
        self._results.clear()

    def of(self, graph: Any) -> dict[str, str]:
        """By the ATen node that takes one of several results, the buffer that that result is, or is a view of."""
        _, results = self._results.get(id(graph), (graph, {}))
        found = ((name, _buffer(graph, result)) for name, result in results.items())
        return {name: buffer for name, buffer in found if buffer is not None}


@aside
def _buffer(graph: Any, result: Any) -> str | None:
    """The buffer that a result came to be, or that it is a view of; None where it is in no memory."""
    ir, memory = owner("ir"), result
    while isinstance(memory, ir.MutableBox | ir.BaseView):
        memory = memory.data
    held = isinstance(memory, ir.Buffer) and memory.get_name() in graph.name_to_buffer
    return memory.get_name() if held else None
