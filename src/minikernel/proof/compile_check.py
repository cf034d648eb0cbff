"""Do the kernels compile for a GPU that is not here? Registers, spills and shared memory of each, for sm_90.

The CUDA C sources go through NVRTC, as they do when they are launched, where cuda-bindings bring it (the
test extra does), else through nvcc where it is on the PATH. Neither needs a GPU, nor does Triton. Resource counts
are read off the machine code by `cuobjdump`, which CUDA's toolkit brings and Triton's wheel too.

No instance of the CUDA C kernels may spill, nor Triton's default configuration at any width; the tests hold
them to it.
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
        shared_bytes a block, without what the system takes and what the launch adds.
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


def _resource_usage(cubin: Path) -> list[dict]:
    """What the kernels in a file of machine code use.

    Raises:
        LabError: there is no cuobjdump, neither Triton's nor CUDA's, or it cannot read the file.
    """
    # CUDA's own first: an older one does not know the files that a newer compiler writes.
    command, triton = shutil.which("cuobjdump"), find_spec("triton")
    if command is None and triton:
        command = shutil.which("cuobjdump", path=str(Path(triton.origin).parent / "backends" / "nvidia" / "bin"))
    if command is None:
        raise LabError("cuobjdump is missing, which reads registers off compiled kernels; install triton or CUDA.")
    result = subprocess.run([command, "--dump-resource-usage", str(cubin)], capture_output=True, text=True)
    if result.returncode:
        raise LabError(f"{command} cannot read {cubin.name} ({result.stderr.strip()}); install a newer CUDA or triton.")
    return parse_resource_usage(result.stdout)


def _does_not_compile(what: str, why: object) -> LabError:
    return LabError(f"{what} does not compile for sm_{ARCHITECTURE}: {str(why).strip()}")


def cuda_compiler() -> str | None:
    """`nvrtc` or `nvcc`, whichever can compile the CUDA C sources here; None where neither is present."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
        return "nvrtc"
    except (ImportError, RuntimeError):  # RuntimeError: the bindings are there, the library is not
        return "nvcc" if shutil.which("nvcc") else None


def instances() -> list[tuple[str, str]]:
    """Every CUDA C kernel that the lab can launch, as (source name, C++ name expression), each once."""
    launchers = ("softmax_cuda", "softmax_backward", "lm_head")
    forward, backward, head = (importlib.import_module(f"minikernel.{name}") for name in launchers)
    found = [
        *forward.instances(),
        *((backward.SOURCE, expression) for expression in backward.instances()),
        *(("linear_softmax", f"linear_softmax<{products}>") for products in head.PRODUCTS.values()),
    ]
    return list(dict.fromkeys(found))


def compile_cuda(name: str) -> dict | None:
    """Compile every instance of `cuda/{name}.cu` that can be launched, for sm_90.

    Returns:
        {"compiler", "architecture", "kernels": as `parse_resource_usage` returns them, NVRTC's under their
        names in `instances`}; or None where there is neither NVRTC nor nvcc.

    Raises:
        LabError: the source does not compile; the compiler's words are in the sentence.
    """
    compiler = cuda_compiler()
    if compiler is None:
        return None
    softmax_cuda = importlib.import_module("minikernel.ops.softmax_cuda")
    compile_unit = _compile_with_nvrtc if compiler == "nvrtc" else _compile_with_nvcc
    # the file itself, with its headers beside it: a message then names the line that a person edits
    options = [*softmax_cuda.COMPILER_OPTIONS, f"-arch=sm_{ARCHITECTURE}", f"-I{softmax_cuda.SOURCES}"]
    expressions = [expression for source, expression in instances() if source == name]
    with tempfile.TemporaryDirectory() as folder:
        unit, cubin = Path(folder, f"{name}.cu"), Path(folder, f"{name}.cubin")
        unit.write_bytes((softmax_cuda.SOURCES / unit.name).read_bytes())
        expression_of = compile_unit(unit, cubin, options, expressions)
        kernels = _resource_usage(cubin)
    named = [kernel | {"name": expression_of.get(kernel["name"], kernel["name"])} for kernel in kernels]
    return {"compiler": compiler, "architecture": f"sm_{ARCHITECTURE}", "kernels": named}


