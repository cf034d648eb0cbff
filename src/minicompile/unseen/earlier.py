"""Which compiled functions are called in a block that were compiled before it began.

Dynamo compiles a function once and Inductor is not asked again, so a watch sees nothing of these calls. What Dynamo
makes of a function calls its graphs by names in the function's globals: for the time of the block a counter stands
there in front of each graph that was there before.
"""

import contextlib
import functools
import gc
import re
from collections.abc import Callable, Iterator
from types import BuiltinMethodType, CodeType, FunctionType, MethodType
from typing import Any, TypedDict

import torch

from minicompile.torch_private.around_a_watch import lookup, owner

GRAPH = re.compile(r"__compiled_fn_")
RESUMED = re.compile(r"torch_dynamo_resume_in_(?P<function>.+)_at_\d+$")
DEEP = 400  # objects to look at in a compiled graph before it counts as Inductor's


class Earlier(TypedDict):
    """A function that was compiled before the block and called in it."""

    function: str
    file: str
    line: int


@contextlib.contextmanager
def earlier_calls() -> Iterator[Callable[[], list[Earlier]]]:
    """Count the calls of what is compiled now, until the context is left.

    Yields:
        A function that gives what has been called so far, in the order of the compiles.
    """
    codes = _seen()
    compiled = [(code, names) for code in codes if (names := _graphs(code))]
    begins = {(code.co_name, code.co_filename): code for code in reversed(codes)}
    called: set[str] = set()
    put: list[tuple[dict, str, Callable, Callable]] = []
    for globals_of in _globals([code for code, _ in compiled]) if compiled else []:
        for name in {name for _, names in compiled for name in names} & globals_of.keys():
            original = globals_of[name]
            counted = _counted(original, functools.partial(called.add, name))
            globals_of[name] = counted
            put.append((globals_of, name, counted, original))
    made_by_inductor: dict[str, bool] = {}

    def found() -> list[Earlier]:
        for _, name, _, original in put:
            if name in called and name not in made_by_inductor:
                made_by_inductor[name] = _is_inductors(original)
        told: dict[tuple, Earlier] = {}
        for code, names in compiled:
            if any(made_by_inductor.get(name) for name in names):
                one = _described(code, begins)
                told.setdefault((one["function"], one["file"]), one)
        return list(told.values())

    try:
        yield found
    finally:
        for globals_of, name, counted, original in put:
            if globals_of.get(name) is counted:  # a reset in the block has taken it out
                globals_of[name] = original


def _seen() -> list[CodeType]:
    """The code of each function that Dynamo has looked at, the first first."""
    return [code for reference in list(owner("codes").input_codes.seen) if (code := reference()) is not None]


def _graphs(code: CodeType) -> list[str]:
    """The names of the graphs that were compiled of a function."""
    entries = lookup("cache_entries")
    made = [entry.code for entry in entries(code)] if entries else []
    return [name for one in made for name in one.co_names if GRAPH.match(name)]


def _globals(codes: list[CodeType]) -> list[dict]:
    """The globals of the functions that have one of these codes."""
    # A code does not know its globals, and a function's module may be none that is imported.
    wanted = {id(code) for code in codes}
    holders = gc.get_referrers(*codes)
    functions = [one for one in holders if isinstance(one, FunctionType) and id(one.__code__) in wanted]
    return list({id(one.__globals__): one.__globals__ for one in functions}.values())


def _counted(original: Callable, count: Callable[[], None]) -> Callable:
    @functools.wraps(original)
    def graph(*args: Any, **kwargs: Any) -> Any:
        count()
        return original(*args, **kwargs)

    return torch.compiler.disable(graph)  # Dynamo, which is on around it, would compile the counter


def _is_inductors(graph: Any) -> bool:
    """Whether a compiled graph holds code of Inductor's; so too where it is not found out."""
    kind = owner("output").OutputCode
    seen, waiting = {id(graph)}, [graph]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, kind):
            return True
        if len(seen) > DEEP:
            return True
        if isinstance(one, FunctionType):  # not its globals, through which everything can be reached
            below = [*(cell.cell_contents for cell in one.__closure__ or () if _filled(cell)), one.__dict__]
        elif isinstance(one, functools.partial | list | tuple | dict | MethodType | BuiltinMethodType | staticmethod):
            below = gc.get_referents(one)  # of a method what it is bound to
        elif isinstance(one, type) and issubclass(one, torch.autograd.Function):  # one is made for each trained graph
            below = list(vars(one).values())
        elif isinstance(one, torch.Tensor | torch.fx.GraphModule | type):
            below = []
        else:
            below = [vars(one)] if callable(one) and hasattr(one, "__dict__") else []
        for each in below:
            if id(each) not in seen:
                seen.add(id(each))
                waiting.append(each)
    return False


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _described(code: CodeType, begins: dict[tuple[str, str], CodeType]) -> Earlier:
    """A function; what is left of one after a graph break is that function."""
    rest = RESUMED.search(code.co_name)
    code = begins.get((rest["function"], code.co_filename), code) if rest else code
    function = rest["function"] if rest and RESUMED.search(code.co_name) else code.co_qualname.replace("<locals>.", "")
    return {"function": function, "file": code.co_filename, "line": code.co_firstlineno}
