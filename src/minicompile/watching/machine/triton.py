"""Inductor's Triton kernels, compiled once more outside of it: TTIR, PTX and machine code of each.

Triton compiles for a GPU without one being there, with the assembler that torch or Triton ships. A kernel's
configuration is the one that Inductor's autotuner chose on a real GPU; on the simulated target nothing was timed, and
it is the first candidate.
"""

import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from minicompile.torch_private import simulated
from minicompile.torch_private.names import owner
from minilab import LabError


@dataclass(frozen=True)
class CompiledKernel:
    """What Triton made of one kernel."""

    architecture: str  # e.g. sm_90
    configuration: dict  # block sizes, num_warps, num_stages
    candidates: int  # configurations that autotuning would choose from
    shared_bytes: int  # a block
    ttir: str
    ttgir: str
    llir: str
    ptx: str
    cubin: bytes


LAUNCH = ("num_warps", "num_stages")


def _options(configuration) -> dict:
    return {key: getattr(configuration, key) for key in LAUNCH}


class TritonKernels:
    """Kernels loaded, and compiled, for the GPU that is here or for the simulated one, while this is entered.

    Each is loaded once: that imports its text as a module, and the heuristics propose its configurations.

    Args:
        target: `cuda` or `simulated`.
    """

    def __init__(self, target: str) -> None:
        self.simulated = target == "simulated"
        self._loaded: dict[tuple[str, str, str], Any] = {}
        self._folder = ""  # of the kernels' files
        self._entered = ExitStack()

    def __enter__(self) -> "TritonKernels":
        # A torch built for CUDA brings its own, with which its kernels are assembled. From compute capability 9.0 on
        # Triton 3.9 takes another, the `ptxas-blackwell` of its wheel, here as well as there.
        owner("ptxas")._set_triton_ptxas_path()
        with ExitStack() as stack:
            # what another process left in Triton's cache would carry that process' file names in its line maps, and
            # what it tuned for another size would be proposed
            cache = stack.enter_context(tempfile.TemporaryDirectory())
            stack.enter_context(mock.patch.dict(os.environ, TRITON_CACHE_DIR=cache))
            self._folder = stack.enter_context(tempfile.TemporaryDirectory())
            if self.simulated:
                stack.enter_context(simulated.gpu_stand_in())
            self._entered = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._loaded.clear()
        self._entered.close()

    def load(self, name: str, function: str, text: str) -> Any:
        """The autotuner object that a kernel's text defines, under the name that it has in the wrapper."""
        key = name, function, text
        if key not in self._loaded:
            # Triton reads a function's source off its file; forward and backward may have kernels of one name
            path = Path(self._folder, str(len(self._loaded)), f"{name}.py")
            path.parent.mkdir()
            path.write_text(text)
            self._loaded[key] = loaded(path, function)
        return self._loaded[key]

    def without_folder(self, text: str) -> str:
        """What Triton prints of a kernel, its file named without the folder that it lay in."""
        return re.sub(rf"{re.escape(self._folder)}(?:/\d+)?/?", "", text)

    def compiled(
        self, sources: dict[str, tuple[str, str]], chosen: Callable[[str], dict | None]
    ) -> dict[str, CompiledKernel]:
        """Compile kernels.

        Args:
            sources: by the kernel's name in the wrapper, its own name in its text, and that text.
            chosen: by a kernel's text the configuration that a clock chose for it; the first candidate's where it is
                None.

        Raises:
            LabError: Triton cannot compile one of them.
        """
        return {name: self._compile(name, function, text, chosen(text)) for name, (function, text) in sources.items()}

    def _compile(self, name: str, function: str, text: str, chosen: dict | None) -> CompiledKernel:
        import triton
        from triton.compiler import ASTSource
        from triton.runtime import driver

        target = driver.active.get_current_target()
        try:
            kernel = self.load(name, function, text)
            options = {key: chosen[key] for key in LAUNCH} if chosen else _options(kernel.configs[0])
            blocks = {key: chosen[key] for key in chosen if key not in LAUNCH} if chosen else kernel.configs[0].kwargs
            constants = {**kernel.triton_meta.get("constants", {}), **blocks}
            constants = {key: value for key, value in constants.items() if key in kernel.fn.arg_names}
            signature = {**kernel.triton_meta["signature"], **dict.fromkeys(constants, "constexpr")}
            source = ASTSource(kernel.fn, signature, constants, kernel.triton_meta["configs"][0])
            compiled = triton.compile(source, target=target, options=options)
        except Exception as error:  # of Triton's many kinds; the sentence carries what it says
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise LabError(
                f"Triton {triton.__version__} cannot compile kernel {name} for sm_{target.arch}: {lines[0]}; "
                f"capture without a GPU's code with target='cpu', or report the kernel."
            ) from error
        asm = compiled.asm
        return CompiledKernel(
            f"sm_{target.arch}",
            {**blocks, **options},
            len(kernel.configs),
            compiled.metadata.shared,
            asm["ttir"],
            asm["ttgir"],
            asm["llir"],
            asm["ptx"],
            asm["cubin"],
        )


def loaded(path: Path, function: str) -> Any:
    """The autotuner object that the file of a kernel defines."""
    spec = importlib.util.spec_from_file_location(f"captured_kernel_{path.stem}", path)
    assert spec is not None  # as the path ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    return getattr(module, function)
