"""Do the Triton kernels compile for a GPU that is not here? Registers, spills and shared memory, for sm_90.

The default configuration may not spill at any width, and the textbook's kernel not at the model's; the tests hold them
to that.
"""

from typing import Any

from minikernel.proof.cubin import ARCHITECTURE, does_not_compile, resource_usage
from minilab import LabError


def compile_triton(
    cols: int, dtype: str, config: dict[str, int], direction: str = "forward", result: str | None = None
) -> dict:
    """Compile one configuration of a Triton kernel for sm_90; no GPU is needed.

    Args:
        cols: row length, a compile-time constant of the kernels.
        dtype: `float32`, `bfloat16` or `float16`.
        config: BLOCK, ROWS, num_warps.
        direction: `forward` or `backward`.
        result: dtype of what is written, `dtype` unless given.

    Returns:
        The configuration with cols, dtype, registers, stack_bytes (0: nothing spills), shared_bytes.

    Raises:
        LabError: it does not compile, or Triton runs in its interpreter, which compiles nothing.
    """
    from minikernel.ops import softmax_triton, softmax_triton_backward

    pointers = {"float32": "*fp32", "bfloat16": "*bf16", "float16": "*fp16"}
    pointer, itemsize, written = pointers[dtype], 4 if dtype == "float32" else 2, pointers[result or dtype]
    if direction == "forward":
        kernel = softmax_triton.softmax_kernel.fn
        options = softmax_triton.specialization(cols, config, itemsize)
    else:
        kernel = softmax_triton_backward.softmax_backward_kernel
        options = softmax_triton.specialization(cols, config, itemsize, tensors=2)
    if direction == "forward" and written != pointer:
        options["maxnreg"] = None  # as it is launched
    # None is the compiler's own choice, which is asked for by leaving the option out
    options = {name: value for name, value in options.items() if value is not None}
    # what the kernel takes as constexpr goes into the source, the rest are the compiler's own options
    constants = {"cols": cols} | {name: options.pop(name) for name in kernel.arg_names if name in options}
    counts = {"rows": "i32", "rows_bucket": "i32"}
    types = {name: counts.get(name, pointer) for name in kernel.arg_names} | dict.fromkeys(constants, "constexpr")
    types[kernel.arg_names[0]] = written
    what = f"the Triton {direction} kernel with {config} at {cols} columns of {dtype}"
    return {**config, "cols": cols, "dtype": dtype, **resources(what, kernel, types, constants, options)}


def compile_triton_textbook(cols: int) -> dict:
    """Compile the textbook's Triton kernel for rows of `cols` float32 as it is launched; as `compile_triton` does."""
    from minikernel.ops.ladder.softmax_triton_textbook import launch_options, softmax_kernel

    options = launch_options(cols)
    constants = {"BLOCK": options.pop("BLOCK")}
    types = {"y": "*fp32", "x": "*fp32", "cols": "i32", "BLOCK": "constexpr"}
    what = f"the textbook's Triton kernel at {cols} columns"
    found = resources(what, softmax_kernel, types, constants, options)
    return {**constants, **options, "cols": cols, "dtype": "float32", **found}


def resources(
    what: str,
    kernel: Any,
    types: dict[str, str],
    constants: dict[str, Any],
    options: dict,
    dividing: tuple[str, ...] = (),
) -> dict:
    """Compile a kernel and read its registers, stack_bytes and shared_bytes; pointers are aligned as torch's are.

    `dividing`: numbers that 16 divides, as Triton sees when it launches.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from minikernel.ops.softmax_triton_rows import FUSION, INTERPRETED

    if INTERPRETED:
        raise LabError("Triton runs in its interpreter here and compiles nothing; unset TRITON_INTERPRET.")
    # torch's allocations are aligned to 16 bytes, and Triton specialises on that when it launches: without this
    # attribute other, slower code would be looked at.
    pointers = [number for number, kind in enumerate(types.values()) if kind.startswith("*")]
    pointers += [list(types).index(name) for name in dividing]
    source = ASTSource(
        fn=kernel,
        signature=types,
        constexprs=constants,
        attrs={(number,): [["tt.divisibility", 16]] for number in pointers},
    )
    try:
        compiled = triton.compile(source, target=GPUTarget("cuda", ARCHITECTURE, 32), options=options | FUSION)
    except Exception as error:  # Triton has no common class for what its passes raise
        raise does_not_compile(what, error) from error
    used = resource_usage(compiled.asm["cubin"])[0]
    return {
        "registers": used["registers"],
        "stack_bytes": used["stack_bytes"],
        "shared_bytes": compiled.metadata.shared,
    }
