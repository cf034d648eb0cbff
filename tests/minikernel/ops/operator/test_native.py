"""The eager path in C++: it builds without CUDA, leaves alone what is not plain, and is the operator's equal."""

import pytest
import torch

from minikernel.ops.operator import native, operator
from minikernel.proof.gradient_accuracy import gradient_error
from minikernel.proof.proof import TOLERANCE, numpy_error

gpu = pytest.mark.gpu
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def tensor(*shape, dtype=torch.float32):
    return torch.randn(shape, device="cuda").to(dtype)


def test_it_builds_here_and_leaves_a_cpu_tensor_to_the_operator():
    pytest.importorskip("ninja")
    extension = native.build()
    assert extension.softmax(torch.randn(3, 5), -1) is None
    assert extension.softmax("no tensor", -1) is None
    assert extension.softmax(torch.randn(3, 5)) is None


def test_without_a_compiler_every_call_goes_through_python(monkeypatch, caplog):
    def refuse():
        raise RuntimeError("no C++ compiler")

    monkeypatch.setattr(native, "build", refuse)
    native.softmax.cache_clear()
    try:
        assert native.softmax()(torch.randn(3, 5), -1) is None
        assert "no C++ compiler" in caplog.text
    finally:
        native.softmax.cache_clear()


@gpu
@needs_gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("cols", [1, 7, 600, 1000, 4096, 50257, 131072, 700000])
def test_a_plain_call_is_taken_and_right_forward_and_backward(dtype, cols):
    x = tensor(3, cols, dtype=getattr(torch, dtype)).requires_grad_()
    y = native.softmax()(x, -1)
    assert torch.equal(y, operator.softmax_op(x, -1))
    assert numpy_error(y.detach(), x.detach()) <= TOLERANCE[dtype]
    dy = torch.randn_like(y)
    (dx,) = torch.autograd.grad(y, x, dy)
    assert gradient_error(dx, dy, y.detach()) <= max(2e-6, TOLERANCE[dtype] if dtype != "float32" else 0)


@gpu
@needs_gpu
def test_what_is_not_plain_is_left_to_the_operator():
    x = tensor(6, 8)
    for other in (x.t(), x[:, 1:], x[1, 1:], x.double(), x[:0], torch.tensor(1.0, device="cuda")):
        assert native.softmax()(other, -1) is None
    assert native.softmax()(x, 0) is None
    with torch.autocast("cuda"):
        assert native.softmax()(x, -1) is None
        assert operator.softmax(x.half(), -1).dtype == torch.float32
    assert torch.func.vmap(lambda x: operator.softmax(x, -1))(x).shape == x.shape


@gpu
@needs_gpu
def test_it_works_in_inference_mode_without_gradient_and_on_a_side_stream():
    x = tensor(5, 600)
    expected = operator.softmax_op(x, -1)
    with torch.inference_mode():
        assert torch.equal(native.softmax()(x, 1), expected)
    with torch.no_grad():
        assert not native.softmax()(x.clone().requires_grad_(), -1).requires_grad
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10_000_000)
        late = x * 1
        y = native.softmax()(late, -1)
    stream.synchronize()
    assert torch.equal(y, expected)


@gpu
@needs_gpu
def test_it_is_captured_in_a_cuda_graph():
    x = tensor(5, 600)
    native.softmax()(x, -1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = native.softmax()(x, -1)
    x.copy_(tensor(5, 600))
    graph.replay()
    assert torch.equal(y, operator.softmax_op(x, -1))


@gpu
@needs_gpu
def test_gradients_of_gradients_go_through_the_operator():
    x = tensor(4, 600).requires_grad_()
    weight = tensor(4, 600)
    results = []
    for function in (native.softmax(), torch.softmax):
        (dx,) = torch.autograd.grad((function(x, -1) * weight).sum(), x, create_graph=True)
        results.append(torch.autograd.grad(dx.square().sum(), x)[0])
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-7)


@gpu
@needs_gpu
def test_a_strided_gradient_reaches_the_input():
    x = tensor(4, 600).requires_grad_()
    native.softmax()(x, -1).sum().backward()  # its gradient is an expanded scalar
    assert gradient_error(x.grad, torch.ones_like(x), torch.softmax(x.detach(), -1)) < 2e-6


@gpu
@needs_gpu
def test_compiled_autograd_traces_the_gradient():
    weight, gradients = tensor(4, 600), []
    for function in (native.softmax(), torch.softmax):
        x = torch.ones(4, 600, device="cuda").cumsum(-1).div(100).requires_grad_()
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend="aot_eager", fullgraph=True)):
            (function(2 * x, -1) * weight).sum().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-7)


@gpu
@needs_gpu
def test_a_function_mode_sees_an_operator():
    names = []

    class Seen(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            names.append(str(function))
            return function(*args, **(kwargs or {}))

    with Seen():
        operator.softmax(tensor(2, 600), -1)
    assert any("softmax" in name for name in names)
