"""A Triton kernel of Inductor's, evaluated line by line: what each line assigns, and what it loads and stores."""

import ast
import functools
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from typing import Any

import torch

from minicompile.torch_private.names import owner
from minicompile.verifying.blocks import Block, Memory, Pointer, Unable, block, pointer_to
from minicompile.verifying.language import Plain, Program, converted, helpers, libdevice, negated, tl, triton

BLOCK = 1 << 20  # elements of a block; more than that, and the grid has several programs
SAMPLED, SEVERAL = 8, 64  # programs whose lines are kept, where there are more than several
COMBINED = 1 << 12  # programs of several kernels in one, which differ
USER = "user_autotune"  # Inductor's decorator around a user's kernel
MASK = re.compile(r"^(?:[xyz]|r\d*_?)mask$")
SIZE = re.compile(r"^(?P<axis>[xyz]|r\d*_?)numel(?P<part>_\d+)?$")
FREE = re.compile(r"^(?P<axis>[XYZ]|R\d*_?)BLOCK(?P<part>_\d+)?$")


@dataclass
class Seen:
    """What a line had in one program."""

    program: int
    values: torch.Tensor
    valid: torch.Tensor | None  # which places are there, in a shape that broadcasts to that of the values
    constant: bool  # a number in the program's text


@dataclass
class Access:
    """What a line loaded or stored in one program."""

    program: int
    line: int
    memory: Memory
    offsets: torch.Tensor
    mask: torch.Tensor | None
    stored: bool


@dataclass
class Ran:
    """A kernel's call."""

    values: dict[tuple[int, str], list[Seen]] = field(default_factory=dict)
    accesses: list[Access] = field(default_factory=list)
    natural: list[list[tuple[int, torch.Tensor, tuple[int, ...]]]] = field(default_factory=list)
    loaded: set[str] = field(default_factory=set)  # arguments
    stored: dict[str, list[torch.Tensor]] = field(default_factory=dict)  # by argument the places
    programs: int = 0
    sampled: int | None = None
    random: bool = False
    by_data: frozenset[int] = frozenset()  # lines whose addresses follow from values
    text: str = ""  # the kernel's, by whose lines values are told
    branches: dict[int, tuple[Any, int]] = field(default_factory=dict)  # by line the loops around it, and the branch


class Trace(Program):
    """Listens to a run."""

    def __init__(self, deadline: float, literal: frozenset[int] = frozenset()) -> None:
        self.ran, self.deadline, self.literal = Ran(), deadline, literal
        self.number, self.keeps, self.line = 0, True, 0
        self.described = False  # whether blocks come through descriptors, and are turned once they are there

    def at(self, line: int) -> None:
        self.line = line
        if time.monotonic() > self.deadline:
            raise Unable("time")

    def makes_descriptor(self) -> None:
        self.described = True

    def loaded(self, pointer: Pointer, mask: torch.Tensor | None) -> None:
        self.ran.loaded.add(pointer.memory.argument)
        self._accessed(pointer, mask, False)

    def stored(self, pointer: Pointer, mask: torch.Tensor | None) -> None:
        places = pointer.offsets.reshape(-1) if mask is None else pointer.offsets[mask]
        self.ran.stored.setdefault(pointer.memory.argument, []).append(places)
        self._accessed(pointer, mask, True)

    def _accessed(self, pointer: Pointer, mask: torch.Tensor | None, stored: bool) -> None:
        if self.keeps:
            made = Access(self.number, self.line, pointer.memory, pointer.offsets, mask, stored)
            self.ran.accesses.append(made)

    def value(self, line: int, name: str, value: Any, around: dict[str, Any]) -> None:
        if not self.keeps or not isinstance(value, Block | int | float):
            return
        constant = not isinstance(value, Block) or line in self.literal
        made = block(value)
        values = made.values.float() if made.dtype.primitive_bitwidth == 8 and made.dtype.is_floating() else made.values
        seen = Seen(self.number, values, _valid(values.shape, around), constant)
        self.ran.values.setdefault((line, name), []).append(seen)

    def indices(self, around: dict[str, Any]) -> None:
        """The order in which the kernel itself counts its places: along its axes, each alone and all together."""
        if not self.keeps or len(self.ran.natural) > self.number:
            return
        found: list[tuple[str, torch.Tensor, int]] = []
        for name, value in around.items():
            if isinstance(value, Block) and (match := re.match(r"^([xyz]|r\d*_)index$", name)):
                count = around.get(f"{match[1]}numel")
                if count is not None:
                    found.append((match[1], value.values.to(torch.int64), int(count)))
        if not found:
            return
        found.sort(key=lambda one: (one[0][0] == "r", {"z": 0, "y": 1, "x": 2}.get(one[0], 3), one[0]))
        made: list[tuple[int, torch.Tensor, tuple[int, ...]]] = []
        made += [(self.number, places, (count,)) for _, places, count in found]
        for order in permutations(found) if self.described else (tuple(found),):
            for first in range(len(order)):
                for last in range(first + 2, len(order) + 1):
                    together, sizes = torch.zeros((), dtype=torch.int64), []
                    for _, places, count in order[first:last]:
                        together = together * count + places
                        sizes.append(count)
                    made.append((self.number, together, tuple(sizes)))
        self.ran.natural.append(made)


