"""Do the CUDA C kernels compile for a GPU that is not here? Registers, spills and shared memory of each, for sm_90.

The sources go through NVRTC, as they do when they are launched, where cuda-bindings bring it (the test extra does),
else through nvcc where it is on the PATH. Neither needs a GPU. No instance may spill; the tests hold them to it.
"""

import importlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from minikernel.proof.cubin import ARCHITECTURE, does_not_compile, resource_usage


def cuda_compiler() -> str | None:
    """`nvrtc` or `nvcc`, whichever can compile the CUDA C sources here; None where neither is present."""
    try:
        from cuda.bindings import nvrtc

        # the import alone loads no library
        nvrtc.nvrtcVersion()
        return "nvrtc"
    except (ImportError, RuntimeError):  # RuntimeError: the bindings are there, the library is not
        return "nvcc" if shutil.which("nvcc") else None


def compile_cuda(module: str) -> dict | None:
    """Compile every instance of a CUDA C source that can be launched, for sm_90.

    Args:
        module: the module that launches it, such as `minikernel.ops.softmax_naive`, with its `SOURCE` and `instances`.

    Returns:
        {"compiler", "architecture", "kernels": as `cubin.parse_resource_usage` returns them, NVRTC's under their
        names in `instances`}; or None where there is neither NVRTC nor nvcc.

    Raises:
        LabError: the source does not compile; the compiler's words are in the sentence.
    """
    compiler = cuda_compiler()
    if compiler is None:
        return None
    from minikernel.ops import softmax_cuda

    launcher = importlib.import_module(module)
    source = softmax_cuda.HERE / launcher.SOURCE
    compile_unit = _compile_with_nvrtc if compiler == "nvrtc" else _compile_with_nvcc
    # the file itself, with its headers beside it: a message then names the line that a person edits
    options = [*softmax_cuda.COMPILER_OPTIONS, f"-arch=sm_{ARCHITECTURE}", f"-I{source.parent}"]
    with tempfile.TemporaryDirectory() as folder:
        unit = Path(folder, source.name)
        unit.write_bytes(source.read_bytes())
        code, expression_of = compile_unit(unit, options, launcher.instances())
    kernels = resource_usage(code)
    named = [kernel | {"name": expression_of.get(kernel["name"], kernel["name"])} for kernel in kernels]
    return {"compiler": compiler, "architecture": f"sm_{ARCHITECTURE}", "kernels": named}


def _compile_with_nvrtc(unit: Path, options: list[str], expressions: list[str]) -> tuple[bytes, dict[str, str]]:
    """Compile a unit's instances; returns the machine code, and mangled name -> expression."""
    from cuda.bindings import nvrtc

    _, program = nvrtc.nvrtcCreateProgram(unit.read_bytes(), unit.name.encode(), 0, [], [])
    for expression in expressions:
        # Templates are compiled only where somebody names an instance.
        nvrtc.nvrtcAddNameExpression(program, expression.encode())
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        log = bytes(nvrtc.nvrtcGetProgramLogSize(program)[1])
        nvrtc.nvrtcGetProgramLog(program, log)
        raise does_not_compile(unit.name, log.decode().rstrip("\0"))
    code = bytes(nvrtc.nvrtcGetCUBINSize(program)[1])
    nvrtc.nvrtcGetCUBIN(program, code)  # the bindings write into the buffer that they are given
    return code, {nvrtc.nvrtcGetLoweredName(program, each.encode())[1].decode(): each for each in expressions}


def _compile_with_nvcc(unit: Path, options: list[str], expressions: list[str]) -> tuple[bytes, dict[str, str]]:
    """Compile as `_compile_with_nvrtc`, but nvcc tells no names; the address of an instance is what makes it one."""
    uses = [f"\nauto instance_{number} = &{expression};" for number, expression in enumerate(expressions)]
    unit.write_text(unit.read_text() + "".join(uses))
    cubin = unit.with_suffix(".cubin")
    command = ["nvcc", *options, "-cubin", str(unit), "-o", str(cubin)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise does_not_compile(unit.name, result.stderr or result.stdout)
    return cubin.read_bytes(), {}
