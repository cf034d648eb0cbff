"""Templates that were never offered for a product: which predicate of Inductor's said no, and at which condition.

A predicate such as `use_cpp_gemm_template` is a chain of conditions. Which of them decided is read off the lines that
ran and the predicate's own source, so none of it is written again here.
"""

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import cache, wraps
from types import CodeType, FrameType
from typing import Any
from unittest import mock

from minicompile.torch_private.names import lookup
from minicompile.watching.choosing.hooking import Hooks, aside, loaded_modules

KINDS = {
    "use_cpp_gemm_template": "cpp",
    "use_cpp_bmm_template": "cpp",
    "use_triton_template": "triton",
    "use_cutlass_template": "cutlass",
}
PARTS = ("use_", "_use_")  # a predicate asks others, whose names begin so


def patches(hooks: Hooks, refused: Callable[[str, str, dict], None]) -> Iterator[AbstractContextManager]:
    """The patches to enter for the time of a compile, in each module of Inductor's that asks a predicate.

    Args:
        hooks: learns which predicates are absent.
        refused: is told of each one that says no, for a device that its template is for: its name, the template's
            kind, and what decided, as `predicate`, `condition` and that one's `value`.
    """
    modules = loaded_modules("torch._inductor")
    for name, kind in KINDS.items():
        original = lookup(name)
        if original is None:
            hooks.absent.append(name)
            continue
        asked = _watched(name, kind, original, refused)
        for module in modules:
            if vars(module).get(name) is original:
                yield mock.patch.object(module, name, asked)


def _watched(name: str, kind: str, original: Callable, refused: Callable[[str, str, dict], None]) -> Callable:
    @wraps(original)
    def asked(layout: Any, *args: Any, **kwargs: Any) -> Any:
        if (kind == "cpp") != (layout.device.type == "cpu"):  # a template for another device
            return original(layout, *args, **kwargs)
        follower = _Follower(original.__code__)
        before = sys.gettrace()
        sys.settrace(follower.enter)
        try:
            answer = original(layout, *args, **kwargs)
        finally:
            sys.settrace(before)
        if not answer and follower.decided is not None:
            refused(name, kind, follower.decided)
        return answer

    return asked


class _Follower:
    """Follows a predicate, and those that it asks, line by line, and keeps what decided where one says no."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.decided: dict | None = None
        self._lines: dict[FrameType, set[int]] = {}  # that ran

    def enter(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        code = frame.f_code
        asks = code.co_name.startswith(PARTS) and code.co_filename == self.code.co_filename
        return self._follow if asks or code is self.code else None

    def _follow(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._lines.setdefault(frame, set()).add(frame.f_lineno)
        elif event == "return":
            lines = self._lines.pop(frame, set())
            if not argument:
                self._decide(frame.f_code, frozenset(lines))
        return self._follow

    @aside
    def _decide(self, code: CodeType, lines: frozenset[int]) -> None:
        """A condition that is another predicate's answer leaves that one's reason standing."""
        condition, value = _condition(code, lines)
        if self.decided is None or f"{self.decided['predicate']}(" not in condition:
            self.decided = {"predicate": code.co_name, "condition": condition, "value": str(value)}


@cache
def _condition(code: CodeType, lines: frozenset[int]) -> tuple[str, bool]:
    """What decided that a predicate returns a false value, and what that was.

    Args:
        code: of the predicate.
        lines: those that ran. A chain of `and`s stops at its first false part, which the furthest line is in.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    ast.increment_lineno(tree, code.co_firstlineno - 1)
    last = max(lines)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and any(_is_within(last, one) and _returns_constant(one) for one in node.body):
            return ast.unparse(node.test), True
    returned = next(node for node in ast.walk(tree) if isinstance(node, ast.Return) and _is_within(last, node))
    statement: Any = returned
    if isinstance(returned.value, ast.Name):  # given a value before
        name = returned.value.id
        given = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
        statement = next(node for node in reversed(given) if name in map(ast.unparse, node.targets))
    last = max(line for line in lines if _is_within(line, statement))
    parts = _anded(statement.value)
    return ast.unparse(next((part for part in parts if _is_within(last, part)), statement.value)), False


def _anded(value: Any) -> list[ast.expr]:
    """The parts of a chain of `and`s."""
    if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.And):
        return [part for one in value.values for part in _anded(one)]
    return [value]


def _is_within(line: int, node: Any) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _returns_constant(node: ast.AST) -> bool:
    return isinstance(node, ast.Return) and isinstance(node.value, ast.Constant)
