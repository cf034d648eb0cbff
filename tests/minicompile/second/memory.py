"""The wrapper run with recorders in the place of memory and kernels: which allocation each name is, and who writes it.

Nothing is computed. What the wrapper allocates is a number, what it calls is written down; a wrapper that asks a value
what to do next is not run.
"""

import ast
import builtins
import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

BYTES = {"bool": 1, "uint8": 1, "int8": 1, "float16": 2, "bfloat16": 2, "int16": 2, "float32": 4, "int32": 4}
BYTES |= {"int64": 8, "float64": 8}


class Memory:
    """A tensor of the wrapper: an allocation, and how it lies there; sizes are none where nobody said them."""

    def __init__(
        self,
        allocation: int,
        size: tuple | None = None,
        offset: int = 0,
        dtype: str | None = None,
        stride: tuple | None = None,
    ) -> None:
        self.allocation, self.size, self.offset, self.dtype, self.stride = allocation, size, offset, dtype, stride

    def __getitem__(self, place: int) -> "Memory":  # one of a library's several results
        if isinstance(place, int) and self.size is None:
            return Memory(next(_numbers))
        raise TypeError("elements are not known")

    def item(self) -> None:
        """A value, on which the rest depends."""
        raise TypeError("values are not known")

    __bool__ = __int__ = __float__ = __index__ = item  # type: ignore[assignment]

    def may_meet(self, other: "Memory") -> bool:
        """Whether both may hold the same place; where more is unknown, not if of one size and begun elsewhere."""
        if self.allocation != other.allocation:
            return False
        if (mine := self.places) is not None and (others := other.places) is not None:
            return not mine.isdisjoint(others)
        return self.offset == other.offset or self.size != other.size

    @property
    def places(self) -> set[int] | None:
        """The elements of the allocation that it has; none where they are not known, or too many."""
        if self.size is None or self.stride is None or not all(isinstance(one, int) for one in self.size + self.stride):
            return None
        if math.prod(self.size) > 1 << 16:
            return None
        found = {self.offset}
        for length, step in zip(self.size, self.stride, strict=True):
            found = {place + number * step for place in found for number in range(length)}
        return found

    @property
    def bytes(self) -> int | None:
        """How many it has itself."""
        if self.size is None or self.dtype not in BYTES or not all(isinstance(one, int) for one in self.size):
            return None
        return math.prod(self.size) * BYTES[self.dtype]


_numbers = count()


@dataclass
class Called:
    """A call that the wrapper made.

    Attributes:
        line: of the code.
        name: of the kernel, or of what stands for a library's function.
        given: what was passed, in order; None for what is no memory.
        into: memory that a library was to write to, or that it returned.
    """

    line: int
    name: str
    given: list[Memory | None]
    into: list[Memory] = field(default_factory=list)


class Anything:
    """Whatever the wrapper takes out of torch: it can be asked for parts, entered, and called, which is recorded."""

    def __init__(self, name: str, record: Callable[[str, tuple, dict], Any]) -> None:
        self.name, self.record = name, record

    def __getattr__(self, part: str) -> "Anything":
        if part.startswith("__"):
            raise AttributeError(part)
        return Anything(f"{self.name}.{part}", self.record)

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self.record(self.name, given, named)

    def __enter__(self) -> "Anything":
        return self

    def __exit__(self, *_error: object) -> None:
        return None


class Ran:
    """What running a wrapper shows.

    Attributes:
        memory: by name, what it was first bound to.
        calls: in order.
        returned: memory that the graph returns.
    """

    def __init__(self, code: str) -> None:
        self.memory: dict[str, Memory] = {}
        self.calls: list[Called] = []
        self.returned: list[Memory] = []
        tree = ast.parse(code)
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "call"]
        if len(functions) != 1:
            raise ValueError("not one wrapper")
        [function] = functions
        inputs = [node for node in function.body if isinstance(node, ast.Assign) and ast.unparse(node.value) == "args"]
        names = [ast.unparse(one) for one in inputs[0].targets[0].elts] if inputs else []  # type: ignore[attr-defined]
        module = ast.Module([function], [])
        names_used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        space: dict[str, Any] = {name: Anything(name, self._record) for name in names_used}
        space |= {name: getattr(builtins, name) for name in ("range", "list", "len")}
        space |= {"reinterpret_tensor": self._view, "copy_if_misaligned": lambda one, *_more: one}
        space |= {name: self._new for name in names_used if name.startswith("empty_strided")}
        exec(compile(module, "wrapper", "exec"), space)
        given = [Memory(next(_numbers)) for _ in names]
        self.memory |= dict(zip(names, given, strict=True))
        self._run(space["call"], given, method=function.args.args[0].arg == "self")

    def _run(self, call: Callable, given: list[Memory], *, method: bool) -> None:
        def traced(frame: Any, event: str, _argument: object) -> Any:
            if frame.f_code is not call.__code__:
                return None
            for name, value in frame.f_locals.items():
                if isinstance(value, Memory):
                    self.memory.setdefault(name, value)
            return traced

        before = sys.gettrace()
        sys.settrace(traced)
        try:
            found = call(*([None] if method else []), [*given])
        finally:
            sys.settrace(before)
        self.returned = [one for one in found or () if isinstance(one, Memory)]

    def _line(self) -> int:
        frame: Any = sys._getframe()
        while frame.f_code.co_filename != "wrapper":
            frame = frame.f_back
        return frame.f_lineno

    def _new(self, size: tuple, stride: tuple, dtype: Any = None, *_more: object) -> Memory:
        kind = dtype.name.split(".")[-1] if isinstance(dtype, Anything) else None
        return Memory(next(_numbers), size, 0, kind, stride)

    def _view(self, one: Memory, size: tuple, stride: tuple, offset: int = 0) -> Memory:
        return Memory(one.allocation, size, one.offset + offset, one.dtype, stride)

    def _record(self, name: str, given: tuple, named: dict) -> Any:
        if re.match(r"assert_|get_raw_stream|torch\.cuda\.|torch\._C", name):
            return Anything(name, self._record)
        into = [one for key, one in named.items() if "out" in key and isinstance(one, Memory)]
        # a kernel of the user's is given its memory by name
        held = [one if isinstance(one, Memory) else None for one in (*given, *named.values())]
        made = Memory(next(_numbers))
        library = not name.endswith(".run") and re.match(r"extern_kernels|torch\.|aten\.|inductor_ops|\w+\.ops", name)
        called = Called(self._line(), name.removesuffix(".run"), held, into or ([made] if library else []))
        self.calls.append(called)
        return (into or [made])[0]


def run(code: str) -> Ran | None:
    """What running the wrapper of a generated code shows; None where it cannot be run so."""
    try:
        return Ran(code)
    except Exception:  # whatever a wrapper does that recorders cannot stand for
        return None
