"""The wrapper that Inductor wrote, run with a recorder in the place of each call: what is in which memory when."""

import ast
import re
import sys
import time
import types
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import torch

from minicompile.torch_private.tensors import storage_identity, written_arguments
from minicompile.verifying import kernels, random_numbers
from minicompile.verifying.blocks import Unable
from minicompile.verifying.cpp import Library
from minicompile.verifying.graphs import LOOPED, on_cpu
from minicompile.verifying.stand_ins import on_this_machine

LIBRARY = ("extern_kernels.", "torch.ops.", "aten.", "inductor_ops.", "_quantized.")
RENAMED = (
    (r"(?m)^from torch\._C import _cuda_getCurrentRawStream.*$", ""),
    (r"from torch\._inductor\.async_compile import AsyncCompile", ""),
    (r"empty_strided_cuda\b(?! =)", "empty_strided_cpu"),
    (r"empty_strided_cpu_pinned\b(?! =)", "empty_strided_cpu"),
    (r"(?m)^empty_strided_cpu = torch.*$", ""),
    (r"torch\.cuda\._DeviceGuard\(\d+\)", "_no_device()"),
    (r"torch\.cuda\.set_device\(\d+\)", "pass"),
    (r"torch\.cuda\.synchronize\(\)", "pass"),
    (r"device\(type='cuda', index=\d+\)", "device(type='cpu')"),
    (r"'cuda(?::\d+)?'", "'cpu'"),
    (r"(?m)^assert_size_stride = .*$", "assert_size_stride = lambda *_: None"),
    (r"(?m)^assert_alignment = .*$", "assert_alignment = lambda *_: None"),
    (r"(?m)^(reinterpret_tensor) = .*$", ""),
    (r"(?m)^(empty_strided_p2p) = .*$", ""),
)
FORGOTTEN = re.compile(r"^(?:raw_stream|stream)\d*$")


@dataclass
class Call:
    """One call of a wrapper's."""

    kernel: str
    line: int
    kind: str
    reads: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    in_place: list[list[str]] = field(default_factory=list)
    ran: kernels.Ran | None = None
    kernel_code: kernels.Kernel | None = None
    refused: str | None = None
    detail: str = ""
    seconds: float = 0.0
    names: dict[str, str] = field(default_factory=dict)  # by the kernel's argument the buffer
    contents: dict[str, torch.Tensor] = field(default_factory=dict)  # of the buffers that it wrote, afterwards


class Poisoned:
    """Memory that is full of NaN, or of a number that no index is, until something is written."""

    @staticmethod
    def empty(size: Any, stride: Any, dtype: torch.dtype, *_more: Any, **_named: Any) -> torch.Tensor:
        made = torch.empty_strided(size, stride, dtype=dtype)
        if dtype.is_floating_point:
            return made.fill_(float("nan"))
        return made.zero_()  # no address that is not there


