"""The place in which the lab lies: what a run needs of it, checked before anything runs."""

import os
import time
from contextlib import suppress
from pathlib import Path

from minilab.errors import LabError

FOLDERS = ("logs", "results", ".snakemake")
DATED = ("src", "scripts", "results")  # folders of inputs and results
AHEAD_SECONDS = 2.0  # that a file server's clock may be ahead of this machine's
# Whether a multiplication and an addition are done at once: Triton's default may turn, and with it the registers.
SETTLED = {"TRITON_DEFAULT_FP_FUSION": "1"}
# Variables by which the same source becomes other machine code, or the same code takes another time.
DECISIVE = (
    *SETTLED,
    "TRITON_FORCE_DISABLE_FP_FUSION",
    "TRITON_F32_DEFAULT",
    "TRITON_OVERRIDE_ARCH",
    "TRITON_KERNEL_OVERRIDE",
    "TRITON_PTXAS_PATH",
    "TRITON_PTXAS_BLACKWELL_PATH",
    "TRITON_LIBDEVICE_PATH",
    "TRITON_MOCK_PTX_VERSION",
    "TRITON_INSTRUMENTATION_MODE",
    "TRITON_ENABLE_ASAN",
    "TRITON_DEBUG",
    "DISABLE_PTXAS_OPT",
    "PTXAS_OPTIONS",
    "DISABLE_LLVM_OPT",
    "LLVM_PASS_PLUGIN_PATH",
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    "CUPY_COMPILE_WITH_PTX",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_FORCE_JIT",
    "CUDA_LAUNCH_BLOCKING",
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "CUBLAS_WORKSPACE_CONFIG",
    "CXXFLAGS",
)


def check_surroundings(root: Path) -> None:
    """Refuse a place in which Snakemake would fail later, with words of its own.

    Raises:
        LabError: the path of the lab has braces in it, which Snakemake takes for wildcards; or a file lies where the
            lab's folders go; or a source or a result was written in the future.
    """
    if set("{}") & set(str(root)):
        raise LabError(
            f"the path of the lab, {root}, has braces in it, which Snakemake takes for wildcards; rename that folder."
        )
    for name in FOLDERS:
        if (root / name).exists() and not (root / name).is_dir():
            raise LabError(
                f"{name} is a file where the lab needs a folder; move it away and run the same command again."
            )
    _check_clock(root)


def check_folder(root: Path, lab: str) -> None:
    """Refuse to run in another folder than the lab's own: sources, schemas and records are found from there.

    Args:
        root: the folder that Snakemake works in.
        lab: the folder of the lab's Snakefile, or the address that a `module:` has it from.

    Raises:
        LabError: they are not the same.
    """
    if not (Path(lab).is_dir() and root.samefile(lab)):
        raise LabError(
            f"the lab runs in its own folder, {lab}, and this is {root}; `cd` there and leave --directory and "
            "`module:` away, or clone the lab to where you work (docs/cluster.md: a clone for each student)."
        )


def _check_clock(root: Path) -> None:
    """Refuse files from the future: Snakemake would run a job on one, and throw away what it made as older."""
    now = time.time()
    files = (Path(folder, name) for top in DATED for folder, _, names in os.walk(root / top) for name in names)
    dated = []
    for file in files:
        with suppress(FileNotFoundError):  # a temporary file of a job that runs meanwhile
            dated.append((file.lstat().st_mtime, file))
    newest, file = max(dated, default=(now, root))
    if newest > now + AHEAD_SECONDS:
        name = file.relative_to(root)
        raise LabError(
            f"{name} was written {newest - now:.0f} seconds from now by this machine's clock, so that whatever is "
            f"built from it would count as too old; set the clock, or `touch {name}`."
        )


def speak_utf8() -> None:
    """Have the Python of every job read and write UTF-8, as the lab's files are, whatever the locale says."""
    os.environ["PYTHONUTF8"] = "1"


def settle_code() -> None:
    """Say to compilers what they would otherwise decide by their version; what the user has said stays."""
    for name, value in SETTLED.items():
        os.environ.setdefault(name, value)


def decisive_variables() -> dict[str, str]:
    """The variables of this process's environment that change machine code or its time, but for what is settled."""
    held = {name: os.environ[name] for name in DECISIVE if os.environ.get(name)}
    return {name: value for name, value in held.items() if SETTLED.get(name) != value}
