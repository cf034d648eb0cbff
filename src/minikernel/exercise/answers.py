"""What stands in a learner's file, read and not run: the prediction, and whether the function is filled in yet.

    READS = 5
    WRITES = 3
    MEGABYTES = (READS + WRITES) * 4 * 4096 * 600 / 1e6
    SHARE_OF_COPY = 2 / 8

A prediction is a number, or arithmetic of numbers and of answers above it; None is none yet.
"""

import ast
import math
import operator
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

QUESTIONS = {"reads": "READS", "writes": "WRITES", "megabytes": "MEGABYTES", "share_of_copy": "SHARE_OF_COPY"}
LARGEST = 1 << 18  # bytes of a file; an exercise takes some thousand
NOT_YET = "not filled in yet"
ARITHMETIC: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class Answers(NamedTuple):
    """What a file says.

    Attributes:
        unfilled: whether its function is still the one that the lab ships.
        predicted: question -> the number that is predicted, None where there is none yet.
    """

    unfilled: bool
    predicted: dict[str, float | None]


def answers_in(source: str | Path) -> Answers:
    """Read a learner's file.

    Raises:
        OSError: it cannot be read.
    """
    with open(source, "rb") as file:
        return answers_of(file.read(LARGEST))


def answers_of(text: bytes) -> Answers:
    """Read the text of a learner's file; one that is no Python says nothing, and whoever runs it says why."""
    try:
        return _answers(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Answers(False, dict.fromkeys(QUESTIONS))


def _answers(tree: ast.Module) -> Answers:
    known: dict[str, float] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            value, name = _number(node.value, known), node.targets[0].id
            known.pop(name, None)
            known |= {} if value is None else {name: value}
    return Answers(_is_unfilled(tree), {question: known.get(name) for question, name in QUESTIONS.items()})


def _number(node: ast.AST, known: dict[str, float]) -> float | None:
    """The value of arithmetic; None for anything else, and for what is no finite number."""
    value: float | None = None
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        value = float(node.value) if abs(node.value) < 1e300 else None
    elif isinstance(node, ast.Name):
        value = known.get(node.id)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inside = _number(node.operand, known)
        value = None if inside is None else -inside
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        left, right = _number(node.left, known), _number(node.right, known)
        if left is not None and right is not None and not (isinstance(node.op, ast.Div) and right == 0):
            value = ARITHMETIC[type(node.op)](left, right)
    return value if value is not None and math.isfinite(value) else None


def _is_unfilled(tree: ast.Module) -> bool:
    """Whether a function only says that it is not written, or the C++ in a text begins with saying so."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            if len(body) == 1 and isinstance(body[0], ast.Raise) and "NotImplementedError" in ast.dump(body[0]):
                return True
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return any(f"#error {NOT_YET}" in text for text in texts)