def _valid(shape: torch.Size, around: dict[str, Any]) -> torch.Tensor | None:
    made: torch.Tensor | None = None
    for name, value in around.items():
        if not MASK.match(name) or not isinstance(value, Block):
            continue
        mask = value.values
        if mask.all() or mask.ndim != len(shape):
            continue
        if all(one in (1, of) for one, of in zip(mask.shape, shape, strict=True)):
            made = mask if made is None else made & mask
    return made


class _Instrumented(ast.NodeTransformer):
    """Before each statement its line is told, and after it what it assigned."""

    def __init__(self, every_name: bool) -> None:
        self.every_name = every_name

    def _around(self, node: ast.stmt, names: Sequence[str]) -> list[ast.stmt]:
        told = [f"__trace__.at({node.lineno})"]
        after = [
            f"__trace__.value({node.lineno}, {name!r}, {name}, locals())"
            for name in names
            if self.every_name or re.match(r"^_?tmp\d", name)
        ]
        after += ["__trace__.indices(locals())"] if names and re.match(r"^tmp0$", names[0]) else []

        def made(texts: list[str]) -> list[ast.stmt]:
            return [ast.copy_location(one, node) for text in texts for one in ast.parse(text).body]

        return [*made(told), node, *made(after)]

    def visit_Assign(self, node: ast.Assign) -> Any:
        names = [one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name)
                 and isinstance(one.ctx, ast.Store)]  # fmt: skip
        return self._around(node, names)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        return self._around(node, [node.target.id] if isinstance(node.target, ast.Name) else [])

    def visit_Expr(self, node: ast.Expr) -> Any:
        return self._around(node, [])


@dataclass(frozen=True)
class Kernel:
    """A kernel's text, ready to run."""

    name: str
    function: Any
    told: dict[str, Any]  # what Inductor's decorator is told
    names: list[str]  # of its arguments
    text: str
    by_data: frozenset[int]
    literal: frozenset[int]  # lines that assign a number of the text's, in whatever shape and dtype


class _Anything:
    """In the place of what a decorator is told and nobody here asks for."""

    def __getattr__(self, _name: str) -> Any:
        return self

    def __call__(self, *_arguments: Any, **_named: Any) -> Any:
        return self


