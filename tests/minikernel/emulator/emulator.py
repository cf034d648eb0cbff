"""Runs the lab's CUDA C++ kernels on a CPU: for tests, where there is no GPU.

`Kernel(text, expression)` compiles a kernel with g++; `launch` runs it on NumPy's arrays. The kernel's inline PTX is
translated instruction by instruction, so that what is tested is what a GPU gets. Each thread has a stack of its own
and runs until it waits for others (machine.cpp); blocks of a cluster run together, clusters one after the other.

What a launch finds, and raises as `KernelError`: threads that wait for ever, with what each waits for; an array or the
shared memory left at either end; a misaligned address; lanes of a warp that meet in different instructions; mbarriers
that were not made, or that count wrong; copies into a block that has ended. Shared memory holds NaN before it is
written. Copies by the copy engine and stores into other blocks come as late as they can, and with a seed at any time,
as threads then run in any order: what differs between seeds lacks a barrier.

Not emulated: the weaker order of memory on a GPU, time, and blocks of different clusters at the same time.
"""

import ctypes
import functools
import hashlib
import math
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from emulator.translate import translate

HERE = Path(__file__).parent
COMPILER = shutil.which("g++")
OPTIONS = [
    *("-std=c++17", "-O2", "-fPIC", "-shared", "-w", "-fmax-errors=5"),
    *("-ffp-contract=off", "-fno-strict-aliasing", "-fno-stack-protector", "-fno-semantic-interposition"),
    *("-fsanitize=alignment,bounds", "-fsanitize-undefined-trap-on-error"),
]
VECTOR_UNIT = ["-mavx2", "-mfma", "-mf16c"] if os.uname().machine == "x86_64" else []
FOR_THE_MACHINE = ["-O3", "-fno-sanitize=all"]
NAMES = {  # of CUDA C++, that a C++ compiler is to read over
    "__global__": "", "__device__": "", "__host__": "", "__forceinline__": "inline", "__noinline__": "",
    "__constant__": "", "__restrict__": "__restrict", "__grid_constant__": "", "__launch_bounds__(...)": "",
    "__cluster_dims__(...)": "", "__maxnreg__(...)": "", "__align__(n)": "alignas(n)", "__CUDACC__": "1",
    "__CUDA_ARCH__": "900", "EMULATED": "1",
}  # fmt: skip


class KernelError(AssertionError):
    """A kernel did what it must not; the sentence names the block and the thread."""


class Kernel:
    """A kernel of a CUDA C++ text, compiled for this CPU."""

    def __init__(self, text: str, expression: str) -> None:
        """Compile `expression`, e.g. `softmax<float>`, out of a source whose headers are inlined.

        Raises:
            KernelError: it does not compile; with the compiler's words.
            CannotTranslate: it uses what is not emulated.
        """
        self.expression, self.clustered = expression, "__cluster_dims__" in text
        self._library = _compiled(text, expression)
        self.sizes = [self._library.kernel_size(i) for i in range(self._library.kernel_parameters())]

    def launch(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        arguments: Sequence[Any],
        *,
        shared_bytes: int = 0,
        cluster: int | Sequence[int] | None = None,
        seed: int = 0,
    ) -> None:
        """Run it, as `kernel<<<grid, block, shared_bytes>>>(*arguments)` does, to its end.

        Args:
            grid: blocks.
            block: threads of a block.
            arguments: contiguous arrays for pointers, which are written in place (None for a null pointer), and NumPy
                scalars of the parameter's type.
            shared_bytes: dynamic shared memory of a block.
            cluster: blocks of a cluster, which a kernel with `__cluster_dims__` must be told.
            seed: 0: each thread runs as long as it can, in their order; otherwise in an order of that number.

        Raises:
            KernelError: the kernel does what it must not, or the arguments are not what it takes.
        """
        if self.clustered and cluster is None:
            raise KernelError(f"{self.expression} has __cluster_dims__; give `cluster` the blocks of a cluster.")
        shape = _Grid(_three(grid), _three(block), _three(cluster or 1), shared_bytes, math.prod(_tuple(cluster or 1)))
        for blocks, of in zip(shape.blocks, shape.cluster, strict=True):
            if blocks % of:
                raise KernelError(f"a grid of {grid} blocks is not made of clusters of {cluster}.")
        if len(arguments) != len(self.sizes):
            raise KernelError(f"{self.expression} takes {len(self.sizes)} arguments, not {len(arguments)}.")
        values = (ctypes.c_void_p * len(arguments))()
        pieces = (_Piece * len(arguments))()
        held = []
        for i, (given, size) in enumerate(zip(arguments, self.sizes, strict=True)):
            if given is None or (isinstance(given, np.ndarray) and given.ndim):
                if size != 8:
                    raise KernelError(f"argument {i} of {self.expression} is no pointer: it has {size} bytes.")
                if given is not None and not given.flags.c_contiguous:
                    raise KernelError(f"argument {i} of {self.expression} is not contiguous.")
                if given is not None and given.nbytes:
                    pieces[i] = _Piece(given.ctypes.data, given.nbytes, self._library.kernel_writes(i), None)
                values[i] = ctypes.addressof(pieces[i]) + _Piece.placed.offset
            else:
                scalar = np.array(given)
                if scalar.dtype == object or scalar.nbytes != size:
                    raise KernelError(
                        f"argument {i} of {self.expression} has {size} bytes, and {given!r} {scalar.nbytes}."
                    )
                held.append(scalar)
                values[i] = scalar.ctypes.data
        error = _machine().emulated_run(
            ctypes.cast(self._library.kernel_call, ctypes.c_void_p), values, pieces, len(arguments),
            ctypes.byref(shape), ctypes.c_uint64(seed),
        )  # fmt: skip
        if error:
            raise KernelError(f"{self.expression}: {error.decode()}.")


