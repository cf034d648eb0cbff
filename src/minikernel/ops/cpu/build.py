"""Builds a rung's C++ into a shared library, in about a second, and keeps it by the digest of all that decides it.

Plain C functions are called through ctypes, so that none of torch's headers, which take twenty seconds, is read. The
compiler is the one that torch.compile asks. Where it has no OpenMP, or cannot write for the very processor that it runs
on, the rung is built without, and `left_out` says so.
"""

import ctypes
import functools
import hashlib
import logging
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from minilab import LabError
from minilab.device import cpp_compiler, cpu_name, has_cpp_compiler

HERE = Path(__file__).parent
# no -ffast-math: it would let the compiler reorder sums and assume that there is no NaN
OPTIONS = ("-std=c++17", "-O3", "-ffp-contract=fast", "-shared", "-fPIC")  # products and sums in one, rounded once
NATIVE, OPENMP = "-march=native", "-fopenmp"
MISSING = {NATIVE: "long_vectors", OPENMP: "threads"}  # by code, what a rung lacks without an option
log = logging.getLogger("minilab")


class Built(NamedTuple):
    """A rung's library, and the codes of what it was built without."""

    library: ctypes.CDLL
    left_out: tuple[str, ...]


def source(name: str) -> str:
    """The text of a rung's .cpp file, with the files beside it in place of their includes."""
    text = (HERE / f"{name}.cpp").read_text()
    # The digest below must change with a header, so that its text is part of the rung's.
    while included := re.search(r'^#include "([\w.]+)"$', text, re.M):
        text = text[: included.start()] + (HERE / included[1]).read_text() + text[included.end() :]
    return text


@functools.cache
def built(name: str) -> Built:
    """Build a rung and load it, once in a process.

    Raises:
        LabError: there is no C++ compiler, or the source does not compile; the compiler's words are in the sentence.
    """
    compiler = cpp_compiler()
    if not has_cpp_compiler():
        raise LabError(
            f"the C++ kernel {name} needs a C++ compiler, and {compiler} is not here; install one (apt-get install "
            "g++), or name yours in CXX."
        )
    said = ""
    # the best first; what a compiler refuses is left out, and said
    for extra in ((NATIVE, OPENMP), (NATIVE,), (OPENMP,), ()):
        path, said = _library(name, compiler, (*OPTIONS, *extra))
        if path:
            left_out = tuple(what for option, what in MISSING.items() if option not in extra)
            if left_out:
                log.warning("%s: %s builds it only without %s", name, compiler, " and ".join(left_out))
            return Built(ctypes.CDLL(str(path)), left_out)
    raise LabError(f"{name}.cpp does not compile with {compiler}: {said.strip()}")


def _library(name: str, compiler: str, options: tuple[str, ...]) -> tuple[Path | None, str]:
    """The path of the built library, and what the compiler said; None where it refused."""
    text = source(name)
    # The processor is among them: -march=native on another one of a shared home would end in an illegal instruction.
    decides = (text, shutil.which(compiler), _version(compiler), cpu_name(), *options)
    digest = hashlib.sha256("\0".join(map(str, decides)).encode()).hexdigest()[:16]
    library = cache() / f"{name}-{digest}.so"
    if library.exists():
        return library, ""
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:  # beside it, so that it appears whole
        made = Path(folder, library.name)
        command = [compiler, *options, f"-I{HERE}", str(HERE / f"{name}.cpp"), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return None, done.stderr or done.stdout
        # renaming is atomic, so that two processes that build at once cannot load half a library
        made.replace(library)
    return library, ""


@functools.cache
def _version(compiler: str) -> str:
    """What the compiler says of itself."""
    return subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout


@functools.cache
def cache() -> Path:
    """The folder of built rungs, the user's own; where it cannot be written, one that ends with the process."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(home, "minigpt-lab", "rungs")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return Path(_temporary().name)


@functools.cache
def _temporary() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="rungs-")
