"""What Dynamo does frame by frame: which functions it compiles, why again, where it stops, and whose they are.

A compile is one of a frame: `id` is torch's name for it ("0/1": frame 0, compiled a second time), `graphs` are those
that came of it, `reason` is the guard that failed where it is a recompile, `failure` why it was given up, in Dynamo's
words. A graph break is where Dynamo stopped: after which graph and before which, at which frames of the user's.
"""

import functools
import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest import mock

from minicompile.torch_private.names import lookup, owner
from minicompile.watching.choosing.hooking import aside, loaded_modules
from minicompile.watching.collected import Session
from minicompile.watching.dynamo.asked import (
    COMPILED_AHEAD,
    COMPILED_FUNCTION,
    OURS,
    Asked,
    held,
    named,
    unwrapped,
    weakly,
)
from minicompile.watching.snapshot import described

TRACE_LOGGER = "torch.__trace"  # what TORCH_TRACE writes goes through it
GUARDS = "dynamo_cpp_guards_str"
STOPPED = "dynamo_graph_break_reason"
READ = ("compilation_metrics", "bwd_compilation_metrics", GUARDS)  # kinds of records
READ_ARTIFACTS = (GUARDS, STOPPED)  # of the kind `artifact` these
STACK = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
WITHOUT = re.compile(r"^\s*(?:For more details about this graph break|Developer debug context)")
LIBRARY = re.compile(r"^<|/site-packages/|/dist-packages/")
MODELS = OURS / "models.py"  # but for what a model is wrapped in there, which is compiled with it
LIMIT = re.compile(r"Dynamo recompile limit exceeded.*?exceeding the (\w+).*?currently set to (\d+)", re.DOTALL)
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class TraceHandler(logging.Handler):
    """Structured-trace records, in the process: what TORCH_TRACE writes, without setting it before the import."""

    def __init__(self, listener: Callable[[str, Any, Any], None]) -> None:
        super().__init__(logging.DEBUG)
        self._listener = listener

    def emit(self, record: logging.LogRecord) -> None:
        metadata = getattr(record, "metadata", None) or {}
        # torch puts the kind of a record first, before rank and stack; what an artifact is stands one level down.
        kind = next(iter(metadata), "")
        name = metadata[kind].get("name") if kind == "artifact" else kind
        self._listener(name, metadata.get(kind), getattr(record, "payload", None))


def without_unread(handler: TraceHandler, trace: Callable) -> Callable:
    """`trace_structured` without the records that nobody reads: a timeline and printed graphs, slow to write."""

    logger = logging.getLogger(TRACE_LOGGER)

    def is_read(name: str, metadata_of: Callable) -> bool:
        return name in READ or (name == "artifact" and metadata_of().get("name") in READ_ARTIFACTS)

    @functools.wraps(trace)
    def trace_structured(name: str, metadata_fn: Callable = dict, **kwargs: Any) -> None:
        others = logger.handlers != [handler]  # TORCH_TRACE has one of its own
        if others or is_read(name, metadata_fn):
            trace(name, metadata_fn, **kwargs)

    return trace_structured


def trace_patches(handler: TraceHandler) -> Iterator[AbstractContextManager]:
    """The patches with which `handler` gets what it reads, in each module of torch's that writes records."""
    if (trace := lookup("structured_trace")) is not None:
        traced = without_unread(handler, trace)
        # Each module of torch imports the function by its name, and so holds a reference of its own.
        for module in loaded_modules("torch"):
            if getattr(module, "__dict__", {}).get("trace_structured") is trace:
                yield mock.patch.object(module, "trace_structured", traced)


