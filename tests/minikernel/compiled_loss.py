"""Do the kernels of linear_cross_entropy compile for a GPU that is not here? Registers, spills, memory, for sm_90."""

from typing import Any

from compiled_triton import resources

POINTERS = {"float32": "*fp32", "bfloat16": "*bf16", "float16": "*fp16"}
# arguments that are pointers of their own dtype, whatever h and weight are
FLOATS = (
    "losses", "known", "made", "parts", "drift", "partial", "partial_bias", "grad", "mean", "scale", "loss", "spread",
    "pull",
)  # fmt: skip
NUMBERS = ("softcap", "z_loss", "keep", "mass", "drift_bias")


def compile_recomputed(features: int, dtype: str, kernel: str, **flags: bool) -> dict[str, Any]:
    """Compile "forward", "weight" or "gather" of `recomputed_kernels` as it is launched; flags are its constants.

    Raises:
        LabError: it does not compile, or Triton runs in its interpreter, which compiles nothing.
    """
    import torch

    from minikernel.ops.linear_cross_entropy import recomputed, recomputed_kernels

    itemsize = 4 if dtype == "float32" else 2
    tiles = recomputed.tiles_of(features, itemsize)[kernel == "weight"]
    options = tiles.options(features) | recomputed.arithmetic(getattr(torch, dtype))
    options |= {"GUESS": dtype != "float32"} if kernel == "forward" else {"UPRIGHT": tiles.upright}
    if kernel == "gather":
        options = recomputed.gather_options(features, 5)
    function = getattr(recomputed_kernels, f"{kernel}_kernel")
    constants = {name: options.pop(name) for name in function.arg_names if name in options}
    constants |= {
        name: flags.get(name, False) for name in function.arg_names if name.isupper() and name not in constants
    }
    types = {name: _type(name, POINTERS[dtype]) for name in function.arg_names} | dict.fromkeys(constants, "constexpr")
    what = f"{kernel} of {features} features in {dtype}"
    return resources(what, function, types, constants, options, dividing=("features",) if features % 16 == 0 else ())


def _type(name: str, pointer: str) -> str:
    if name in FLOATS:
        return "*fp32"
    if name == "target":
        return "*i64"
    if name in NUMBERS:
        return "fp32"
    return pointer if name in ("h", "weight", "bias", "class_weight", "dweight", "dh", "logits") else "i32"


def compile_rows(**flags: bool) -> dict[str, Any]:
    """Compile the kernel of `rows_kernel` as it is launched on bfloat16."""
    from minikernel.ops.linear_cross_entropy import rows, rows_kernel

    function = rows_kernel.rows_kernel
    constants = {name: flags.get(name, False) for name in function.arg_names if name.isupper()}
    constants |= {"BLOCK": rows.BLOCK, "STAGES": rows.STAGES}
    types = {name: _type(name, "*bf16") for name in function.arg_names} | dict.fromkeys(constants, "constexpr")
    types |= {"weights": "*fp32", "upstream": "*fp32", "logits": "*fp32", "gradients": "*bf16"}
    return resources("the rows' kernel", function, types, constants, {"num_warps": rows.WARPS}, ("stride", "step"))


def compile_times(gradient: str) -> dict[str, Any]:
    """Compile the kernel that multiplies a gradient of this dtype into one of bfloat16."""
    from minikernel.ops.linear_cross_entropy import rows, rows_kernel

    types = {"product": "*bf16", "gradient": POINTERS[gradient], "factor": "*fp32", "size": "i32", "BLOCK": "constexpr"}
    constants = {"BLOCK": rows.MULTIPLIED}
    return resources("the multiplying kernel", rows_kernel.times_kernel, types, constants, {"num_warps": 8})


def compile_exponentials(features: int, bias: bool) -> dict[str, dict[str, Any]]:
    """Compile the kernels of `exponentials` as they are launched on bfloat16, by name."""
    from minikernel.ops.linear_cross_entropy import exponentials
    from minikernel.ops.linear_cross_entropy.options import Wanted

    launches = exponentials.launches_of(
        features, 2, bias, True, True, Wanted(True, True, bias), exponentials.TILES
    )._asdict()
    found = {}
    for name, launch in launches.items():
        function = launch.kernel
        constants = {one: launch.options[one] for one in function.arg_names if one in launch.options}
        options = {one: value for one, value in launch.options.items() if one not in constants}
        types = {one: _type(one, "*bf16") for one in function.arg_names} | dict.fromkeys(constants, "constexpr")
        more = {"order": "*i64", "ordered": "*i32", "exponentials": "*bf16", "scaled": "*bf16"}
        more |= dict.fromkeys(("weights", "far", "sums", "tops", "core", "dweight", "dbias", "upstream"), "*fp32")
        types |= {one: kind for one, kind in more.items() if one in types}
        dividing = tuple(one for one in ("features", "stride") if one in types and features % 16 == 0)
        found[name] = resources(f"{name} of {features} features", function, types, constants, options, dividing)
    return found