def _compile_with_nvrtc(unit: Path, cubin: Path, options: list[str], expressions: list[str]) -> dict[str, str]:
    """Write the machine code of a unit's instances to `cubin`; returns mangled name -> expression."""
    from cuda.bindings import nvrtc

    _, program = nvrtc.nvrtcCreateProgram(unit.read_bytes(), unit.name.encode(), 0, [], [])
    for expression in expressions:
        nvrtc.nvrtcAddNameExpression(program, expression.encode())
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        log = bytes(nvrtc.nvrtcGetProgramLogSize(program)[1])
        nvrtc.nvrtcGetProgramLog(program, log)
        raise _does_not_compile(unit.name, log.decode().rstrip("\0"))
    code = bytes(nvrtc.nvrtcGetCUBINSize(program)[1])
    nvrtc.nvrtcGetCUBIN(program, code)  # the bindings write into the buffer that they are given
    cubin.write_bytes(code)
    return {nvrtc.nvrtcGetLoweredName(program, each.encode())[1].decode(): each for each in expressions}


def _compile_with_nvcc(unit: Path, cubin: Path, options: list[str], expressions: list[str]) -> dict[str, str]:
    """As `_compile_with_nvrtc`, but nvcc tells no names; the address of an instance is what makes it one."""
    uses = [f"\nauto instance_{number} = &{expression};" for number, expression in enumerate(expressions)]
    unit.write_text(unit.read_text() + "".join(uses))
    command = ["nvcc", *options, "-cubin", str(unit), "-o", str(cubin)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise _does_not_compile(unit.name, result.stderr or result.stdout)
    return {}


def compile_triton(cols: int, dtype: str, config: dict[str, int], direction: str = "forward") -> dict:
    """Compile one configuration of a Triton kernel for sm_90; no GPU is needed.

    Args:
        cols: row length, a compile-time constant of the kernels.
        dtype: `float32`, `bfloat16` or `float16`.
        config: BLOCK, ROWS, num_warps.
        direction: `forward` or `backward`.

    Returns:
        The configuration with cols, dtype, registers, stack_bytes (0: nothing spills), shared_bytes.

    Raises:
        LabError: it does not compile, or Triton runs in its interpreter, which compiles nothing.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    softmax_triton = importlib.import_module("minikernel.ops.softmax_triton")
    if softmax_triton.INTERPRETED:
        raise LabError("Triton runs in its interpreter here and compiles nothing; unset TRITON_INTERPRET.")
    pointer, itemsize = {"float32": ("*fp32", 4), "bfloat16": ("*bf16", 2), "float16": ("*fp16", 2)}[dtype]
    if direction == "forward":
        kernel = softmax_triton.softmax_kernel.fn
        options = softmax_triton.specialization(cols, config, itemsize)
    else:
        kernel = importlib.import_module("minikernel.ops.softmax_triton_backward").softmax_backward_kernel
        options = softmax_triton.specialization(cols, config, itemsize, tensors=2)
    options = {name: value for name, value in options.items() if value is not None}
    constants = {"cols": cols} | {name: options.pop(name) for name in kernel.arg_names if name in options}
    counts = {"rows": "i32", "rows_bucket": "i32"}
    types = {name: counts.get(name, pointer) for name in kernel.arg_names} | dict.fromkeys(constants, "constexpr")
    pointers = [number for number, kind in enumerate(types.values()) if kind == pointer]
    source = ASTSource(
        fn=kernel,
        signature=types,
        constexprs=constants,
        attrs={(number,): [["tt.divisibility", 16]] for number in pointers},
    )
    try:
        target = GPUTarget("cuda", ARCHITECTURE, 32)
        compiled = triton.compile(source, target=target, options=options)
    except Exception as error:  # Triton has no common class for what its passes raise
        what = f"the Triton {direction} kernel with {config} at {cols} columns of {dtype}"
        raise _does_not_compile(what, error) from error
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder, "kernel.cubin")
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