class FrameLog:
    """Listens to Dynamo and fills a session's models, compiles, guards, bytecode and graph breaks."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._subjects: list[Any] = []  # what was given to torch.compile, by weak reference
        self._open: dict[str, dict] = {}  # compiles that have not ended, by torch's name
        self._stops: dict[str, list] = {}  # the user's frames at which each of them stopped last
        self._asked = Asked(session.asked)

    def patches(self) -> Iterator[AbstractContextManager]:
        """The patches to enter for the time of a watch."""
        if lookup("break_reason") is not None:
            yield self._breaking()
        yield from self._asked.patches()

    def graph_begins(self, index: int) -> int:
        """File a graph under the compile that is at work; returns the number of its model."""
        made = self._compile()
        made["graphs"].append(index)
        for one in self.session.graph_breaks:
            if one["before"] is None and one["model"] == made["model"] and one["compile"] != made["id"]:
                one["before"] = index
        for one in self.session.graph_breaks:  # the break that ends this graph is known before the graph is
            if one["compile"] == made["id"] and one["model"] == made["model"]:
                one["after"] = index
        return made["model"]

    @aside
    def rewritten(self, old: CodeType, new: CodeType) -> None:
        """Dynamo's hook for bytecode."""
        made = self._compile()
        self._describe(made, old.co_qualname, old.co_filename, old.co_firstlineno)
        self.session.bytecode.append({"old": old, "new": new, "model": made["model"]})

    @aside
    def traced(self, name: str, metadata: Any, payload: Any) -> None:
        """A record of the structured trace."""
        if name == GUARDS and payload:
            self.session.guards.append({"text": str(payload), "model": self._model()})
        elif name == STOPPED and payload and (compile_id := _compile_id()):
            told = str(payload).split("\nTraceback (most recent call last)")[0]
            self._stops[compile_id] = _users([[file, int(line), at] for file, line, at in STACK.findall(told)])
        elif name == "compilation_metrics":
            self._ended(metadata)
        elif name == "bwd_compilation_metrics":  # of a backward that is lowered when it is run
            same = [one for one in self.session.compiles if one["id"] == metadata.get("compile_id")]
            for one in same[-1:]:
                one["seconds"] += _seconds(metadata)

    def _ended(self, metrics: dict) -> None:
        """A compile has ended, well or not."""
        compile_id = str(metrics.get("compile_id"))
        if metrics.get("co_name") is None:
            self._limit_reached(compile_id, metrics)
            return
        made = self._open.get(compile_id) or self._opened(compile_id)
        self._open.pop(compile_id, None)
        self._describe(made, metrics["co_name"], metrics["co_filename"], metrics["co_firstlineno"])
        made["seconds"] += _seconds(metrics)
        made["reason"] = metrics.get("recompile_reason") or made["reason"]
        stack = self._stops.pop(compile_id, [])
        if metrics.get("fail_type"):
            file, line = metrics.get("fail_user_frame_filename"), metrics.get("fail_user_frame_lineno")
            made["failure"] = _told(str(metrics.get("fail_reason") or metrics["fail_type"]))[0]
            stack = stack or ([[file, line, metrics["co_name"]]] if file and line else [])
            self._break(str(metrics.get("fail_reason") or metrics["fail_type"]), stack, made, skipped=True)
        elif metrics.get("graph_op_count") and not made["graphs"]:
            told = {name: made[name] for name in ("function", "file", "line", "model")}
            if (warning := {"code": "went_elsewhere", **told}) not in self.session.warnings:
                self.session.warnings.append(warning)

    def _limit_reached(self, compile_id: str, metrics: dict) -> None:
        """Of a compile that was never begun: whether its frame is compiled no more."""
        limit = LIMIT.search(str(metrics.get("fail_reason")))
        frame = compile_id.partition("/")[0]
        before = next((one for one in self.session.compiles if str(one["frame"]) == frame), None)
        if limit and before:
            told = {
                "limit": limit[1],
                "value": int(limit[2]),
                "reason": (metrics.get("recompile_reason") or "?").splitlines()[0],
            }
            place = {name: before[name] for name in ("function", "file", "line", "model")}
            self.session.warnings.append({"code": "limit_reached", **told, **place})

    def _breaking(self) -> AbstractContextManager:
        """Dynamo makes one of these for each graph break from which it goes on."""
        kind = owner("break_reason")
        original = kind.__post_init__

        def post_init(reason) -> None:
            original(reason)
            if reason.graph_break:
                stack = [[frame.filename, frame.lineno, frame.name] for frame in reason.user_stack or ()]
                self._break(reason.reason, stack, self._compile(), skipped=False)

        return mock.patch.object(kind, "__post_init__", post_init)

    @aside
    def _break(self, text: str, stack: list, made: dict, skipped: bool) -> None:
        reason, explanation, hints = _told(text)
        seen = [graph for one in self.session.compiles if one["model"] == made["model"] for graph in one["graphs"]]
        known = {"reason": reason, "compile": made["id"], "model": made["model"]}
        for one in self.session.graph_breaks:
            if {key: one[key] for key in known} == known and (skipped or one["stack"] == stack):
                one["skipped"] |= skipped  # the frame was traced anew, or given up there
                one["stack"] = max(one["stack"], stack, key=len)
                return
        self.session.graph_breaks.append(
            {
                **known,
                "stack": stack,
                "explanation": explanation,
                "hints": hints,
                "skipped": skipped,
                "after": max(seen, default=None),
                "before": None,
            }
        )

    def _compile(self) -> dict:
        """The compile that is at work."""
        compile_id = _compile_id() or "?"
        return self._open.get(compile_id) or self._opened(compile_id)

    def _opened(self, compile_id: str) -> dict:
        frame, _, again = compile_id.partition("/")
        made: dict[str, Any] = {
            "id": compile_id,
            "frame": int(frame) if frame.isdigit() else None,
            "recompile": int(again) if again.isdigit() else None,
            "function": None,
            "file": None,
            "line": None,
            "reason": _failed_guard(),
            "failure": None,
            "graphs": [],
            "seconds": 0.0,
            "model": self._model(),
        }
        self._open[compile_id] = made
        self.session.compiles.append(made)
        return made

    @staticmethod
    def _describe(made: dict, function: str, file: str, line: int) -> None:
        made["function"] = made["function"] or function
        made["file"], made["line"] = file, line

    def _model(self) -> int:
        """The number of what was given to torch.compile, the outermost where a compiled function calls another."""
        subject, given = _subject()
        self._asked.compiled(subject)
        for number, known in enumerate(self._subjects):
            one = held(known)
            if one is subject and (one is not None or known is None):  # not one that is no more
                return number
        self._subjects.append(weakly(subject))
        self.session.models.append({**named(subject), "inputs": [described(value) for value in given]})
        return len(self._subjects) - 1