class _Grid(ctypes.Structure):
    _fields_ = [  # noqa: RUF012
        ("blocks", ctypes.c_uint * 3),
        ("threads", ctypes.c_uint * 3),
        ("cluster", ctypes.c_uint * 3),
        ("dynamic_bytes", ctypes.c_uint),
        ("cluster_size", ctypes.c_uint),
    ]


class _Piece(ctypes.Structure):
    _fields_ = [  # noqa: RUF012
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("writable", ctypes.c_int),
        ("placed", ctypes.c_void_p),
    ]


def _tuple(size: int | Sequence[int]) -> tuple[int, ...]:
    return (size,) if isinstance(size, int) else tuple(size)


def _three(size: int | Sequence[int]):
    return (ctypes.c_uint * 3)(*_tuple(size), *[1] * (3 - len(_tuple(size))))


def _folder() -> Path:
    """Where compiled kernels stay, under the digest of everything they were compiled from."""
    folder = Path(tempfile.gettempdir(), f"minikernel-emulator-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@functools.cache
def _digest() -> str:
    texts = [path.read_bytes() for path in sorted(HERE.iterdir()) if path.is_file()]
    options = [*OPTIONS, *VECTOR_UNIT, *FOR_THE_MACHINE, *NAMES]
    return hashlib.sha256(b"\0".join([*texts, " ".join(options).encode()])).hexdigest()[:16]


def _build(library: Path, text: str, options: list[str]) -> None:
    """Compile a C++ text into a library, which appears whole or not at all."""
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        unit, made = Path(folder, "unit.cpp"), Path(folder, "unit.so")
        unit.write_text(text)
        command = [str(COMPILER), *OPTIONS, *VECTOR_UNIT, f"-I{HERE}", str(unit), "-o", str(made), *options]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            raise KernelError(f"g++ refuses the kernel: {result.stderr[:4000]}")
        made.replace(library)


@functools.cache
def _machine() -> ctypes.CDLL:
    library = _folder() / f"machine-{_digest()}.so"
    if not library.exists():
        _build(library, (HERE / "machine.cpp").read_text(), [f"-Wl,-soname,{library.name}", *FOR_THE_MACHINE])
    machine = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    machine.emulated_run.restype = ctypes.c_char_p
    return machine


@functools.cache
def _compiled(text: str, expression: str) -> ctypes.CDLL:
    _machine()
    digest = hashlib.sha256(f"{_digest()}\0{text}\0{expression}".encode()).hexdigest()[:24]
    library = _folder() / f"kernel-{digest}.so"
    if not library.exists():
        _build(library, _unit(text, expression), [])
    return ctypes.CDLL(str(library))


def _unit(text: str, expression: str) -> str:
    """The C++ of a kernel and of what calls it with an array of pointers to its arguments."""
    defines = "".join(f"#define {name} {meaning}\n" for name, meaning in NAMES.items())
    command = [str(COMPILER), "-E", "-x", "c++", "-std=c++17", "-"]
    result = subprocess.run(command, input=f'{defines}# 1 "kernel.cu"\n{text}', capture_output=True, text=True)
    if result.returncode:
        raise KernelError(f"g++ refuses the kernel: {result.stderr[:4000]}")
    preprocessed = re.sub(r"^# \d+ \"<(?:built-in|command-line|stdin)>\".*$", "", result.stdout, flags=re.M)
    return f"""#include "ptx.h"
#undef INFINITY
#undef NAN
{translate(preprocessed)}
# 1 "caller.cpp"
namespace caller {{
template <class... Parameters> struct Of {{
  static constexpr size_t SIZES[] = {{sizeof(Parameters)..., 0}};
  static constexpr bool WRITES[] = {{(std::is_pointer<Parameters>::value &&
                                     !std::is_const<std::remove_pointer_t<Parameters>>::value)..., false}};
  template <size_t... PLACES>
  static void call(void (*kernel)(Parameters...), void** arguments, std::index_sequence<PLACES...>) {{
    kernel(*static_cast<std::remove_reference_t<Parameters>*>(arguments[PLACES])...);
  }}
}};
template <class... Parameters> Of<Parameters...> of(void (*)(Parameters...));
template <class... Parameters> void call(void (*kernel)(Parameters...), void** arguments) {{
  Of<Parameters...>::call(kernel, arguments, std::index_sequence_for<Parameters...>());
}}
template <class... Parameters> constexpr int count(void (*)(Parameters...)) {{ return sizeof...(Parameters); }}
constexpr auto kernel = &{expression};
}}
extern "C" void kernel_call(void* arguments) {{ caller::call(caller::kernel, static_cast<void**>(arguments)); }}
extern "C" int kernel_parameters() {{ return caller::count(caller::kernel); }}
extern "C" int kernel_size(int i) {{ return decltype(caller::of(caller::kernel))::SIZES[i]; }}
extern "C" int kernel_writes(int i) {{ return decltype(caller::of(caller::kernel))::WRITES[i]; }}
"""