@functools.lru_cache(maxsize=512)
def kernel_of(name: str, source: str) -> Kernel:
    """A kernel from the text that Inductor hands to its compiler.

    Its lines are counted from the first that is not blank.
    """
    text = source.lstrip("\n")
    tree = ast.parse(text)
    functions = [one for one in tree.body if isinstance(one, ast.FunctionDef) and _is_jitted(one)]
    # what a user's kernel calls may stand before it or after
    function = next((one for one in functions if _is_launched(one)), functions[-1])
    space: dict[str, Any] = {
        "tl": tl, "triton": triton, "libdevice": libdevice, "tl_math": libdevice, "triton_helpers": helpers(),
        "__negated__": negated, "__to__": converted, "inf": float("inf"), "nan": float("nan"), "__file__": "",
        "math": libdevice,
    }  # fmt: skip
    anything = _Anything()
    told: dict[str, Any] = {}
    stand_ins = dict.fromkeys(("DeviceProperties", "ReductionHint", "TileHint", "AutotuneHint", "torch"), anything)
    for decorator in function.decorator_list:
        for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
            if keyword.arg in ("triton_meta", "inductor_meta", "size_hints"):
                told[keyword.arg] = eval(compile(ast.Expression(keyword.value), "<told>", "eval"), {**stand_ins})
        if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Attribute):
            told["kind"] = decorator.func.attr
    names = [one.arg for one in function.args.args]
    for one in functions:
        plain = Plain().visit(one)
        made = _Instrumented(told.get("kind") == USER).visit(plain) if one is function else plain
        if one is function:
            made.body = [part for node in made.body for part in (node if isinstance(node, list) else [node])]
        tree = ast.fix_missing_locations(ast.Module([made], []))
        exec(compile(tree, f"<{name}>", "exec"), space)
    by_data = frozenset(
        one.lineno
        for one in ast.walk(ast.parse(text))
        if isinstance(one, ast.Call)
        and ast.unparse(one.func).startswith(("tl.load", "tl.store", "tl.atomic"))
        and any(isinstance(part, ast.Name) and re.match(r"tmp\d", part.id) for part in ast.walk(one.args[0]))
    )
    return Kernel(name, space[function.name], told, names, text, by_data, _literal(ast.parse(text)))


def _is_jitted(function: ast.FunctionDef) -> bool:
    return any("jit" in ast.unparse(one) for one in function.decorator_list)


def _literal(tree: ast.Module) -> frozenset[int]:
    """The lines that assign what stands in the text: no value of a node's is found there but by chance."""
    lines, names = set[int](), {"tl", "triton_helpers", "libdevice", "tl_math", "inf", "nan", "XBLOCK", "YBLOCK"}
    counts: dict[str, int] = {}
    assigned = [one for one in ast.walk(tree) if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)]
    for one in assigned:
        counts[one.targets[0].id] = counts.get(one.targets[0].id, 0) + 1  # type: ignore[attr-defined]
    for one in sorted(assigned, key=lambda each: each.lineno):
        name = one.targets[0].id  # type: ignore[attr-defined]
        used = {part.id for part in ast.walk(one.value) if isinstance(part, ast.Name)}
        calls = {ast.unparse(part.func) for part in ast.walk(one.value) if isinstance(part, ast.Call)}
        shapes = {one for one in used if one.endswith("BLOCK")}
        plain = not calls & {"tl.program_id", "tl.arange", "tl.num_programs"}
        if counts[name] == 1 and re.match(r"tmp\d", name) and plain and used <= names | shapes:
            names.add(name)
            lines.add(one.lineno)
    return frozenset(lines)


def _is_launched(function: ast.FunctionDef) -> bool:
    """Whether Inductor tells how a function is launched."""
    told = [one for one in function.decorator_list if isinstance(one, ast.Call)]
    return any(keyword.arg == "triton_meta" for one in told for keyword in one.keywords)


