"""The Triton operators: torch.compile's tracing goes through them, forward and backward, down to the launch."""

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import aot_export_joint_simple

from minikernel.ops.operator import triton_operator
from minikernel.proof.gradient_accuracy import gradient_error
from minikernel.proof.proof import numpy_error
from minilab import LabError

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


def test_what_no_kernel_knows_is_torchs_to_compute_or_to_refuse():
    x, y = torch.randn(3, 4), torch.softmax(torch.randn(3, 4), -1)
    for given, dtype in ((x, torch.float64), (x.double(), None), (x.long(), torch.float64)):
        found = triton_operator.softmax(given, -1, dtype)
        torch.testing.assert_close(found, torch.softmax(given, -1, dtype=dtype))
    dx = torch._softmax_backward_data(x.double(), y.double(), -1, torch.float64)
    torch.testing.assert_close(triton_operator.softmax_backward(x.double(), y.double()), dx)
    for given, dtype in ((x, torch.int64), (x.long(), None), (x, torch.complex64)):
        with pytest.raises(NotImplementedError, match="softmax"):
            triton_operator.softmax(given, -1, dtype)
    with pytest.raises(RuntimeError, match="same size"):  # whose memory a kernel would read past its end
        triton_operator.softmax_backward(x[:1], y)
    with pytest.raises(IndexError, match="Dimension out of range"):
        triton_operator.softmax(torch.tensor(1.0), 1)
    with pytest.raises(LabError, match="takes CUDA tensors, not one on cpu"):
        triton_operator.softmax(x)


def test_a_batch_of_a_size_that_the_data_tell_is_traced():
    traced = []

    def keep(graph, examples):
        traced.append(graph)
        return make_boxed_func(lambda *inputs: [torch.zeros(2, 600)])

    function = lambda x: triton_operator.softmax(x[x[:, 0] > 0] * 2)  # noqa: E731
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        torch.compile(function, backend=aot_autograd(fw_compiler=keep), fullgraph=True)(torch.randn(4, 600))
    assert [node.target for node in traced[0].graph.nodes].count(LAUNCH) == 1


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
