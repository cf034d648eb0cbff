"""One of the modules that were to be compiled, and what became of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import CodeType
from typing import Any

from torch import nn

WHOLE = "(model)"
WHY = {  # a module runs eager; the limits have torch's names
    "blocked": "in the blocklist",
    "graph_break": "the graph breaks there",
    "left": "no call reaches compiled code",
    "never_called": "no call of it was seen",
    "not_compiled": "Dynamo cannot compile the frame",
    "nothing_to_compute": "there is nothing to compile",
    "skipped": "Dynamo skips the frame",
    "recompile_limit": "the frame reached the limit on recompiles",
    "accumulated_recompile_limit": "the frame reached the limit on recompiles",
}


@dataclass(slots=True)  # no `__dict__`: see `minicompile.safe.coverage.coverage.Coverage`
class Part:
    """One of the modules that were to be compiled.

    Attributes:
        slot: the attribute through which it is called.
        codes: the code objects at which its compiled code may begin.
        known: whether a call has been seen, here or in the process of the smoketest.
        reached: whether one has reached compiled code in this process.
        eager: the code of why it runs eager; None where it does not.
        since: when it began to, where it ran compiled before.
    """

    name: str
    module: Callable[[], nn.Module | None]
    slot: str
    codes: frozenset[CodeType]
    known: bool = False
    reached: bool = False
    eager: str | None = None
    since: str | None = None

    def frames(self) -> list[str]:
        """Where its compiled code may begin, as Dynamo's warnings write it."""
        return [f"'{code.co_name}' ({code.co_filename}:{code.co_firstlineno})" for code in self.codes]

    def called_by(self, calls: list[object]) -> bool:
        """Whether one of these compiled functions, or objects of compiled methods, is its own."""
        module = self.module()
        return any(one is module or getattr(one, "__code__", None) in self.codes for one in calls)


@dataclass
class Ran:
    """What was seen in one process, for another: why each part runs eager (None: it does not), and modules within."""

    parts: dict[str, str | None] = field(default_factory=dict)
    within: dict[str, str] = field(default_factory=dict)


def codes_of(function: Any) -> frozenset[CodeType]:
    """The code objects of a function and of what its decorators wrap."""
    found = set()
    while function is not None:
        code = getattr(function, "__code__", None)
        found |= {code} if isinstance(code, CodeType) else set()
        function = getattr(function, "__wrapped__", None)
    return frozenset(found)


def now() -> str:
    """The time, as a report gives it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
