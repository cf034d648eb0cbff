"""Which addresses Inductor's Triton kernels touch: the evaluator of `minicompile.verifying` runs them and reports each.

The output code runs as it is, on the CPU, with inputs of the sizes that it checks for. What is said of a kernel's bytes
and of what became of a result follows from Inductor's loops and notes, and nothing of it from this evaluator.
"""

from unittest import mock

import torch
from generated_code import inputs_of, left_in, loaded
from touched_cpp import Library

from minicompile.verifying import kernels
from minicompile.verifying.blocks import Pointer
from minicompile.verifying.kernels import Trace, kernel_of

SECONDS = 120.0


class Marked(Trace):
    """A run that marks each byte that it reads and writes, by the memory's first address."""

    read: dict[int, torch.Tensor]
    written: dict[int, torch.Tensor]

    def loaded(self, pointer: Pointer, mask: torch.Tensor | None) -> None:
        self._mark(self.read, pointer, mask)

    def stored(self, pointer: Pointer, mask: torch.Tensor | None) -> None:
        self._mark(self.written, pointer, mask)

    @staticmethod
    def _mark(marks: dict[int, torch.Tensor], pointer: Pointer, mask: torch.Tensor | None) -> None:
        flat = pointer.memory.flat
        storage = flat.untyped_storage()
        touched = marks.setdefault(storage.data_ptr(), torch.zeros(storage.nbytes(), dtype=torch.bool))
        places = pointer.offsets if mask is None else pointer.offsets[mask]
        touched[: flat.nbytes].view(-1, flat.element_size())[places.reshape(-1)] = True


class Kernel:
    """A kernel whose accesses are counted."""

    def __init__(self, name: str, source: str, calls: list) -> None:
        self.name, self.source, self.calls = name, source, calls

    def run(self, *arguments, stream=None, **_more) -> None:
        marked = type("Run", (Marked,), {"read": {}, "written": {}})
        with mock.patch.object(kernels, "Trace", marked):
            kernels.run(kernel_of(self.name, self.source), arguments, SECONDS)
        counts = (sum(int(one.sum()) for one in some.values()) for some in (marked.read, marked.written))
        self.calls.append([*counts, left_in(arguments)])


def called(code: str, library: Library | None) -> list | str:
    """[bytes read, bytes written, tensors afterwards] of each call of an output code, or an error's text.

    Args:
        code: with kernels in Triton, in C++, or in both: a GPU's graph may run some on the CPU.
        library: the C++ kernels, built.
    """
    calls: list = []

    class Compiler:
        """In the place of AsyncCompile."""

        def cpp_pybinding(self, types: list, source: str):
            return library.compiler(calls)().cpp_pybinding(types, source)

        def triton(self, name: str, source: str, **_more) -> Kernel:
            return Kernel(name, source, calls)

        def wait(self, _scope) -> None:
            pass

    try:
        loaded(code, Compiler)(inputs_of(code))
    except Exception as error:  # whatever a generated code may raise: it is the verdict on this model
        return f"{type(error).__name__}: {str(error)[:300]}"
    return calls