def _subject() -> tuple[Any, list]:
    """The function, or the object whose method it is, that the calls under way came through as compiled, and what the
    outermost of these calls was given."""
    # Dynamo gives its hooks a code object and nothing of who was called; the stack has the object itself.
    found: Any = None
    given: list = []
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name in (COMPILED_FUNCTION, COMPILED_AHEAD) and frame.f_locals.get("fn") is not None:
            found, known = frame.f_locals["fn"], frame.f_locals
            args, kwargs = known.get("example_inputs") or (known.get("args", ()), known.get("kwargs", {}))
            given = [*args, *kwargs.values()]
        frame = frame.f_back
    return unwrapped(found), given


def _compile_id() -> str | None:
    found = owner("compile_context").current_compile_id()
    return None if found is None else str(found)


def _failed_guard() -> str | None:
    metrics = getattr(owner("metrics_context").get_metrics_context(), "_metrics", {})
    return metrics.get("recompile_reason")


def _users(stack: list) -> list:
    """A stack from the user's first frame on, below those of the lab that called the model."""
    files = [Path(file) for file, _, _ in stack]
    ours = [place for place, file in enumerate(files, 1) if file.is_relative_to(OURS) and file != MODELS]
    below = stack[max(ours, default=0) :]
    # A library that calls the model, a trainer say, stands above the first line that a reader can change.
    own = [place for place, (file, _, _) in enumerate(below) if not LIBRARY.search(file)]
    return below[min(own, default=0) :]


def _seconds(metrics: dict) -> float:
    return (metrics.get("duration_us") or 0) / 1e6


def _told(text: str) -> tuple[str, str | None, list[str]]:
    """What Dynamo calls the break, how it explains it, and what it advises."""
    lines = [ADDRESS.sub("", line.strip()) for line in text.splitlines() if line.strip() and not WITHOUT.match(line)]
    explained = next((line.removeprefix("Explanation: ") for line in lines if line.startswith("Explanation: ")), None)
    return lines[0] if lines else text, explained, [line[6:] for line in lines if line.startswith("Hint: ")]
