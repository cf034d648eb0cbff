"""Every softmax by its name: the lab's kernels, what they are compared with, and a user's own.

Nothing is imported before a kernel is asked for, so that listing the names costs nothing and a machine
without Triton or CuPy can still use the others. Modules are named by strings for a second reason: the
workflow reads import statements to learn what a job depends on, and an edit of one kernel must not
rerun the others'.
"""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from minilab import LabError

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


def _cuda_kernel(name: str) -> KernelSpec:
    return KernelSpec(name, "minikernel.ops.softmax_cuda", name, HERE / "cuda" / f"{name}.cu", accurate=True)


def _reference(name: str, function: str, **more) -> KernelSpec:
    return KernelSpec(name, "minikernel.ops.softmax_reference", function, HERE / "softmax_reference.py", **more)


SPECS = {
    spec.name: spec
    for spec in (
        _cuda_kernel("naive"),
        _cuda_kernel("smem"),
        _cuda_kernel("fused"),
        KernelSpec(
            "triton",
            "minikernel.ops.softmax_triton",
            "softmax",
            HERE / "softmax_triton.py",
            tuned=True,
            accurate=True,
        ),
        _reference("numpy", "numpy_softmax", dtypes=("float32",)),
        _reference("F.softmax", "torch_softmax"),
        _reference("compile", "compile_default", static=True),
        _reference("compile-max-autotune", "compile_max_autotune", static=True),
    )
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
        """What is known of the kernel `name` without loading it.

        Raises:
            KeyError: no kernel has that name; the message lists those that are.
        """
        if name not in SPECS:
            raise KeyError(f"no kernel is called {name!r}; there are {', '.join(SPECS)}")
        return SPECS[name]


kernels = Kernels()


@cache
def load_user_kernel(name: str, source: str, function: str) -> Callable:
    """The softmax that a user's Python file defines.

    Args:
        name: what the configuration calls it, for messages.
        source: path of the file.
        function: name in it of a function that takes a (rows, cols) tensor and returns its softmax.

    Raises:
        LabError: the file is missing, cannot be imported, or defines no such function.
    """
    where = f"kernel {name}: {source}"
    if not Path(source).is_file():
        raise LabError(f"{where} does not exist; write the path of the kernel's Python file.")
    module_name = user_module(name)
    module_spec = importlib.util.spec_from_file_location(module_name, source)
    if module_spec is None or module_spec.loader is None:
        raise LabError(f"{where} is not a Python file; a kernel of your own is a .py file with a function in it.")
    module = sys.modules[module_name] = importlib.util.module_from_spec(module_spec)
    try:
        module_spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise LabError(f"{where} cannot be imported ({first_line(error)}); mend the file.") from error
    if not callable(getattr(module, function, None)):
        defined = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise LabError(f"{where} has no function {function!r}; it defines {', '.join(defined) or 'none'}.")
    return getattr(module, function)


def user_module(name: str) -> str:
    """The name under which a user's kernel file is imported."""
    return f"user_kernel_{name}"


def first_line(failure: BaseException) -> str:
    """What a kernel raised, in one line: CUDA's and Triton's messages run to many.

    Triton's compiler puts the place first and the reason last; its interpreter wraps the reason, once a call.
    """
    while type(failure).__name__ == "InterpreterError" and failure.__cause__ is not None:
        failure = failure.__cause__
    lines = f"{type(failure).__name__}: {failure}".strip().splitlines()
    if type(failure).__name__ == "CompilationError" and len(lines) > 1:
        lines[0] += f" {lines[-1].strip()}"
    return lines[0].removesuffix(".")


def user_spec(name: str, entry: dict) -> KernelSpec:
    """What is known of a user's kernel, once it is loaded: proven and timed in float32, tuned where it offers `TUNING`.

    Raises:
        LabError: as `load_user_kernel`.
    """
    load_user_kernel(name, entry["source"], entry["function"])
    module = user_module(name)
    tuned = all(hasattr(sys.modules[module], offered) for offered in TUNING)
    return KernelSpec(name, module, entry["function"], Path(entry["source"]), dtypes=("float32",), tuned=tuned)


def spec_of(name: str, entry: dict | None) -> KernelSpec | None:
    """The lab's own kernel behind a name and its entry in the configuration; None for a user's.

    Raises:
        LabError: the entry names CUDA C that is not the lab's, or there is neither entry nor kernel.
    """
    if entry is None:
        if name in SPECS:
            return SPECS[name]
        raise LabError(
            f"kernel {name!r} is neither the lab's nor configured; the lab has {', '.join(SPECS)}, and your own "
            "goes under `kernels:` with its source and function."
        )
    source = Path(entry["source"])
    for spec in SPECS.values():
        if spec.function == entry["function"] and spec.source.parts[-2:] == source.parts[-2:]:
            return spec
    if source.suffix == ".cu":
        raise LabError(
            f"kernel {name}: {source} is CUDA C with no launcher; wrap it in a Python file (as softmax_cuda.py "
            "does with CuPy's RawModule) and name that file and its function."
        )
    return None


def load_kernel(name: str, entry: dict | None = None) -> Callable:
    """The kernel behind a name: the lab's own, or the user's by its `source` and `function`.

    Raises:
        LabError: there is no such kernel, or the user's file is no good.
    """
    spec = spec_of(name, entry)
    return spec.load() if spec else load_user_kernel(name, entry["source"], entry["function"])
