"""Say what is installed here, what of the lab works with it, and why the rest does not: for a report of a fault."""

import argparse
import importlib
import os
import platform
import subprocess
import sysconfig
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType

from packaging.requirements import Requirement

from minicompile.command import PROJECT, version
from minilab.device import cpp_compiler, cpu_name, gpu_names, has_cpp_compiler, nvidia_smi, usable_cores
from minilab.records.provenance import versions

SETTINGS = ("TORCH", "PYTORCH", "TRITON", "CUDA_", "CXX")  # begin the names of variables that change what is compiled
HEADERS = "#include <Python.h>\n#include <omp.h>\n"  # what torch.compile's own C++ includes beside torch's
OLDEST_GPU = (8, 0)  # compute capability that the lab's CUDA kernels are written for
CPU_BUILD = "https://download.pytorch.org/whl/cpu"  # where PyTorch offers it (pytorch.org, Get started)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(_: argparse.Namespace) -> None:
    print("\n".join(_report()))


def _report() -> Iterator[str]:
    yield f"minicompile {version()}"
    yield f"{platform.platform()}, {cpu_name()}, {usable_cores()} cores"
    for gpu in nvidia_smi():
        capability = f"compute capability {gpu['compute_cap']}"
        yield f"{gpu['name']}, driver {gpu['driver_version']}, {capability}, {gpu['memory.total']}"
    if not gpu_names():
        yield "no NVIDIA GPU"
    yield ", ".join(f"{name} {number}" for name, number in versions().items())
    yield f"C++ compiler: {_first(_said(cpp_compiler(), '--version')) if has_cpp_compiler() else 'none'}"
    yield from (f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(SETTINGS))
    yield ""
    machine = Machine()
    for what, why_not in machine.parts():
        yield f"{what}: {'works' if why_not is None else f'does not work here. {why_not}'}"
    yield from machine.for_nothing()


class Machine:
    """What this machine and what is installed on it allow."""

    def __init__(self) -> None:
        self.broken = ""
        self.torch: ModuleType | None = None
        try:
            self.torch = importlib.import_module("torch")
        except Exception as error:  # also of a shared library that is not there
            self.broken = f"torch cannot be imported ({_first(str(error))}); install it again."

    def parts(self) -> list[tuple[str, str | None]]:
        """What of the lab there is, and why it does not work here; None where it does."""
        return [
            ("the library's packages", self._lacking(None)),
            ("torch.compile for this CPU (minicompile --target cpu)", self.broken or self._builds()),
            ("Triton's code for an H200 that is not here (--target simulated)", self.broken or _no_triton()),
            ("torch.compile for a GPU (--target cuda)", self._no_cuda() or _no_triton()),
            ("the lab's kernels on a GPU (minikernel)", self._no_cuda() or self._too_old() or self._lacking("gpu")),
            ("the workflow (snakemake)", _no_checkout() or self._lacking("workflow")),
            ("the workflow on a cluster (profiles/slurm)", self._lacking("slurm")),
        ]

    def for_nothing(self) -> Iterator[str]:
        """What to do where torch's build for CUDA is installed and no GPU is here."""
        if self.torch is None or self.torch.version.cuda is None or gpu_names():
            return
        names = _libraries_of_cuda()
        size = sum(file.size or 0 for name in names for file in metadata.files(name) or ())
        yield ""
        yield (
            f"torch {self.torch.__version__} is a build for CUDA, and no NVIDIA GPU is here: {size / 1e9:.1f} GB of "
            "NVIDIA's libraries are there for nothing. The build for CPUs does here all that this one does:"
        )
        yield f"  pip uninstall -y {' '.join(['torch', *names])} && pip install torch --index-url {CPU_BUILD}"

    def _builds(self) -> str | None:
        if not has_cpp_compiler():
            return (
                f"It needs a C++ compiler, and {cpp_compiler()} is not here; apt-get install g++, or name one in CXX."
            )
        include = sysconfig.get_path("include")
        said = _said(cpp_compiler(), "-x", "c++", "-fopenmp", "-fsyntax-only", f"-I{include}", "-", given=HEADERS)
        wrong = next((line for line in said.splitlines() if "error:" in line), "")
        if "Python.h" in wrong:
            return "It builds against Python.h, which is not here: apt-get install python3-dev, or your Python's own."
        return f"{cpp_compiler()} does not compile what it writes: {wrong.strip()[:200]}." if wrong else None

    def _no_cuda(self) -> str | None:
        if self.broken or not gpu_names():
            return self.broken or "No NVIDIA GPU is here."
        torch = self.torch
        assert torch is not None
        if torch.version.cuda is None:
            return f"torch {torch.__version__} is a build for CPUs; install torch's default build."
        if not torch.cuda.is_available():
            return (
                f"torch is built for CUDA {torch.version.cuda} and reaches no GPU; update the driver, or see what "
                "CUDA_VISIBLE_DEVICES says."
            )
        return None

    def _too_old(self) -> str | None:
        assert self.torch is not None
        if self.torch.cuda.get_device_capability() >= OLDEST_GPU:
            return None
        return f"They are written for compute capability {'.'.join(map(str, OLDEST_GPU))} and later."

    def _lacking(self, extra: str | None) -> str | None:
        """Which packages are missing, or have another version than is asked for: the library's, or an extra's."""
        try:
            lacking = [said for one in required(extra) if (said := _is_not_there(one))]
        except metadata.PackageNotFoundError:
            return f"{PROJECT} is on Python's path and not installed, so what it needs is not known: pip install -e ."
        if not lacking:
            return None
        return f"It needs {', '.join(lacking)}: pip install '{PROJECT}{f'[{extra}]' if extra else ''}'."


