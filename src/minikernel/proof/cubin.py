"""What CUDA's tools tell of compiled machine code: registers, spills and shared memory of each kernel.

`cuobjdump` and `nvdisasm` come with Triton's wheel and with CUDA's toolkit. Triton's are asked first, because they are
pinned with the environment; where they cannot read a file, which a newer compiler wrote, CUDA's are.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from minilab import LabError

# Hopper, which the records are of: what fits its registers is what the tests hold kernels to
ARCHITECTURE = 90
SYSTEM_SHARED_BYTES = 1024  # of each block's shared memory, from compute capability 9.0 on
USAGE = re.compile(
    r"Function (?P<name>\w+):\s+REG:(?P<registers>\d+) STACK:(?P<stack>\d+) SHARED:(?P<shared>\d+) LOCAL:(?P<local>\d+)"
)


def cuda_tools(name: str) -> Iterator[str]:
    """The paths of one of CUDA's tools, in the order in which they are asked: Triton's, then the one on the PATH."""
    triton = find_spec("triton")
    shipped = Path(triton.origin).parent / "backends/nvidia/bin" if triton and triton.origin else None
    found = [shutil.which(name, path=str(shipped)) if shipped else None, shutil.which(name)]
    yield from dict.fromkeys(path for path in found if path)


def ask_cuda_tool(name: str, *arguments: str) -> str | None:
    """Run one of CUDA's tools and return what it printed; None where there is none, or none can read its input."""
    for command in cuda_tools(name):
        done = subprocess.run([command, *arguments], capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout
    return None


def parse_resource_usage(report: str) -> list[dict]:
    """The kernels in the output of `cuobjdump --dump-resource-usage`.

    Returns:
        For each: its mangled name, registers a thread, stack_bytes a thread (0: nothing spills) and
        shared_bytes a block, without what the system takes and what the launch adds.
    """
    return [
        {
            "name": match["name"],
            "registers": int(match["registers"]),
            # both are memory: spilled registers on the stack, and what else the compiler found no register for
            "stack_bytes": int(match["stack"]) + int(match["local"]),
            "shared_bytes": max(0, int(match["shared"]) - SYSTEM_SHARED_BYTES),
        }
        for match in USAGE.finditer(report)
    ]


def resource_usage(cubin: bytes) -> list[dict]:
    """Read what the kernels in a piece of machine code use, as `parse_resource_usage` returns it.

    Raises:
        LabError: there is no cuobjdump, neither Triton's nor CUDA's, or none that can read it.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        report = ask_cuda_tool("cuobjdump", "--dump-resource-usage", str(path))
    if report is not None:
        return parse_resource_usage(report)
    if not any(cuda_tools("cuobjdump")):
        raise LabError("cuobjdump is missing, which reads registers off compiled kernels; install triton or CUDA.")
    raise LabError("no cuobjdump here can read what was compiled; install a newer CUDA or triton.")


def does_not_compile(what: str, why: object) -> LabError:
    """The refusal of a kernel that does not compile, with the compiler's words."""
    return LabError(f"{what} does not compile for sm_{ARCHITECTURE}: {str(why).strip()}")
