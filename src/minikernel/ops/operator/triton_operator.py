"""`minikernel::softmax_triton`: the Triton kernels as operators through which Inductor sees.

`torch.library.triton_op` lets torch.compile trace to the launch itself: the kernel stands in Inductor's code like
its own, where an operator of CUDA C is a call that it cannot look into. `minikernel.softmax` compiles to it where
CuPy is missing, which CUDA C needs; the lab's captures show it.
"""

import torch
import triton
from torch._prims_common import canonicalize_dim
from torch.fx.experimental.symbolic_shapes import guard_or_true
from torch.library import triton_op, wrap_triton

from minikernel.ops.operator import transforms
from minikernel.ops.softmax_triton import softmax_kernel
from minikernel.ops.softmax_triton_backward import softmax_backward_kernel
from minikernel.ops.softmax_triton_configs import default_config, specialization
from minikernel.ops.softmax_triton_rows import DTYPES, FUSION, check_operand, on_device_of


def launch(kernel, result: torch.Tensor, operands: tuple[torch.Tensor, ...], extra: tuple[int, ...] = ()) -> None:
    """Launch a kernel in its default configuration over contiguous (..., cols) tensors of one shape.

    `extra`: the kernel's arguments between the number of rows and the row length, which is a compile-time constant:
    under dynamic shapes each width is compiled anew.
    """
    # `int` fixes a symbolic width: the kernel is compiled for it, and Dynamo guards on it.
    cols = int(result.shape[-1])
    rows = result.numel() // cols
    itemsize = operands[0].element_size()
    config = default_config(cols, itemsize, tensors=len(operands))
    keywords = specialization(cols, config, itemsize, tensors=len(operands))
    del keywords["maxnreg"]  # torch.compile passes it to no kernel of a user's
    # Inductor sees the launch itself, where an operator that it cannot look into would be a call.
    launched = wrap_triton(kernel)
    grid = (triton.cdiv(rows, config["ROWS"]),)
    if launched is kernel:  # nothing is traced
        operands = tuple(map(check_operand, operands))
        with on_device_of(result):
            kernel[grid](result, *operands, rows, *extra, cols, **keywords, **FUSION)
    else:
        launched[grid](result, *operands, rows, *extra, cols, **keywords)


def along_rows(operator, dim: int, *tensors: torch.Tensor) -> torch.Tensor:
    """An operator over the last axis of contiguous tensors, made one over `dim`; a scalar is a row of one."""
    dim = canonicalize_dim(tensors[0].dim(), dim)
    if not tensors[0].dim():
        return operator(*(x.reshape(1) for x in tensors)).view(())
    if dim == tensors[0].dim() - 1:
        return operator(*(x.contiguous() for x in tensors))
    return operator(*(x.movedim(dim, -1).contiguous() for x in tensors)).movedim(-1, dim).contiguous()


@triton_op("minikernel::softmax_triton", mutates_args={})
def softmax(x: torch.Tensor, dim: int = -1, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Softmax over an axis of a CUDA tensor of any shape: float32, bfloat16 or float16; contiguous.

    `dtype`: of the result, that of `x` unless given. Other dtypes, on either side, are torch's to compute or refuse.
    """
    if not {x.dtype, dtype or x.dtype} <= set(DTYPES):
        return transforms.torch_softmax(x, dim, dtype)

    def of_rows(rows: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(rows, dtype=dtype)
        # a number of rows that only the data tell is taken for some: a grid of none is launched by nobody
        if guard_or_true(rows.numel() != 0):
            # without the autotuner: `extra` stands for `rows_bucket`, which only that reads
            launch(softmax_kernel.fn, y, (rows,), extra=(1,))
        return y

    # Only float32 is more than 16 bits hold; else the input counts as if it were cast first.
    return along_rows(of_rows, dim, x if dtype in (None, torch.float32) else x.to(dtype))


@triton_op("minikernel::softmax_triton_backward", mutates_args={})
def softmax_backward(
    dy: torch.Tensor, y: torch.Tensor, dim: int = -1, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """The gradient (dy - sum(dy y)) y over an axis; `dtype`: of the result, that of `y` unless given."""
    if not {y.dtype, dtype or y.dtype} <= set(DTYPES) or (dy.dtype, dy.shape) != (y.dtype, y.shape):
        return transforms.torch_softmax_backward(dy, y, dim, dtype)

    def of_rows(incoming: torch.Tensor, probabilities: torch.Tensor) -> torch.Tensor:
        dx = torch.empty_like(probabilities, dtype=dtype)
        if guard_or_true(dx.numel() != 0):
            launch(softmax_backward_kernel, dx, (incoming, probabilities))
        return dx

    return along_rows(of_rows, dim, dy, y)


OPERATORS = torch.ops.minikernel.softmax_triton.default, torch.ops.minikernel.softmax_triton_backward.default
LIBRARY = torch.library.Library("minikernel", "FRAGMENT")  # registrations last as long as this object
transforms.register(LIBRARY, *OPERATORS, keys=transforms.EACH_AUTOGRAD)