class Recorder:
    """What a run of a wrapper leaves: its calls in order."""

    def __init__(self, seconds: float, per_call: float) -> None:
        self.calls: list[Call] = []
        self.deadline, self.per_call = time.monotonic() + seconds, per_call
        self.owner: dict[int, list[str]] = {}  # by storage the buffers that it has been, the last one last
        self.storages: dict[str, int] = {}
        self.kept: list[torch.UntypedStorage] = []
        self.sizes: dict[str, int] = {}
        self.inputs: list[str] = []
        self.lines: list[str] = []  # of the code
        self.marks: dict[int, torch.Tensor] = {}  # by storage whose each byte is
        self.numbers: dict[str, int] = {}
        self.returned: list[str] = []
        self.alias: dict[str, str] = {}  # by a name that nothing was written under, whose memory it is
        self.branch: bool | None = None  # which branch of each condition runs
        self.several: dict[str, Call] = {}  # by the name of several results the call that gave them
        self.after_call: Callable[[Call], None] = lambda call: None
        self.after_part: Callable[[Call | None, str, torch.Tensor], None] = lambda call, name, tensor: None

    def allocation(self, tensor: torch.Tensor) -> int:
        storage = tensor.untyped_storage()
        identity = storage_identity(storage)
        for number, one in enumerate(self.kept):
            if storage_identity(one) == identity or (storage.nbytes() and one.data_ptr() == storage.data_ptr()):
                return number
        self.kept.append(storage)
        return len(self.kept) - 1

    def name_of(self, tensor: torch.Tensor, around: dict[str, Any]) -> str | None:
        """What the wrapper calls a tensor, or the memory that it is a view of."""
        same = None
        for name, value in around.items():
            if value is tensor:
                return name
            if (
                isinstance(value, torch.Tensor)
                and value.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
            ):
                same = name
        return same

    def own(self, name: str, tensor: torch.Tensor) -> None:
        number = self.allocation(tensor)
        self.storages[name] = number
        self.sizes[name] = tensor.numel() * tensor.element_size()
        names = self.owner.setdefault(number, [])
        if name in names:
            names.remove(name)
        names.append(name)

    def wrote(self, call: Call, name: str, tensor: torch.Tensor, places: torch.Tensor | None = None) -> None:
        """A call wrote a buffer; `places` are the elements of its storage, all of the tensor's where there are none."""
        self._overwrote(call, name, tensor, places)
        self.own(name, tensor)
        if name not in call.writes:
            call.writes.append(name)
        call.contents[name] = tensor

    def given(self, name: str, tensor: torch.Tensor) -> None:
        """An input, whose bytes are somebody's from the start."""
        self.inputs.append(name)
        self.own(name, tensor)
        self._mark(name, tensor, None)

    def _mark(self, name: str, tensor: torch.Tensor, places: torch.Tensor | None) -> set[int] | None:
        """Note whose the bytes now are; returns the numbers of those whose they were."""
        size = tensor.element_size()
        total = tensor.untyped_storage().nbytes() // size
        if total * size > 1 << 24:
            return None
        number = self.allocation(tensor)
        marks = self.marks.get(number)
        if marks is None:
            marks = self.marks[number] = torch.full((tensor.untyped_storage().nbytes(),), -1, dtype=torch.int16)
        now = self.numbers.setdefault(name, len(self.numbers))
        elements = marks[: total * size].view(total, size)
        if places is None and tensor.is_contiguous():
            first = tensor.storage_offset()
            here = elements[first : first + tensor.numel()]
            before = _kinds(here)
            here.fill_(now)
            return before
        if places is None:
            every = torch.arange(total).as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
            places = every.reshape(-1)
        before = _kinds(elements[places])
        elements[places] = now
        return before

    def _overwrote(self, call: Call, name: str, tensor: torch.Tensor, places: torch.Tensor | None) -> None:
        found = self._mark(name, tensor, places)
        if found is None:
            if before := self.owner.get(self.allocation(tensor)):
                call.in_place.append([name, before[-1]])
            return
        by_number = {number: one for one, number in self.numbers.items()}
        call.in_place += [[name, by_number[one]] for one in sorted(found) if one >= 0]

    def met(self, name: str, tensor: torch.Tensor) -> None:
        """A call reads a name under which nothing was written: of a branch's input, or of a part of a result."""
        if name and name not in self.storages:
            number = self.allocation(tensor)
            if before := self.owner.get(number):
                self.alias[name] = before[-1]
            self.storages[name], self.sizes[name] = number, tensor.numel() * tensor.element_size()

    def ended(self, call: Call) -> None:
        self.calls.append(call)
        self.after_call(call)

    # calls of kernels

    def kernel(
        self, name: str, run: Callable[[Call, float], kernels.Ran], arguments: tuple, frame: types.FrameType
    ) -> None:
        """Run a kernel, and note what it touched."""
        around = frame.f_locals
        call = Call(name, frame.f_lineno, "kernel")
        began = time.monotonic()
        left = min(self.per_call, self.deadline - began)
        tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
        found = [self.name_of(one, around) or "" for one in tensors]
        try:
            if left <= 0:
                raise Unable("time")
            call.ran = run(call, left)
        except Unable as error:
            call.refused, call.detail = error.code, error.detail
        except Exception as error:  # what a kernel's Python may raise is the kernel's verdict, not the watch's
            call.refused, call.detail = "error", f"{type(error).__name__}: {error}".splitlines()[0][:200]
        call.seconds = time.monotonic() - began
        for tensor, name in zip(tensors, found, strict=True):
            self.met(name, tensor)
        if call.ran is not None:
            by_tensor = {id(tensor): name for tensor, name in zip(tensors, found, strict=True)}
            memories = {one.memory.argument: one.memory.tensor for one in call.ran.accesses}
            call.names = {argument: by_tensor.get(id(tensor), "") for argument, tensor in memories.items()}
            call.reads = list(dict.fromkeys(call.names[one] for one in sorted(call.ran.loaded) if one in call.names))
            for argument, places in call.ran.stored.items():
                if any(one.numel() for one in places) and argument in call.names:
                    name, tensor = call.names[argument], memories[argument]
                    self.wrote(call, name, tensor, torch.cat([one.reshape(-1) for one in places]))
                    call.contents[name] = around.get(name, tensor)
        else:
            call.reads = list(dict.fromkeys(found))
            call.contents = {name: around[name] for name in found if name.startswith("buf") and name in around}
        self.ended(call)

    # the library's

    def library(self, line: int, text: str, targets: list[str], around: dict[str, Any], before: dict[str, Any]) -> None:
        tree = ast.parse(text, mode="eval").body
        assert isinstance(tree, ast.Call)
        call = Call(ast.unparse(tree.func), line, "library")
        named = [one.id for one in ast.walk(tree) if isinstance(one, ast.Name)]
        outs = [one.id for keyword in tree.keywords if keyword.arg and keyword.arg.startswith("out")
                for one in ast.walk(keyword.value) if isinstance(one, ast.Name)]  # fmt: skip
        call.reads = [name for name in dict.fromkeys(named) if isinstance(around.get(name), torch.Tensor)
                      and name not in outs]  # fmt: skip
        for name in call.reads:
            self.met(name, around[name])
        for name in outs:
            if isinstance(around.get(name), torch.Tensor):
                self.wrote(call, name, around[name])
        for name in targets:
            if isinstance(around.get(name), torch.Tensor):
                self.wrote(call, name, around[name])
            elif isinstance(around.get(name), tuple | list):
                self.several[name] = call
        changed = _changed(tree)
        for name in dict.fromkeys((*before, *changed)):  # of much memory no copy is kept
            now = around.get(name)
            if name in call.writes or not isinstance(now, torch.Tensor):
                continue
            if name in changed or not _alike(now, before[name]):
                self.wrote(call, name, now)
        self.ended(call)

    def part(self, name: str, of: str, around: dict[str, Any]) -> None:
        """One of several results, of a library or of a graph within the graph, got a name of its own."""
        call, tensor = self.several.get(of), around.get(name)
        if isinstance(tensor, torch.Tensor):
            if call is not None:
                self.wrote(call, name, tensor)
            elif name not in self.storages:
                self.own(name, tensor)
            self.after_part(call, name, tensor)


