"""What is said of a compile, with what shows it: a fact is told in the words of its evidence and in no others.

`values`: what was generated was run beside the ATen graph, and the numbers are the same. It is said plainly. `notes`:
Inductor noted down what it made a line or a buffer for. Its notes are for people and are wrong at times, so that what
follows from them is said to be theirs.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NoReturn

from minicompile.lowering.by_values import is_verified
from minicompile.lowering.captured import Call, Capture, Node

Kind = Literal["values", "notes"]


@dataclass(frozen=True)
class Fact:
    """A sentence, or a part of one, and what shows it. It has no text until `Wording.told` gives it the words of its
    evidence."""

    what: str
    evidence: Kind

    def __str__(self) -> NoReturn:
        raise TypeError("a fact is told in the words of its evidence: Wording.told")

    __format__ = __html__ = __str__  # type: ignore[assignment]


def weakest(kinds: Iterable[Kind]) -> Kind:
    """The evidence of what follows from several facts: it is shown by values where all of them are."""
    return "values" if all(kind == "values" for kind in kinds) else "notes"


def of_call(call: Call) -> Kind:
    """What shows which ATen nodes a call computes."""
    return "values" if is_verified(call) else "notes"


def of_fate(node: Node) -> Kind:
    """What shows what became of a node's result; of an input and a length nothing has to be shown."""
    return "values" if node["fate"] is None else node.get("by", "notes")


def is_all_verified(capture: Capture) -> bool:
    """Whether all that is told of a capture's kernels and of their nodes' results is shown by values."""
    return all(
        of_call(call) == "values" for graph in capture["graphs"] for call in graph["calls"] if not call["extern"]
    )
