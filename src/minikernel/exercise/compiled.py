"""C++ in an exercise: compiled in a moment by the compiler that torch.compile uses, called through ctypes, counted.

It includes no headers of torch's. A second build has a call before each load and store, which the compiler puts there
for ThreadSanitizer; the functions that it calls are the lab's own (`cpp/counting.cpp`) and write down the lines of
memory that are touched, for `minikernel.exercise.cache`.
"""

import ctypes
import hashlib
import os
import platform
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch

from minikernel.exercise.cache import Cache
from minikernel.ops.cpu.build import NATIVE, OPENMP
from minikernel.reasons import Refusal
from minilab.device import cpp_compiler, has_cpp_compiler
from minilab.user_code import printable

HERE = Path(__file__).parent
HEADER, COUNTING = "cpp/exercise.h", "cpp/counting.cpp"
FLAGS = ("-std=c++17", "-fPIC", "-shared", "-Wno-psabi")
OWN_FIRST = () if platform.system() == "Darwin" else ("-Wl,-Bsymbolic",)
SOURCE = "exercise.cpp"
MOST_LINES = 1 << 21  # touched in one count
COMPILE_SECONDS = 60


class Compiled:
    """A C++ function of rows, `void softmax(const float* x, float* y, long rows, long cols)`, as one of tensors.

    Attributes:
        counting: where a call tells what it touches, while somebody counts; None otherwise.
    """

    counting: Cache | None = None

    def __init__(self, source: str, function: str) -> None:
        self.source, self.function = source, function

    def __call__(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        """Call it.

        Args:
            x: float32 on the CPU, of any shape and strides; its rows are its last axis.
            y: contiguous memory for the result, of the shape of x; new memory where it is None.

        Returns:
            y, of the shape of x.

        Raises:
            Refusal: it does not compile, or there is no compiler.
        """
        if x.device.type != "cpu" or x.dtype != torch.float32:
            raise Refusal(
                {"code": "refused", "text": f"this C++ takes float32 on the CPU, not {x.dtype} on {x.device}"}
            )
        rows = x.contiguous()
        y = torch.empty_like(rows) if y is None else y
        if rows.numel():
            cols = x.shape[-1]
            arguments = (rows.data_ptr(), y.data_ptr(), rows.numel() // cols, cols)
            if self.counting:
                _count(_built(self.source, counted=True), self.function, arguments, self.counting)
            else:
                _callable(_built(self.source), self.function)(*arguments)
        return y.view(x.shape)


def compiled(source: str, function: str = "softmax") -> Compiled:
    """The C++ function of that name in `source`, which may include "exercise.h"; it is compiled when first called."""
    return Compiled(source, function)


def _callable(library: ctypes.CDLL, function: str) -> Callable[..., None]:
    try:
        found = getattr(library, function)
    except AttributeError:
        raise Refusal({"code": "not_compiled", "text": f'it has no extern "C" function {function}'}) from None
    found.argtypes, found.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_long], None
    return found


def _count(library: ctypes.CDLL, function: str, arguments: tuple[int, int, int, int], memory: Cache) -> None:
    """Call it and play what it touched through a cache."""
    entries = np.zeros(MOST_LINES, np.uint64)
    library.begin_counting(ctypes.c_void_p(entries.ctypes.data), ctypes.c_long(len(entries)))
    _callable(library, function)(*arguments)
    library.end_counting.restype = ctypes.c_long
    touched = entries[: library.end_counting()]
    for run in np.split(touched, np.flatnonzero(np.diff(touched & np.uint64(3))) + 1):  # each of one kind
        memory.touch_lines((run >> np.uint64(2)).tolist(), int(run[0] & np.uint64(3)) if len(run) else 0)


@cache
def _built(source: str, counted: bool = False) -> ctypes.CDLL:
    """The library of a source, built once in this process's folder for temporary files.

    An option that the compiler does not have is left out; what it says of the source is the learner's.
    """
    if not has_cpp_compiler():
        raise Refusal({"code": "no_compiler", "compiler": cpp_compiler()})
    name = hashlib.sha256(f"{counted}{source}".encode()).hexdigest()[:16]
    library = Path(tempfile.gettempdir(), f"exercise-{name}.so")
    if not library.exists():
        with tempfile.TemporaryDirectory() as folder:
            file, made = Path(folder, SOURCE), Path(folder, library.name)
            file.write_text(source)
            said = ""
            for extra in ((NATIVE, OPENMP), (NATIVE,), (OPENMP,), ()):
                said = _build(file, made, extra, counted)
                if not said or SOURCE in said:
                    break
            if said:
                raise Refusal(
                    {"code": "not_compiled", "text": printable((said.partition(f"{SOURCE}:")[2] or said).strip())}
                )
            os.replace(made, library)
    return ctypes.CDLL(str(library))


def _build(file: Path, made: Path, extra: Sequence[str], counted: bool) -> str:
    """Build a library with these options besides; what the compiler said first where it did not, else nothing."""
    flags = [*FLAGS, *extra, f"-I{(HERE / HEADER).parent}"]
    if not counted:
        return _compiled(*flags, "-O3", file, "-o", made)
    part = file.with_suffix(".o")
    instrumented = [flag for flag in flags if flag != "-shared"]
    said = _compiled(*instrumented, "-O1", "-fsanitize=thread", "-DCOUNTED", "-c", file, "-o", part)
    return said or _compiled(*flags, *OWN_FIRST, "-O2", HERE / COUNTING, part, "-o", made)


def _compiled(*arguments: str | Path) -> str:
    command = [cpp_compiler(), *map(str, arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=COMPILE_SECONDS)
    except subprocess.TimeoutExpired:
        raise Refusal({"code": "not_compiled", "text": f"it took more than {COMPILE_SECONDS} seconds"}) from None
    if not done.returncode:
        return ""
    lines = done.stderr.splitlines() or ["the compiler said nothing"]
    return next((line for line in lines if "error" in line), lines[0])
