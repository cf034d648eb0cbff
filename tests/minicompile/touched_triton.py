"""Which addresses Inductor's Triton kernels touch: Triton's interpreter runs them, and each load and store reports.

`TRITON_INTERPRET=1 python touched_triton.py CODES.json RAN.pt`: a list of Inductor's output codes in, for each a list
of [bytes read, bytes written, tensors afterwards] for its calls in order out, or the error's text. The code runs as it
is, on the CPU, with inputs of the sizes that it checks for. The mathematical functions of CUDA's library are PyTorch's.
"""

import ctypes
import json
import sys
import types
from pathlib import Path
from typing import ClassVar

import combined_at_once
import numpy
import torch
from generated_code import inputs_of, left_in, loaded
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_heuristics import GridExpr
from touched_cpp import Library, library_of
from triton import language as tl
from triton._C.libtriton import ir
from triton.runtime import interpreter

BLOCKS = {"XBLOCK": 512, "YBLOCK": 32, "ZBLOCK": 1, "R0_BLOCK": 128, "R1_BLOCK": 8}
REDUCING = {**BLOCKS, "XBLOCK": 8}  # the interpreter combines values one by one, those of rows that are not there too
SPLIT = {**REDUCING, "R0_BLOCK": 512}  # Inductor allots what passes between the blocks for 256 at least


NAMED_OTHERWISE = {
    "fast_tanhf": "tanh",
    "nearbyint": "round",
    "rint": "round",
    "fabs": "abs",
    "cyl_bessel_i0": "i0",
    "mul_rn": "mul",
}
INTEGERS = ("isnan", "isinf", "signbit", "ilogb")  # are what CUDA's library gives


def exponent(values: torch.Tensor) -> torch.Tensor:
    return torch.frexp(values).exponent - 1


class Mathematics(types.ModuleType):
    """CUDA's mathematical functions, computed by PyTorch's of the same name."""

    def __getattr__(self, name):
        function = exponent if name == "ilogb" else getattr(torch, NAMED_OTHERWISE.get(name, name), None)
        if name.startswith("__") or function is None:
            raise AttributeError(f"PyTorch has no function for CUDA's {name}")

        def compute(*operands):
            first = next(one for one in operands if isinstance(one, tl.tensor))
            given = [torch.from_numpy(numpy.array(one.handle.data)) if isinstance(one, tl.tensor)
                     else torch.tensor(float(getattr(one, "value", one))) for one in operands]  # fmt: skip
            kind = tl.int32 if name in INTEGERS else first.type.scalar
            dtype = numpy.int32 if name in INTEGERS else first.handle.data.dtype
            made = numpy.asarray(function(*given)).astype(dtype)
            shape = tl.block_type(kind, first.type.shape) if first.type.is_block() else kind
            return tl.tensor(interpreter.TensorHandle(made, kind), shape)

        return compute


class Marks:
    """What has been touched of the tensors of one call."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        storages = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in tensors}
        self.ranges = [(first, numpy.zeros((2, max(size, 1)), bool)) for first, size in storages.items()]

    def note(self, pointers, mask, way: int) -> None:
        addresses = pointers.data.ravel()
        if mask is not None:
            addresses = addresses[mask.data.ravel().astype(bool)]
        size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        for first, marks in self.ranges:
            inside = addresses[(addresses >= first) & (addresses < first + marks.shape[1])].astype(numpy.int64) - first
            for byte in range(size):
                marks[way, inside + byte] = True

    def counted(self) -> list[int]:
        return [int(sum(marks[way].sum() for _, marks in self.ranges)) for way in (0, 1)]


MARKS: list[Marks] = []


def added_in_bfloat16(pointers, value, mask) -> interpreter.TensorHandle:
    """An atomic addition of bfloat16, which the interpreter, in NumPy, has not; returns what was there before."""
    before = numpy.zeros_like(value.data)
    for place in numpy.ndindex(before.shape):
        if mask.data[place]:
            there = numpy.ctypeslib.as_array((ctypes.c_uint16 * 1).from_address(int(pointers.data[place])))
            one = torch.from_numpy(there).view(torch.bfloat16)
            before[place] = there[0]
            one += torch.from_numpy(value.data[place].reshape(1)).view(torch.bfloat16)
    return interpreter.TensorHandle(before, tl.bfloat16)


def listen() -> None:
    """Let the interpreter report each access."""
    triton_helpers.libdevice = Mathematics("libdevice")
    combined_at_once.install()
    builder = interpreter.interpreter_builder
    load, store, change = builder.create_masked_load, builder.create_masked_store, builder.create_atomic_rmw

    def masked_load(pointers, mask, *args, **kwargs):
        MARKS[-1].note(pointers, mask, 0)
        return load(pointers, mask, *args, **kwargs)

    def masked_store(pointers, value, mask, *args, **kwargs):
        MARKS[-1].note(pointers, mask, 1)
        return store(pointers, value, mask, *args, **kwargs)

    def atomic(operation, pointers, value, mask, *args, **kwargs):
        MARKS[-1].note(pointers, mask, 0)
        MARKS[-1].note(pointers, mask, 1)
        if value.dtype.scalar == tl.bfloat16:
            assert operation == ir.ATOMIC_OP.FADD
            return added_in_bfloat16(pointers, value, mask)
        return change(operation, pointers, value, mask, *args, **kwargs)

    builder.create_masked_load, builder.create_masked_store, builder.create_atomic_rmw = (
        masked_load,
        masked_store,
        atomic,
    )


def heuristic(kind: str):
    """A stand-in for one of Inductor's decorators, which keeps what it is told."""

    def decorator(**told):
        def wrap(function):
            function.told, function.kind = told, kind
            return function

        return wrap

    return decorator


