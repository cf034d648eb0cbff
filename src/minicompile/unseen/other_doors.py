"""Which graphs Inductor compiles that do not come in by the door of torch.compile's default backend.

AOTInductor has a wrapper in C++, which cannot be read as the others are; a backend of the user's may hand Inductor
graphs of its own. These end where Inductor writes a graph's code, and there a watch has filed it or has not.
"""

import contextlib
import weakref
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any
from unittest import mock

from minicompile.torch_private.around_a_watch import owner
from minicompile.watching.collected import Session


@contextlib.contextmanager
def by_other_doors(session: Session) -> Iterator[Callable[[], list[dict]]]:
    """Count the graphs whose code is written and that a watch, which is on, does not file.

    Args:
        session: the watch's.

    Yields:
        A function that gives a code and a count for each way in which there were some.
    """
    ahead = 0
    others: list[weakref.ref] = []
    writes, inductor = owner("save_output_code"), owner("compile_fx_aot")
    write, compile_ahead = writes.save_output_code, inductor.compile_fx_aot

    @wraps(compile_ahead)
    def compiled_ahead(*args: Any, **kwargs: Any) -> Any:
        nonlocal ahead
        made = compile_ahead(*args, **kwargs)
        ahead += 1
        return made

    class Writes:
        def written(self, code: str) -> None:
            graph = owner("V").V.graph
            if not isinstance(graph, writes):  # code that came out of a cache, of which no graph is left
                return
            before = len(session.lowered), len(session.warnings)
            write(code)
            filed = before != (len(session.lowered), len(session.warnings))
            if not filed and not any(one() is graph for one in others):  # its code may be written in two passes
                others.append(weakref.ref(graph))

    ours, compile_to_module = Writes().written, writes.compile_to_module

    @wraps(compile_to_module)
    def compiled(graph: Any) -> Any:
        theirs = writes.save_output_code
        if theirs is ours:
            return compile_to_module(graph)

        def both(code: str) -> None:  # `run_and_get_code` and its like put theirs in the place of ours
            ours(code)
            if theirs is not None:
                theirs(code)

        with mock.patch.object(writes, "save_output_code", both):
            return compile_to_module(graph)

    def found() -> list[dict]:
        counts = {"ahead_of_time": ahead, "other_door": len(others)}
        return [{"code": code, "count": count} for code, count in counts.items() if count]

    with (
        mock.patch.object(writes, "save_output_code", ours),
        mock.patch.object(writes, "compile_to_module", compiled),
        mock.patch.object(inductor, "compile_fx_aot", compiled_ahead),
    ):
        yield found