def run(kernel: Kernel, arguments: Sequence[Any], seconds: float) -> Ran:
    """Run a kernel on the CPU, its whole grid.

    Raises:
        Unable: something in it cannot be evaluated here, or the time is over.
    """
    meta = kernel.told.get("triton_meta", {})
    signature = meta.get("signature", {})
    names = [name for name in kernel.names if signature.get(name) != "constexpr" or name in meta.get("constants", {})]
    constants = {key if isinstance(key, str) else kernel.names[key[0]]: one
                 for key, one in meta.get("constants", {}).items()}  # fmt: skip
    more = kernel.told.get("inductor_meta", {}).get("extra_launcher_args", [])  # the grid, where the call gives it
    given = dict(zip([*(name for name in names if name not in constants), *more], arguments, strict=False))
    given |= constants
    sizes = {name: int(one) for name, one in given.items() if SIZE.match(name)}
    free = {name: 1 for name in kernel.names if name not in given}
    free |= _blocks(list(free), sizes, kernel)
    grid = _grid(kernel, {**{key: one for key, one in given.items() if isinstance(one, int)}, **free})
    passed = {
        name: pointer_to(one, name) if isinstance(one, torch.Tensor) else one
        for name, one in given.items()
        if name not in more
    }
    several = COMBINED if "num_xblocks" in kernel.text else SEVERAL
    ran = launch(kernel.function, {**passed, **free}, grid, seconds, several, kernel.literal)
    ran.by_data, ran.text = kernel.by_data, kernel.text
    ran.random = re.search(r"\b(?:rand|randn|randint64|rand4x|randn4x)\(", kernel.text) is not None
    return ran


def launch(
    function: Any,
    arguments: dict[str, Any],
    grid: tuple[int, ...],
    seconds: float,
    several: int = SEVERAL,
    literal: frozenset[int] = frozenset(),
) -> Ran:
    """Run a function for each program of a grid; lines that are `literal` assign what stands in the text."""
    whole: Any = (*grid, 1, 1, 1)[:3]
    count = whole[0] * whole[1] * whole[2]
    kept = _sample(count, several)
    trace = Trace(time.monotonic() + seconds, literal)
    before, tl.program = tl.program, trace
    space = function.__globals__
    space["__trace__"] = trace
    trace.grid = whole
    try:
        for number, (z, y, x) in enumerate(product(range(whole[2]), range(whole[1]), range(whole[0]))):
            trace.place, trace.number, trace.keeps = (x, y, z), number, number in kept
            if trace.keeps:
                trace.number = kept.index(number)
            function(**arguments)
    except Unable:
        raise
    finally:
        tl.program = before
    trace.ran.programs = count
    trace.ran.sampled = len(kept) if len(kept) < count else None
    return trace.ran


def _sample(count: int, several: int) -> list[int]:
    """The first programs, the last, and some between."""
    if count <= several:
        return list(range(count))
    return sorted({0, 1, count - 2, count - 1, *(count * part // (SAMPLED - 3) for part in range(1, SAMPLED - 3))})


def _blocks(free: list[str], sizes: dict[str, int], kernel: Kernel) -> dict[str, int]:
    """As long as the axes themselves, so that one program covers them, while a block's elements are few enough."""
    made: dict[str, int] = {}
    room = BLOCK
    matches = [(name, match) for name in free if (match := FREE.match(name))]
    for name, match in sorted(matches, key=lambda one: not one[0].startswith("R")):  # rows whole, where that can be
        if match["part"] is not None:
            made[name] = 128
            continue
        size = sizes.get(f"{match['axis'].lower()}numel", BLOCK if match["axis"] != "X" else 128)
        static = re.search(rf"(?m)^    {re.escape(match['axis'].lower())}numel = (\d+)$", kernel.text)
        size = int(static[1]) if static else size
        made[name] = max(1, min(size, room))
        if f"{match['axis'].lower()}mask = tl.full(" in kernel.text:  # it covers what is there and no more
            while size % made[name]:
                made[name] -= 1
        room = max(1, room // made[name])
    if "XBLOCK" in made and "num_xblocks" in kernel.text:
        made["XBLOCK"] = 128
    return made


def _grid(kernel: Kernel, meta: dict[str, Any]) -> tuple[int, ...]:
    expression = owner("grid_expr").GridExpr.from_meta(kernel.told["inductor_meta"], meta, mode="python")
    return tuple(int(one) for one in expression.eval_slow(meta))