class Kernel:
    """A kernel that runs in the interpreter, and whose accesses are counted."""

    def __init__(self, name: str, source: str, calls: list) -> None:
        self.name, self.calls = name, calls
        space: dict = {"__file__": "kernel.py", "__name__": "kernel"}
        body = source.replace("from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math", "")
        kinds = ("pointwise", "reduction", "persistent_reduction", "cooperative_reduction", "split_scan", "foreach")
        heuristics = types.SimpleNamespace(**{kind: heuristic(kind) for kind in kinds})
        space["libdevice"], space["tl_math"] = Mathematics("libdevice"), Mathematics("tl_math")
        body = body.replace("from torch._inductor.runtime import triton_helpers, triton_heuristics", "")
        space["triton_helpers"], space["triton_heuristics"] = triton_helpers, heuristics
        body = body.replace("triton_helpers.set_driver_to_gpu()", "")
        path = Path(
            f"interpreted_{abs(hash(body))}.py"
        ).absolute()  # the interpreter reads a function's source from its file
        path.write_text(body)
        space["__file__"] = str(path)
        try:
            exec(compile(body, str(path), "exec"), space)
        finally:
            self.function = space.get(name)
            self._path = path

    def run(self, *arguments, stream=None, **_more) -> None:
        told = self.function.told
        names = list(told["triton_meta"]["signature"])
        constants = told["triton_meta"].get("constants", {})
        given = dict(zip([name for name in names if name not in BLOCKS], arguments, strict=False))
        for name, value in constants.items():
            given.setdefault(name if isinstance(name, str) else names[name[0]], value)
        sizes = {"pointwise": BLOCKS, "split_scan": SPLIT}.get(self.function.kind, REDUCING)
        blocks = {name: sizes[name] for name in names if name in sizes}
        if "XBLOCK" in blocks and self.function.kind != "pointwise" and given.get("xnumel") == 1:
            blocks["XBLOCK"] = 1  # as Inductor has it, which then leaves out the mask of rows
        given = {name: value for name, value in given.items() if name not in blocks}
        MARKS.append(Marks([value for value in given.values() if isinstance(value, torch.Tensor)]))
        meta = {**{key: value for key, value in given.items() if isinstance(value, int)}, **blocks}
        grid = GridExpr.from_meta(told["inductor_meta"], blocks or {"XBLOCK": BLOCKS["XBLOCK"]}, mode="python")
        self.function[tuple(grid.eval_slow(meta))](**given, **blocks)
        self.calls.append([*MARKS.pop().counted(), left_in(given.values())])


class Compiler:
    """In the place of AsyncCompile."""

    calls: ClassVar[list] = []
    library: ClassVar[Library | None] = None  # of the kernels that a graph runs on the CPU all the same

    def cpp_pybinding(self, types: list, source: str):
        return self.library.compiler(self.calls)().cpp_pybinding(types, source)

    def triton(self, name: str, source: str, **_more) -> Kernel:
        return Kernel(name, source, self.calls)

    def wait(self, _scope) -> None:
        pass


def counted(code: str) -> list:
    """[bytes read, bytes written, tensors afterwards] of each call of an output code."""
    Compiler.calls = []
    loaded(code, Compiler)(inputs_of(code))
    return Compiler.calls


def main(codes: str, ran: str) -> None:
    listen()
    found, every = [], json.loads(Path(codes).read_text())
    Compiler.library = library_of(every, Path.cwd())
    for code in every:
        try:
            found.append(counted(code))
        except Exception as error:
            found.append(f"{type(error).__name__}: {str(error)[:300]}")
    torch.save(found, ran)


if __name__ == "__main__":
    main(*sys.argv[1:])