def required(extra: str | None) -> list[Requirement]:
    """What the installed lab asks for on this machine: itself, or for an extra."""
    asked = [*map(Requirement, metadata.requires(PROJECT) or ())]
    of_all = [one for one in asked if _applies(one, "")]
    return of_all if extra is None else [one for one in asked if one not in of_all and _applies(one, extra)]


def _applies(one: Requirement, extra: str) -> bool:
    return one.marker is None or one.marker.evaluate({"extra": extra})


def _is_not_there(one: Requirement) -> str:
    try:
        installed = metadata.version(one.name)
    except metadata.PackageNotFoundError:
        return str(one).partition(";")[0].strip()
    if one.specifier.contains(installed, prereleases=True):
        return ""
    return f"{one.name}{one.specifier} ({installed} is installed)"


def _no_triton() -> str | None:
    try:
        importlib.import_module("triton")
    except Exception as error:
        return f"Triton cannot be imported ({_first(str(error))}); it is there for Linux: pip install triton."
    return None


def _no_checkout() -> str | None:
    if Path("Snakefile").is_file():
        return None
    return "It runs in a clone of the lab, and this folder has no Snakefile: clone it, and pip install -e . there."


def _libraries_of_cuda() -> list[str]:
    """The installed packages that torch's build for CUDA asks for."""
    asked = [Requirement(one) for one in metadata.requires("torch") or ()]
    wanted = [one.name for one in asked if one.marker is None or one.marker.evaluate({"extra": ""})]
    installed = {made.metadata["Name"] for made in metadata.distributions()}
    return sorted(name for name in {*wanted} & installed if name.startswith(("nvidia-", "cuda-")))


def _said(program: str, *arguments: str, given: str = "") -> str:
    """All that a program says; why it cannot be run where it cannot."""
    try:
        done = subprocess.run([program, *arguments], input=given, capture_output=True, text=True)
    except OSError as error:
        return f"error: {error}"
    return done.stdout + done.stderr


def _first(text: str) -> str:
    return (text.strip().splitlines() or [""])[0]
