"""Every softmax by its name: the lab's kernels, what they are compared with, and a user's own.

Nothing is imported before a kernel is asked for, so that listing the names costs nothing and a machine
without Triton or CuPy can still use the others. Each entry of the table names its module and its source as plain
strings for a second reason: the workflow reads them to learn what a job on one kernel depends on, and an edit of
one kernel must not rerun the others'.
"""

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from minilab import LabError
from minilab.user_code import load_function, module_of

HERE = Path(__file__).parent
ALL_DTYPES = ("float32", "bfloat16", "float16")
TUNING = ("candidates", "launch", "default_config", "in_lab_grid")  # what a module offers whose kernel is tuned


@dataclass(frozen=True)
class KernelSpec:
    """What is known of a kernel without loading it."""

    name: str
    module: str  # imported when the kernel is first used
    function: str  # (..., cols) tensor -> softmax over the last axis
    source: Path  # the file that an entry of the configuration names
    dtypes: tuple[str, ...] = ALL_DTYPES
    tuned: bool = False  # takes `config=` and has `candidates(rows, cols)` beside it
    static: bool = False  # compiled anew for every shape
    accurate: bool = False  # one of the lab's own: held to 1e-6 relative in float32

    def load(self) -> Callable:
        """Import the kernel's module and return its function."""
        return getattr(importlib.import_module(self.module), self.function)


def _spec(name: str, module: str, function: str, source: str, **more) -> KernelSpec:
    """Describe one of the lab's own; `source` is relative to this folder."""
    return KernelSpec(name, module, function, HERE / source, **more)


# Paths and names are plain strings, never imported objects: the closure of a job's sources is read off them.
SPECS = {
    "naive": _spec("naive", "minikernel.ops.softmax_naive", "naive", "cuda/naive.cu", accurate=True),
    "smem": _spec("smem", "minikernel.ops.softmax_smem", "smem", "cuda/smem.cu", accurate=True),
    "fused": _spec("fused", "minikernel.ops.softmax_fused", "fused", "cuda/fused.cu", accurate=True),
    "triton": _spec(
        "triton", "minikernel.ops.softmax_triton", "softmax", "softmax_triton.py", tuned=True, accurate=True
    ),
    "numpy": _spec(
        "numpy", "minikernel.ops.softmax_reference", "numpy_softmax", "softmax_reference.py", dtypes=("float32",)
    ),
    "F.softmax": _spec("F.softmax", "minikernel.ops.softmax_reference", "torch_softmax", "softmax_reference.py"),
    "compile": _spec(
        "compile", "minikernel.ops.softmax_reference", "compile_default", "softmax_reference.py", static=True
    ),
    "compile-max-autotune": _spec(
        "compile-max-autotune",
        "minikernel.ops.softmax_reference",
        "compile_max_autotune",
        "softmax_reference.py",
        static=True,
    ),
}


class Kernels(Mapping):
    """name -> softmax over the last axis, loaded when first asked for."""

    def __getitem__(self, name: str) -> Callable:
        return self.spec(name).load()

    def __iter__(self) -> Iterator[str]:
        return iter(SPECS)

    def __len__(self) -> int:
        return len(SPECS)

    def __contains__(self, name: object) -> bool:
        return name in SPECS  # Mapping's own would load the kernel to find out

    @staticmethod
    def spec(name: str) -> KernelSpec:
        """Return what is known of the kernel `name` without loading it.

        Raises:
            KeyError: no kernel has that name; the message lists those that are.
        """
        if name not in SPECS:
            raise KeyError(f"no kernel is called {name!r}; there are {', '.join(SPECS)}")
        return SPECS[name]


kernels = Kernels()


# One module for each name in a process: its kernels' own caches of compiled code live in it.
@cache
def load_user_kernel(name: str, source: str, function: str) -> Callable:
    """Load the softmax that a user's Python file defines, once.

    Args:
        name: what the configuration calls it, for messages.
        source: path of the file.
        function: name in it of a function that takes a (rows, cols) tensor and returns its softmax.

    Raises:
        LabError: the file is missing, cannot be imported, or defines no such function.
    """
    return load_function("kernel", name, source, function)


def user_spec(name: str, entry: dict) -> KernelSpec:
    """Load a user's kernel and describe it: proven and timed in float32, tuned where it offers `TUNING`.

    Raises:
        LabError: as `load_user_kernel`.
    """
    load_user_kernel(name, entry["source"], entry["function"])
    module = module_of("kernel", name)
    # Asked of the module and not of the configuration: whoever writes the functions gets the tuning.
    tuned = all(hasattr(sys.modules[module], offered) for offered in TUNING)
    return KernelSpec(name, module, entry["function"], Path(entry["source"]), dtypes=("float32",), tuned=tuned)


def spec_of(name: str, entry: dict | None) -> KernelSpec | None:
    """Return the lab's own kernel behind a name and its entry in the configuration; None for a user's.

    Args:
        name: the kernel's name.
        entry: its entry, whose `source` is relative to the working directory; None for one that has none.

    Raises:
        LabError: the entry names CUDA C that is not the lab's, or there is neither entry nor kernel.
    """
    if entry is None:
        if name in SPECS:
            return SPECS[name]
        raise _unknown(name)
    source = Path(entry["source"]).resolve()
    # By file and function, not by name: a configuration may call one of the lab's kernels what it likes.
    for spec in SPECS.values():
        if spec.function == entry["function"] and spec.source.resolve() == source:
            return spec
    # CUDA C alone does not say how it is launched
    if source.suffix == ".cu":
        raise LabError(
            f"kernel {name}: {entry['source']} is CUDA C with no launcher; wrap it in a Python file (as "
            "softmax_cuda.py does with CuPy's RawModule) and name that file and its function."
        )
    return None


def _unknown(name: str) -> LabError:
    return LabError(
        f"kernel {name!r} is neither the lab's nor configured; the lab has {', '.join(SPECS)}, and your own "
        "goes under `kernels:` with its source and function."
    )


def any_spec(name: str, entry: dict | None) -> KernelSpec:
    """Describe the kernel behind a name: the lab's own, or the user's by its `source` and `function`.

    Raises:
        LabError: there is no such kernel, or the user's file is no good.
    """
    spec = spec_of(name, entry)
    if spec is None:
        if entry is None:
            raise _unknown(name)
        spec = user_spec(name, entry)
    return spec


def load_kernel(name: str, entry: dict | None = None) -> Callable:
    """Load the kernel behind a name, as `any_spec` finds it."""
    return any_spec(name, entry).load()
