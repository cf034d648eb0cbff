"""Do the Triton kernels compile for a GPU that is not here? Registers, spills and shared memory, for sm_90.

The default configuration may not spill at any width; the tests hold it to that.
"""

from minikernel.proof.cubin import ARCHITECTURE, does_not_compile, resource_usage
from minilab import LabError


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

    from minikernel.ops import softmax_triton, softmax_triton_backward

    if softmax_triton.INTERPRETED:
        raise LabError("Triton runs in its interpreter here and compiles nothing; unset TRITON_INTERPRET.")
    pointer, itemsize = {"float32": ("*fp32", 4), "bfloat16": ("*bf16", 2), "float16": ("*fp16", 2)}[dtype]
    if direction == "forward":
        kernel = softmax_triton.softmax_kernel.fn
        options = softmax_triton.specialization(cols, config, itemsize)
    else:
        kernel = softmax_triton_backward.softmax_backward_kernel
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
        raise does_not_compile(what, error) from error
    resources = resource_usage(compiled.asm["cubin"])[0]
    return {
        **config,
        "cols": cols,
        "dtype": dtype,
        "registers": resources["registers"],
        "stack_bytes": resources["stack_bytes"],
        "shared_bytes": compiled.metadata.shared,
    }
