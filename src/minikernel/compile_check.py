"""Do the kernels compile for a GPU that is not here? Registers, spills and shared memory of each, for sm_90.

The CUDA C sources go through nvcc where it is on the PATH, else through NVRTC where CuPy brings it; the
Triton kernel needs no GPU to compile. Resource counts are read off the machine code by `cuobjdump`, which
CUDA's toolkit brings and Triton's wheel too.
"""

import importlib
import re
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from minilab import LabError

ARCHITECTURE = 90
SYSTEM_SHARED_BYTES = 1024  # of each block's shared memory, from compute capability 9.0 on
USAGE = re.compile(
    r"Function (?P<name>\w+):\s+REG:(?P<registers>\d+) STACK:(?P<stack>\d+) SHARED:(?P<shared>\d+) LOCAL:(?P<local>\d+)"
)


def parse_resource_usage(report: str) -> list[dict]:
    """The kernels in the output of `cuobjdump --dump-resource-usage`.

    Returns:
        For each: its mangled name, registers a thread, stack_bytes a thread (0: nothing spills) and
        shared_bytes a block, without what the system takes.
    """
    return [
        {
            "name": match["name"],
            "registers": int(match["registers"]),
            "stack_bytes": int(match["stack"]) + int(match["local"]),
            "shared_bytes": max(0, int(match["shared"]) - SYSTEM_SHARED_BYTES),
        }
        for match in USAGE.finditer(report)
    ]


def _run(command: list[str], what: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise LabError(f"{what} does not compile for sm_{ARCHITECTURE}: {(result.stderr or result.stdout).strip()}")
    return result.stdout + result.stderr


def cuda_compiler() -> str | None:
    """`nvcc` or `nvrtc`, whichever can compile the CUDA C sources here; None where neither is present."""
    if shutil.which("nvcc"):
        return "nvcc"
    try:
        from cupy.cuda import nvrtc

        nvrtc.getVersion()
        return "nvrtc"
    except Exception:  # CuPy raises its own kinds where a library that it needs is missing
        return None


def compile_cuda(name: str) -> dict | None:
    """Compile every instance of `cuda/{name}.cu` that can be launched, for sm_90.

    Returns:
        {"compiler", "architecture", "kernels": as `parse_resource_usage` returns them},
        with null for what NVRTC does not tell; or None where there is neither nvcc nor NVRTC.

    Raises:
        LabError: the source does not compile; the compiler's words are in the sentence.
    """
    compiler = cuda_compiler()
    if compiler is None:
        return None
    softmax_cuda = importlib.import_module("minikernel.softmax_cuda")
    text = softmax_cuda.source(name)
    expressions = [expression for source, expression in softmax_cuda.instances() if source == name]
    for expression in expressions:
        c_type = re.search(r"<(\w+)", expression)[1]
        text += f"\ntemplate __global__ void {expression}(const {c_type}*, {c_type}*, long long, long long);"
    options = [*softmax_cuda.COMPILER_OPTIONS, f"-arch=sm_{ARCHITECTURE}"]
    if compiler == "nvrtc":
        _compile_with_nvrtc(text, name, options)
        unknown = {"registers": None, "stack_bytes": None, "shared_bytes": None}
        kernels = [{"name": expression, **unknown} for expression in expressions]
        return {"compiler": "nvrtc", "architecture": f"sm_{ARCHITECTURE}", "kernels": kernels}
    with tempfile.TemporaryDirectory() as folder:
        unit, cubin = Path(folder, f"{name}.cu"), Path(folder, f"{name}.cubin")
        unit.write_text(text)
        _run(["nvcc", *options, "-cubin", str(unit), "-o", str(cubin)], f"{name}.cu")
        return {"compiler": "nvcc", "architecture": f"sm_{ARCHITECTURE}", "kernels": _resource_usage(cubin)}


def _compile_with_nvrtc(text: str, name: str, options: list[str]) -> None:
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(text, f"{name}.cu", [], [])
    try:
        nvrtc.compileProgram(program, options)
    except nvrtc.NVRTCError:
        raise LabError(f"{name}.cu does not compile for sm_{ARCHITECTURE}: {nvrtc.getProgramLog(program)}") from None
    finally:
        nvrtc.destroyProgram(program)


def _resource_usage(cubin: Path) -> list[dict]:
    """What the kernels in a file of machine code use.

    Raises:
        LabError: there is no cuobjdump, neither Triton's nor CUDA's.
    """
    # CUDA's own first: an older one does not know the files that a newer compiler writes.
    command, triton = shutil.which("cuobjdump"), find_spec("triton")
    if command is None and triton:
        command = shutil.which("cuobjdump", path=str(Path(triton.origin).parent / "backends" / "nvidia" / "bin"))
    if command is None:
        raise LabError("cuobjdump is missing, which reads registers off compiled kernels; install triton or CUDA.")
    return parse_resource_usage(_run([command, "--dump-resource-usage", str(cubin)], cubin.name))


def compile_triton(cols: int, dtype: str, config: dict[str, int]) -> dict:
    """Compile one configuration of the Triton kernel for sm_90; no GPU is needed.

    Args:
        cols: row length, a compile-time constant of the kernel.
        dtype: `float32`, `bfloat16` or `float16`.
        config: BLOCK, ROWS, num_warps.

    Returns:
        The configuration with cols, dtype, registers, stack_bytes (0: nothing spills), shared_bytes.

    Raises:
        LabError: it does not compile, or Triton runs in its interpreter, which compiles nothing.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    softmax_triton = importlib.import_module("minikernel.softmax_triton")
    if softmax_triton.INTERPRETED:
        raise LabError("Triton runs in its interpreter here and compiles nothing; unset TRITON_INTERPRET.")
    kernel = softmax_triton.softmax_kernel.fn
    pointer = {"float32": "*fp32", "bfloat16": "*bf16", "float16": "*fp16"}[dtype]
    constants = {"cols": cols, "BLOCK": config["BLOCK"], "ROWS": config["ROWS"]}
    signature = {"y": pointer, "x": pointer, "rows": "i32", "rows_bucket": "i32"}
    source = ASTSource(
        fn=kernel,
        signature=signature | dict.fromkeys(constants, "constexpr"),
        constexprs=constants,
        attrs={(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]},
    )
    what = f"the Triton kernel with {config} at {cols} columns of {dtype}"
    try:
        target = GPUTarget("cuda", ARCHITECTURE, 32)
        compiled = triton.compile(source, target=target, options={"num_warps": config["num_warps"]})
    except Exception as error:  # Triton has no common class for what its passes raise
        raise LabError(f"{what} does not compile for sm_{ARCHITECTURE}: {error}") from error
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder, "softmax_kernel.cubin")
        cubin.write_bytes(compiled.asm["cubin"])
        resources = _resource_usage(cubin)[0]
    return {
        **config,
        "cols": cols,
        "dtype": dtype,
        "registers": resources["registers"],
        "stack_bytes": resources["stack_bytes"],
        "shared_bytes": compiled.metadata.shared,
    }
