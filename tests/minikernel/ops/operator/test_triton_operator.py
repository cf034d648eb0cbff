"""The Triton operators: torch.compile's tracing goes through them, forward and backward, down to the launch."""

import pytest
import torch
from torch._functorch.aot_autograd import aot_export_joint_simple

from minikernel.ops.operator import triton_operator
from minikernel.proof.gradient_accuracy import gradient_error
from minikernel.proof.proof import numpy_error

LAUNCH = torch.ops.higher_order.triton_kernel_wrapper_functional
gpu = pytest.mark.gpu
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dim", [-1, 0])
def test_both_directions_are_traced_down_to_the_launch(dim):
    # `x * 2`: without a GPU, torch cannot tell what a kernel writes, and refuses that it may be an input
    function = lambda x: (triton_operator.softmax(x * 2, dim) * 2,)  # noqa: E731
    joint = aot_export_joint_simple(function, (torch.randn(4, 600, requires_grad=True),), trace_joint=True)
    assert sum(node.target is LAUNCH for node in joint.graph.nodes) == 2


@gpu
@needs_gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_on_a_gpu_it_passes_torchs_own_check(dtype):
    x = torch.randn(4, 600, device="cuda").to(getattr(torch, dtype)).requires_grad_()
    torch.library.opcheck(triton_operator.softmax, (x,))
    torch.library.opcheck(triton_operator.softmax_backward, (x.detach(), torch.softmax(x.detach(), -1)))


@gpu
@needs_gpu
def test_on_a_gpu_compiled_and_eager_agree_with_float64():
    from minikernel.proof.proof import TOLERANCE

    x, dy = torch.randn(2, 64, 1000, device="cuda").requires_grad_(), torch.randn(64, 1000, device="cuda")
    x, dy = x[0].detach().requires_grad_(), dy
    for function in (triton_operator.softmax, torch.compile(triton_operator.softmax, fullgraph=True)):
        y = function(x)
        (dx,) = torch.autograd.grad(y, x, dy)
        assert numpy_error(y.detach(), x.detach()) <= TOLERANCE["float32"]
        assert gradient_error(dx, dy, y.detach()) <= 2e-6
