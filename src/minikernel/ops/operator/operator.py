"""`minikernel::softmax`, a PyTorch operator with a backward pass, for whatever torch does with operators.

Importing this module registers two operators with `torch.library`: `minikernel::softmax(x, dim, dtype)` and
`minikernel::softmax_backward(dy, y, dim, dtype)`. On CUDA, in float32, bfloat16 and float16, they launch the lab's
kernels, forward the one that `dispatch` names; everything else, float64 and the CPU among it, goes to torch's
own softmax. Both have a fake kernel (torch.compile, torch.export) and all that `transforms` registers: derivatives
of any order and mode, vmap, autocast, DTensor.

They are defined on a bare `torch.library.Library`, whose dispatch costs the host less than `custom_op`'s. A plain
eager call does not come here at all: `native.cpp` goes to the kernels at once.
"""

import torch
import torch.nn.functional as F
from torch.overrides import handle_torch_function

from minikernel.ops import softmax_cuda, softmax_fused, softmax_triton, softmax_triton_backward
from minikernel.ops import softmax_cuda_backward as cuda_backward
from minikernel.ops.dispatch import dispatch
from minikernel.ops.operator import native, transforms, triton_operator
from minikernel.ops.operator.transforms import TENSORS, known, torch_softmax, torch_softmax_backward

NAMESPACE = "minikernel"
LIBRARY = torch.library.Library(NAMESPACE, "DEF")  # registrations last as long as this object
LIBRARY.define("softmax(Tensor x, int dim, ScalarType? dtype=None) -> Tensor")
# The backward pass is an operator too, so that a compiler sees one node
# and not its arithmetic, and so that a gradient of it can be registered.
LIBRARY.define("softmax_backward(Tensor dy, Tensor y, int dim, ScalarType? dtype=None) -> Tensor")
softmax_op = torch.ops.minikernel.softmax.default
softmax_backward_op = torch.ops.minikernel.softmax_backward.default
softmax_of_torch = F.softmax  # kept: `F.softmax = minikernel.softmax` would make it call itself


def is_last(dim: int, rank: int) -> bool:
    """Whether `dim` names the last axis of a tensor of `rank`; a scalar has one, 0 or -1."""
    return dim in (-1, max(rank, 1) - 1)


def widens(x: torch.Tensor, dtype: torch.dtype | None) -> bool:
    """Whether a result in `dtype` is one that the Triton kernel writes while it reads `x`: float32 out of 16 bits."""
    return dtype == torch.float32 and x.dtype in softmax_cuda.C_TYPES and x.dtype.itemsize == 2