def _kinds(marks: torch.Tensor) -> set[int]:
    """The numbers that are in marks."""
    if not marks.numel():
        return set()
    low, high = map(int, marks.aminmax())
    return {low} if low == high else {int(one) for one in marks.unique()}


def _changed(call: ast.Call) -> set[str]:
    """The names that an operator's schema says it writes, with other values or the same."""
    operator: Any = torch.ops
    for part in ast.unparse(call.func).removeprefix("torch.ops.").split("."):
        operator = getattr(operator, part, None)
    given: dict[str | int | None, ast.expr] = {
        **dict(enumerate(call.args)),
        **{one.arg: one.value for one in call.keywords},
    }
    written = [given[key] for names in written_arguments(operator) for key in names if key in given]
    return {one.id for value in written for one in ast.walk(value) if isinstance(one, ast.Name)}


def _alike(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    return bool(torch.equal(first.nan_to_num(), second.nan_to_num()) if first.is_floating_point() else
                torch.equal(first, second))  # fmt: skip


class _Compiler:
    """In the place of AsyncCompile."""

    recorder: Recorder
    library: Library | None = None

    def triton(self, name: str, source: str, **_more: Any) -> Any:
        recorder = self.recorder

        def evaluated(arguments: tuple, call: Call, seconds: float) -> kernels.Ran:
            call.kernel_code = kernels.kernel_of(name, source)
            call.kind = "user" if call.kernel_code.told.get("kind") == kernels.USER else call.kind
            return kernels.run(call.kernel_code, arguments, seconds)

        def run(*arguments: Any, stream: Any = None, **_named: Any) -> None:
            recorder.kernel(name, partial(evaluated, arguments), arguments, sys._getframe(1))

        return types.SimpleNamespace(run=run)

    def cpp_pybinding(self, _arguments: list[str], source: str) -> Any:
        recorder, library = self.recorder, self.library

        def compiled(arguments: tuple, _call: Call, seconds: float) -> kernels.Ran:
            if library is None:
                raise Unable("cpp", "a C++ kernel in code for another target")
            return library.run(source, arguments, seconds)

        def run(*arguments: Any) -> None:
            frame = sys._getframe(1)
            line = recorder.lines[frame.f_lineno - 1].strip()
            recorder.kernel(line.partition("(")[0], partial(compiled, arguments), arguments, frame)

        return run

    def wait(self, _space: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        raise Unable("kernel_kind")


class _Told(ast.NodeTransformer):
    """After each statement that calls the library, it is told, with what was there before."""

    def __init__(self) -> None:
        self.inside = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        self.inside += 1
        self.generic_visit(node)
        self.inside -= 1
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        targets = [one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name)]
        made = self._told(node, node.value, targets)
        value = node.value
        of = value.value if isinstance(value, ast.Subscript) else value.func if isinstance(value, ast.Call) else None
        several = isinstance(value, ast.Subscript) or isinstance(node.targets[0], ast.Tuple)
        if self.inside and not made and several and isinstance(of, ast.Name):
            told = [f"__told__.part({name!r}, {of.id!r}, locals())" for name in targets]
            return [node, *(ast.copy_location(one, node) for text in told for one in ast.parse(text).body)]
        return made or node

    def visit_Expr(self, node: ast.Expr) -> Any:
        called = node.value
        if self.inside and isinstance(called, ast.Call) and ast.unparse(called.func) == "assert_size_stride":
            first = called.args[0]
            if isinstance(first, ast.Name):
                told = f"{first.id} = __told__.laid({first.id!r}, {', '.join(map(ast.unparse, called.args[:3]))})"
                (made,) = ast.parse(told).body
                return ast.copy_location(made, node)
        return self._told(node, node.value, []) or node

    def visit_While(self, node: ast.While) -> Any:
        self.generic_visit(node)
        if not self.inside:
            return node
        node.test = ast.parse(f"__told__.turn({ast.unparse(node.test)})", mode="eval").body
        begins = ast.parse("__told__.turns = 0").body
        return [*(ast.copy_location(one, node) for one in begins), node]

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        if self.inside and ast.unparse(node.test).endswith(".item()"):
            node.test = ast.parse(f"__told__.branch({ast.unparse(node.test)})", mode="eval").body
        return node

    def _told(self, node: ast.stmt, value: ast.expr, targets: list[str]) -> list[ast.stmt] | None:
        if not self.inside or not isinstance(value, ast.Call):
            return None
        if (
            not ast.unparse(value.func).startswith(LIBRARY)
            or ast.unparse(value.func) == "inductor_ops._alloc_from_pool"
        ):
            return None
        text = ast.unparse(value)
        if ast.unparse(value.func).startswith("torch.ops."):
            value.func = ast.Call(ast.Name("__here__", ast.Load()), [value.func], [])
            ast.fix_missing_locations(ast.copy_location(value.func, value))
        names = sorted({one.id for one in ast.walk(value) if isinstance(one, ast.Name)} - {"__here__"})
        before = f"__before__ = __told__.before({names!r}, locals())"
        after = f"__told__.after({node.lineno}, {text!r}, {targets!r}, locals(), __before__)"

        def made(text: str) -> ast.stmt:
            (one,) = ast.parse(text).body
            for part in ast.walk(one):
                if isinstance(part, ast.expr | ast.stmt):
                    part.lineno = part.end_lineno = node.lineno
            return one

        return [made(before), node, made(after)]


class _Library:
    """Hands the library's calls to the recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder, self.turns = recorder, 0

    def laid(self, name: str, tensor: Any, size: Any, stride: Any) -> Any:
        """A result in the layout that the wrapper goes on with, which the library of this machine may not choose."""
        if not isinstance(tensor, torch.Tensor) or tensor.shape != torch.Size(size):
            return tensor
        if all(one == other or many < 2 for one, other, many in zip(tensor.stride(), stride, size, strict=True)):
            return tensor
        made = torch.empty_strided(size, stride, dtype=tensor.dtype).copy_(tensor)
        self.recorder.own(name, made)
        return made

    def turn(self, goes_on: Any) -> bool:
        """Whether a loop turns once more; what was refused in it may have left no end."""
        self.turns += 1
        if self.turns > LOOPED or time.monotonic() > self.recorder.deadline:
            raise Unable("time", "a loop")
        return bool(goes_on)

    def branch(self, condition: Any) -> bool:
        return bool(condition) if self.recorder.branch is None else self.recorder.branch

    def before(self, names: list[str], around: dict[str, Any]) -> dict[str, Any]:
        found = {name: around[name] for name in names if isinstance(around.get(name), torch.Tensor)}
        return {name: one.clone() for name, one in found.items() if one.numel() < 1 << 22}

    def part(self, name: str, of: str, around: dict[str, Any]) -> None:
        self.recorder.part(name, of, dict(around))

    def after(self, line: int, text: str, targets: list[str], around: dict[str, Any], before: dict[str, Any]) -> None:
        self.recorder.library(line, text, targets, dict(around), before)


@lru_cache(maxsize=16)
def _compiled(code: str) -> types.CodeType:
    """A wrapper with notes on its library calls, its lines counted as they were."""
    for pattern, instead in RENAMED:
        code = re.sub(pattern, instead, code)
    return compile(ast.fix_missing_locations(_Told().visit(ast.parse(code))), "<wrapper>", "exec")


def loaded(code: str, recorder: Recorder, constants: dict[str, Any], library: Library | None) -> Callable[[list], Any]:
    """The wrapper's `call`, on the CPU, its lines counted as the code's."""
    recorder.lines = code.split("\n")
    compiler = type("Compiler", (_Compiler,), {"recorder": recorder, "library": library})
    space: dict[str, Any] = {
        "AsyncCompile": compiler, "get_raw_stream": lambda _device: 0, "__name__": "code", "_no_device": nullcontext,
        "empty_strided_cpu": Poisoned.empty, "empty_strided_p2p": None, "__told__": _Library(recorder),
        "reinterpret_tensor": _reinterpreted, "__here__": on_this_machine,
    }  # fmt: skip
    exec(_compiled(code), space)
    space |= constants
    space["aten"] = _Aten()
    return space["call"]


def _reinterpreted(tensor: torch.Tensor, size: Any, stride: Any, offset: int = 0) -> torch.Tensor:
    return torch.as_strided(tensor, size, stride, tensor.storage_offset() + offset)


class _Aten:
    """`torch.ops.aten`, but for the seeds that a graph draws."""

    def __getattr__(self, name: str) -> Any:
        if name == "randint":
            return types.SimpleNamespace(low_out=_seeds)
        return getattr(torch.ops.aten, name)


def _seeds(low: int, high: int, size: list[int], *, out: torch.Tensor) -> torch.Tensor:
    if (low, high) != (-(1 << 63), (1 << 63) - 1):
        raise Unable("random")
    return out.copy_(random_numbers.seeds(out.numel()).reshape(size))


__all__ = ["Call", "Recorder", "loaded", "on_cpu"]
