"""`minikernel::softmax_triton`: the Triton kernels as operators through which Inductor sees.

`torch.library.triton_op` lets torch.compile trace to the launch itself: the kernel stands in Inductor's code like
its own, where an operator of CUDA C is a call that it cannot look into. `minikernel.softmax` compiles to it where
CuPy is missing, which CUDA C needs; the lab's captures show it.
"""

import torch
import triton
from torch.library import triton_op, wrap_triton

from minikernel.ops.softmax_triton import softmax_kernel
from minikernel.ops.softmax_triton_backward import softmax_backward_kernel
from minikernel.ops.softmax_triton_configs import default_config, specialization


def launch(kernel, result: torch.Tensor, operands: tuple[torch.Tensor, ...], extra: tuple[int, ...] = ()) -> None:
    """Launch a kernel in its default configuration over contiguous (..., cols) tensors of one shape.

    `extra`: the kernel's arguments between the number of rows and the row length, which is a compile-time constant:
    under dynamic shapes each width is compiled anew.
    """
    # `int` fixes a symbolic width: the kernel is compiled for it, and Dynamo guards on it.
    cols = int(result.shape[-1])
    rows = result.numel() // cols
    config = default_config(cols, result.element_size(), tensors=len(operands))
    keywords = specialization(cols, config, result.element_size(), tensors=len(operands))
    del keywords["maxnreg"]  # torch.compile passes it to no kernel of a user's
    # Inductor sees the launch itself, where an operator that it cannot look into would be a call.
    wrap_triton(kernel)[(triton.cdiv(rows, config["ROWS"]),)](result, *operands, rows, *extra, cols, **keywords)


@triton_op("minikernel::softmax_triton", mutates_args={})
def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis of a CUDA tensor of any shape: float32, bfloat16 or float16; contiguous."""
    rows = x.contiguous() if x.dim() else x.reshape(1)
    y = torch.empty_like(rows)
    if x.numel():
        # without the autotuner: `extra` stands for `rows_bucket`, which only that reads
        launch(softmax_kernel.fn, y, (rows,), extra=(1,))
    return y.view(x.shape)


@triton_op("minikernel::softmax_triton_backward", mutates_args={})
def softmax_backward(dy: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The gradient (dy - sum(dy y)) y over the last axis; arguments as `softmax` returns."""
    probabilities, incoming = (t.contiguous() if t.dim() else t.reshape(1) for t in (y, dy))
    dx = torch.empty_like(probabilities)
    if y.numel():
        launch(softmax_backward_kernel, dx, (incoming, probabilities))
    return dx.view(y.shape)


def _keep_result(ctx, inputs: tuple, output: torch.Tensor) -> None:
    ctx.save_for_backward(output)


def _gradient(ctx, dy: torch.Tensor) -> torch.Tensor:
    return softmax_backward(dy, *ctx.saved_tensors)


softmax.register_autograd(_gradient, setup_context=_keep_result)