def cuda_rows_softmax(x: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Softmax over the last axis by the kernel that `dispatch` names; `dtype`: as `widens` has it, or None."""
    # a scalar is a row of one, as torch has it
    cols = x.shape[-1] if x.dim() else 1
    chosen = dispatch.choice(x.dtype, x.numel() // max(cols, 1), cols, x.get_device())
    if chosen.kernel == "fused" and dtype is None:
        return softmax_fused.fused(x)
    return softmax_triton.softmax(x, chosen.config or softmax_triton.default_config(cols), dtype)


def cuda_rows_softmax_backward(dy: torch.Tensor, y: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """The gradient over the last axis, by CUDA C, or by Triton where CuPy is missing or the gradient is narrower."""
    if dispatch.HAS_CUDA_C and dtype in (None, y.dtype):
        return cuda_backward.softmax_backward(dy, y)
    return softmax_triton_backward.softmax_backward(dy, y, dtype=dtype)


def cuda_softmax(x: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    """The forward operator on CUDA; `dim` is checked as torch checks it."""
    if not widens(x, dtype):
        x, dtype = x.to(dtype or x.dtype), None
    if x.dtype not in softmax_cuda.C_TYPES:
        return torch_softmax(x, dim)
    if is_last(dim, x.dim()):
        return cuda_rows_softmax(x, dtype)
    # The kernels know rows along the last axis only: one copy brings the axis there, one the result back.
    return cuda_rows_softmax(x.movedim(dim, -1), dtype).movedim(-1, dim).contiguous()


def cuda_softmax_backward(
    dy: torch.Tensor, y: torch.Tensor, dim: int, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """The backward operator on CUDA."""
    dtype = dtype or y.dtype
    if not {y.dtype, dtype} <= softmax_cuda.C_TYPES.keys():
        return torch_softmax_backward(dy, y, dim, dtype)
    if is_last(dim, y.dim()):
        return cuda_rows_softmax_backward(dy, y, dtype)
    dx = cuda_rows_softmax_backward(dy.movedim(dim, -1), y.movedim(dim, -1), dtype)
    return dx.movedim(-1, dim).contiguous()


# This key serves every backend that has no kernel below. It stands under autograd, so that the gradient that is
# registered here is used, and not that of the operations inside.
LIBRARY.impl("softmax", torch_softmax, "CompositeExplicitAutograd")
LIBRARY.impl("softmax_backward", torch_softmax_backward, "CompositeExplicitAutograd")
LIBRARY.impl("softmax", cuda_softmax, "CUDA")
LIBRARY.impl("softmax_backward", cuda_softmax_backward, "CUDA")


@torch.library.register_fake(softmax_op, lib=LIBRARY)
def fake_softmax(x: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Shape, dtype and strides of the result, always contiguous; a bad `dim` is refused as torch refuses it."""
    # torch's own softmax of the fake tensor computes nothing; it is there to refuse a bad `dim` in torch's words
    return torch.empty_like(torch.softmax(x, dim, dtype=dtype), memory_format=torch.contiguous_format)


@torch.library.register_fake(softmax_backward_op, lib=LIBRARY)
def fake_softmax_backward(
    dy: torch.Tensor, y: torch.Tensor, dim: int, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """Shape, dtype and strides of the gradient: those of `y`, contiguous."""
    return torch.empty_like(y, dtype=dtype, memory_format=torch.contiguous_format)


transforms.register(LIBRARY, softmax_op, softmax_backward_op)


def softmax(
    input: torch.Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """Softmax of `input` along `dim`, by the best kernel for its device and dtype, differentiable.

    It stands in for `F.softmax`, of which it has the arguments, the warning and the derivatives.
    On CUDA in float32, bfloat16 and float16 the lab's kernels do it, forward the one that `dispatch` names;
    torch's own softmax does the rest: other dtypes, the CPU, and subclasses of tensors but DTensor. A plain eager
    call goes to the kernel by the shortest way there is on the host (`minikernel.ops.operator.native`); torch.compile,
    torch.export, torch.func, DTensor and autocast get the operator `minikernel::softmax`, torch.compile
    `minikernel::softmax_triton` where CuPy is missing. The kernels' result is contiguous. A tensor is copied, once,
    only where `dim` is not its last axis or it is not contiguous.

    Args:
        input: floating-point tensor of any rank and strides.
        dim: the axis that sums to one. None is F.softmax's choice, with its warning: the first axis of a tensor of
            rank 0, 1 or 3, else the second.
        _stacklevel: of that warning, as F.softmax has it.
        dtype: of the result; `input` counts as if it were cast to it first. From 16 bits to float32 a kernel does both.

    Returns:
        A tensor of the shape of `input` and of `dtype`; where that is None of the dtype of `input`, under autocast
        float32.

    Raises:
        IndexError: `dim` is no axis of `input`, as torch raises it.
    """
    # The shortest way first: it asks for itself whether the call is plain. Dynamo cannot trace into it.
    if dtype is None and type(input) in TENSORS and input.is_cuda and not torch.compiler.is_dynamo_compiling():
        y = native.softmax()(input, dim) if type(dim) is int else None
        if y is not None:
            return y
    # A bool, a name, an array's number are torch's to judge; Dynamo cannot trace into the warning of a `dim` of None.
    clear = type(dim) is int or (dim is None and not torch.compiler.is_dynamo_compiling())
    if known(input) and input.is_cuda and clear and (dtype is None or isinstance(dtype, torch.dtype)):
        if dim is None:
            dim = F._get_softmax_dim("softmax", input.dim(), _stacklevel)  # type: ignore[attr-defined]
        if input.dtype in softmax_cuda.C_TYPES:
            if torch.compiler.is_compiling() and not dispatch.HAS_CUDA_C:
                return triton_operator.softmax(input, dim, dtype)
            return softmax_op(input, dim, dtype)
    # torch.fx's symbols see this function and no other; whatever else stands for a tensor knows torch's
    elif isinstance(input, torch.fx.Proxy):
        return handle_torch_function(softmax, (input,), input, dim=dim, _stacklevel=_stacklevel, dtype=dtype)
    return softmax_of_torch(input, dim, _stacklevel + 1 if dim is None else _stacklevel, dtype)
