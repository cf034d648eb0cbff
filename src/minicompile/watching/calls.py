"""Which scheduler nodes each kernel call of the wrapper runs.

With provenance tracking on, Inductor writes a comment before each call, `[Provenance debug handles] name:7`.
The number is unique to the call, whatever kernel it calls. The comments are taken out again before the code is
compiled, so that it is the same, byte for byte, as without provenance; the line that each stood for is kept.
"""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from minicompile.torch_private.names import owner
from minicompile.watching.line_hooks import KernelDefinition
from minicompile.watching.traffic.traffic import UnknownSize, hints

MARK = re.compile(r"^[ \t]*(?:#|//) \[Provenance debug handles\] (?P<kernel>\S+):(?P<handle>\d+)$")
COMMENT = re.compile(r"^[ \t]*(?:#|//)")


def split_marks(code: str) -> tuple[str, list[dict]]:
    """The code without marks, and of each mark its kernel, handle and the line (from 1) of the call that it is for."""
    lines: list[str] = []
    marks: list[dict] = []
    for line in code.split("\n"):
        if match := MARK.match(line):
            marks.append({"kernel": match["kernel"], "handle": int(match["handle"]), "after": len(lines)})
        else:
            lines.append(line)
    ends = [mark["after"] for mark in [*marks, {"after": len(lines)}][1:]]
    return "\n".join(lines), [
        {"kernel": mark["kernel"], "handle": mark["handle"], "line": _call_line(lines, mark, end)}
        for mark, end in zip(marks, ends, strict=True)
    ]


def _call_line(lines: list[str], mark: dict, end: int) -> int | None:
    """The first line after a mark that calls its kernel, or the first statement there."""
    statements = [
        number
        for number in range(mark["after"] + 1, max(end, mark["after"] + 1) + 1)
        if number <= len(lines) and lines[number - 1].strip() and not COMMENT.match(lines[number - 1])
    ]
    call = re.compile(rf"(?<![\w.]){re.escape(mark['kernel'])}(?:\.run)?\(")
    return next((number for number in statements if call.search(lines[number - 1])), next(iter(statements), None))


def _bytes(workspace: Any, sizes: Any) -> int | None:
    try:
        return hints(sizes)(workspace.count) * workspace.dtype.itemsize
    except UnknownSize:
        return None


class KernelCalls:
    """The calls of the graph that is being compiled."""

    def __init__(self, definitions: list[KernelDefinition]) -> None:
        self.calls: list[dict] = []
        self.subgraphs: list = []  # branches and loop bodies within the graph, as Inductor holds them
        self._definitions = definitions
        self._nodes: dict[int, list[str]] = {}
        self._workspaces: dict[str, int | None] = {}

    def take(self) -> list[dict]:
        """Hand over the calls of the graph at hand, and forget it."""
        calls, self.calls, self.subgraphs = self.calls, [], []
        self._nodes.clear()
        return calls

    def take_workspaces(self) -> dict[str, int | None]:
        """Hand over the bytes of the memory in which blocks of the graph's kernels hand on what they have, by name.

        None where they follow from data.
        """
        found, self._workspaces = self._workspaces, {}
        return found

    def patches(self) -> Iterator[AbstractContextManager]:
        """The patches to enter for the time of a compile."""
        wrapper, graph, virtual = owner("call_mark"), owner("codegen"), owner("V").V
        write_mark, codegen = wrapper.write_provenance_debug_handle, graph.codegen
        allocate = wrapper.generate_workspace_allocation

        def marked(self_, kernel_name, debug_handle=None, *args, **kwargs):
            defined = self._definitions[-1] if self._definitions else None
            if defined and defined.name == kernel_name:
                self._nodes[debug_handle] = defined.scheduler_nodes
            else:
                current = getattr(virtual.graph.scheduler, "current_node", None)
                self._nodes[debug_handle] = [node.get_name() for node in current.get_nodes()] if current else []
            return write_mark(self_, kernel_name, debug_handle, *args, **kwargs)

        def unmarked(graph_, *args, **kwargs):
            if graph.codegen is not unmarked:  # a watch within this one reads the marks
                return codegen(graph_, *args, **kwargs)
            wrapper_code, kernel_code = codegen(graph_, *args, **kwargs)
            if graph_.name is not None:  # a subgraph's code becomes a part of its parent's, which is unmarked as one
                self.subgraphs.append(graph_)
                return wrapper_code, kernel_code
            lines = wrapper_code.value.split("\n")
            marks = [number for number, line in enumerate(lines, 1) if MARK.match(line)]
            value, calls = split_marks(wrapper_code.value)
            self.calls = [{**call, "scheduler_nodes": self._nodes.get(call["handle"], [])} for call in calls]
            line_map = [(line - sum(mark < line for mark in marks), node) for line, node in wrapper_code.line_map]
            return type(wrapper_code)(value, line_map), kernel_code

        def allocated(self_, workspace):
            used, name = _bytes(workspace, virtual.graph.sizevars), workspace.get_name()
            before = self._workspaces.get(name, 0)
            self._workspaces[name] = None if used is None or before is None else max(used, before)
            return allocate(self_, workspace)

        yield mock.patch.object(wrapper, "write_provenance_debug_handle", marked)
        yield mock.patch.object(wrapper, "generate_workspace_allocation", allocated)
        yield mock.patch.object(graph, "codegen", unmarked)
