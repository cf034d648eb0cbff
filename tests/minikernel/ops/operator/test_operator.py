"""`minikernel::softmax` as a PyTorch operator: what torch does with operators, on the CPU and on a GPU."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import grad, vmap

from minikernel.ops.operator import native, operator
from minikernel.ops.operator.operator import softmax_backward_op, softmax_op
from minikernel.proof.gradient_accuracy import gradient_error
from minikernel.proof.proof import TOLERANCE, numpy_error

gpu = pytest.mark.gpu
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
DIMS = (0, 1, -1)


def float64(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()


@st.composite
def strided_tensors(draw):
    """(tensor of any rank up to 4 with permuted axes and steps, one of its dims)."""
    sizes = draw(st.lists(st.integers(0, 5), max_size=4))
    steps = [draw(st.integers(1, 2)) for _ in sizes]
    whole = torch.randn([size * step for size, step in zip(sizes, steps, strict=True)])
    x = whole[tuple(slice(None, None, step) for step in steps)].permute(draw(st.permutations(range(len(sizes)))))
    return x, draw(st.integers(-max(1, x.dim()), max(1, x.dim()) - 1))


@pytest.mark.parametrize("dim", DIMS)
def test_the_operators_pass_torchs_own_check(dim):
    x, dy = float64(3, 4, 5), float64(3, 4, 5, seed=1)
    y = torch.softmax(x, dim).detach().requires_grad_()
    torch.library.opcheck(softmax_op, (x, dim))
    torch.library.opcheck(softmax_op, (torch.randn(5, 4, 3).permute(2, 0, 1).requires_grad_(), dim))
    torch.library.opcheck(softmax_backward_op, (dy, y, dim))


@given(strided_tensors())
@settings(max_examples=60)
def test_any_shape_stride_and_dim_gives_torchs_result(case):
    x, dim = case
    result = softmax_op(x, dim)
    assert result.is_contiguous()
    torch.testing.assert_close(result, torch.softmax(x, dim), rtol=1e-6, atol=0)
    fake = torch.ops.minikernel.softmax(x.to("meta"), dim)
    assert (fake.shape, fake.stride(), fake.dtype) == (result.shape, result.stride(), result.dtype)


@pytest.mark.parametrize("dim", [3, -4])
def test_an_axis_that_is_none_is_refused_as_torch_does(dim):
    with pytest.raises(IndexError, match="Dimension out of range"):
        softmax_op(torch.zeros(2, 3, 4), dim)


def test_it_compiles_without_a_graph_break_and_trains():
    compiled = torch.compile(lambda x: (softmax_op(2 * x, 0) ** 2).sum(), fullgraph=True, backend="aot_eager")
    x, same = float64(5, 6), float64(5, 6)
    compiled(x).backward()
    (torch.softmax(2 * same, 0) ** 2).sum().backward()
    torch.testing.assert_close(x.grad, same.grad)


def test_an_exported_program_holds_the_operator_and_takes_other_batches():
    class Head(torch.nn.Module):
        def forward(self, x):
            return softmax_op(x, -1)

    shapes = {"x": {0: torch.export.Dim("batch")}}
    program = torch.export.export(Head(), (torch.randn(3, 4),), dynamic_shapes=shapes)
    assert softmax_op in [node.target for node in program.graph.nodes]
    x = torch.randn(7, 4)
    assert torch.equal(program.module()(x), torch.softmax(x, -1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_fake_cuda_tensor_reaches_the_operator_and_autocasts_rule_for_a_softmax(dtype):
    before = torch.is_autocast_enabled("cuda")
    with FakeTensorMode():
        x = torch.empty(3, 600, device="cuda", dtype=dtype)
        assert operator.softmax(x, -1).dtype == dtype
        torch.set_autocast_enabled("cuda", True)  # torch.autocast refuses where there is no CUDA
        try:
            assert operator.softmax(x, -1).dtype == torch.softmax(x, -1).dtype == torch.float32
        finally:
            torch.set_autocast_enabled("cuda", before)


def outcome(function, x, arguments):
    """What a call returns or raises, in kind, and what it warns of and where."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            y = function(x, **arguments)
            found = y.shape, y.dtype, y.device
        except (TypeError, IndexError, RuntimeError) as error:
            found = type(error), str(error)
    return found, [(str(each.message), each.filename, each.lineno) for each in told]


@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64])
def test_it_stands_in_for_torchs_with_every_argument(device, dtype):
    with FakeTensorMode():
        for shape in ((2, 3, 600), (600,), ()):
            x = torch.empty(shape, device=device, dtype=dtype)
            calls = [{"dim": dim} for dim in (-1, 0, 5, None, True, "a")]
            calls += [{}, {"dim": -1, "_stacklevel": 1}, {"dim": -1, "_stacklevel": None}]
            calls += [{"dim": -1, "dtype": to} for to in (torch.float16, torch.float32, torch.float64, "float32")]
            for arguments in calls:
                ours, theirs = outcome(operator.softmax, x, arguments), outcome(F.softmax, x, arguments)
                assert ours == theirs, arguments


def test_a_gradient_that_is_not_plain_reaches_the_operator_from_cpp():
    pytest.importorskip("ninja")
    dy, y = torch.randn(3, 1).expand(3, 5), torch.softmax(torch.randn(3, 5), -1)
    backward = native.build().backward  # which the test above has built
    assert torch.equal(backward(dy, y), softmax_backward_op(dy, y, -1))
    assert backward(dy, y.requires_grad_()).requires_grad


@pytest.mark.filterwarnings("ignore:Implicit dimension")
@pytest.mark.parametrize("compiled", [False, True])
def test_a_module_that_finds_it_in_place_of_torchs_runs_as_before(monkeypatch, compiled):
    x, weight = torch.randn(5, 4, 8), torch.randn(24, 8)
    attention = torch.nn.MultiheadAttention(8, 2)
    modules = torch.nn.Softmax(dim=1), torch.nn.Softmax(), torch.nn.Softmax2d(), lambda x: attention(x, x, x)[1]
    modules += (lambda x: F.softmax(F.linear(x, weight), dtype=torch.float64, dim=-1),)
    run = torch.compile(backend="aot_eager", fullgraph=True) if compiled else lambda module: module
    before = [module(x) for module in modules]
    monkeypatch.setattr(F, "softmax", operator.softmax)
    for module, expected in zip(modules, before, strict=True):
        torch.testing.assert_close(run(module)(x), expected)


@pytest.mark.filterwarnings("ignore:Implicit dimension")
@pytest.mark.parametrize("dim", [None, -1])
def test_a_cuda_tensor_is_compiled_into_one_graph_with_and_without_a_dim(dim):
    with FakeTensorMode():
        x = torch.empty(3, 600, device="cuda")
        assert torch.compile(operator.softmax, backend="eager", fullgraph=True)(x, dim).shape == x.shape


def test_a_symbolic_trace_has_it_as_one_call():
    graph = torch.fx.symbolic_trace(lambda x: operator.softmax(x, -1, dtype=torch.float32)).graph
    (call,) = (node for node in graph.nodes if node.op == "call_function")
    assert call.target is operator.softmax
    assert call.kwargs == {"dim": -1, "_stacklevel": 3, "dtype": torch.float32}


class OnlyTorchs:
    """What stands for a tensor and knows torch's functions alone."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return "served" if function is F.softmax else NotImplemented


def test_what_stands_for_a_tensor_is_handed_torchs_softmax():
    assert operator.softmax(OnlyTorchs(), -1) == F.softmax(OnlyTorchs(), -1) == "served"


def test_cpu_tensors_and_float64_go_to_torchs_softmax():
    x = float64(3, 4)
    assert operator.softmax(x, 0).grad_fn.name() == torch.softmax(x, 0).grad_fn.name()


@gpu
@needs_gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("shape", [(600,), (3, 600), (2, 3, 50257), (2, 0, 4), ()])
@pytest.mark.parametrize("dim", [0, -1])
def test_on_a_gpu_forward_and_backward_are_right(dtype, shape, dim):
    x = torch.randn(shape, device="cuda").to(getattr(torch, dtype)).requires_grad_()
    dy = torch.randn_like(x)
    for function in (operator.softmax, softmax_op):
        y = function(x, dim)
        (dx,) = torch.autograd.grad(y, x, dy)
        last = dim if shape else -1
        rows = [t.detach().reshape(shape or (1,)).movedim(last, -1) for t in (x, y, dx, dy)]
        assert numpy_error(rows[1], rows[0]) <= TOLERANCE[dtype]
        assert gradient_error(rows[2], rows[3], rows[1]) <= max(2e-6, TOLERANCE[dtype] if dtype != "float32" else 0)


@gpu
@needs_gpu
def test_on_a_gpu_autocast_gives_what_torch_gives():
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        x = torch.randn(3, 600, device="cuda", dtype=dtype)
        with torch.autocast("cuda"):
            assert operator.softmax(x, -1).dtype == torch.softmax(x, -1).dtype == torch.float32


@gpu
@needs_gpu
def test_on_a_gpu_it_passes_torchs_check_compiles_and_transforms():
    x = torch.randn(3, 600, device="cuda", requires_grad=True)
    torch.library.opcheck(softmax_op, (x, -1))
    compiled = torch.compile(lambda x: operator.softmax(2 * x, -1) * 3, fullgraph=True)
    dy = torch.randn_like(x)
    torch.testing.assert_close(
        torch.autograd.grad(compiled(x), x, dy)[0],
        torch.autograd.grad(torch.softmax(2 * x, -1) * 3, x, dy)[0],
    )
    plain = x.detach()
    torch.testing.assert_close(vmap(lambda x: operator.softmax(x, -1))(plain), torch.softmax(plain, -1))
    torch.testing.assert_close(
        vmap(grad(lambda x: operator.softmax(x, -1).square().sum()))(plain),
        vmap(grad(lambda x: torch.softmax(x, -1).square().sum()))(plain),
    )
    first = torch.autograd.grad(operator.softmax(x, -1), x, dy, create_graph=True)[0]
    same = torch.autograd.grad(torch.softmax(x, -1), x, dy, create_graph=True)[0]
    torch.testing.assert_close(
        torch.autograd.grad(first.square().sum(), x)[0], torch.autograd.grad(same.square().sum(), x)[0]
    )


@gpu
@needs_gpu
def test_on_a_gpu_forward_and_backward_run_on_a_side_stream_and_in_a_graph():
    x, dy = torch.randn(64, 600, device="cuda"), torch.randn(64, 600, device="cuda")
    y = operator.cuda_softmax(x, -1)
    operator.cuda_softmax_backward(dy, y, -1)  # compiled before the capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = operator.cuda_softmax(x, -1)
        dx = operator.cuda_softmax_backward(dy, y, -1)
    x.copy_(torch.randn_like(x))
    graph.replay()
    assert numpy_error(y, x) < 1e-6
    assert gradient_error(dx, dy, y) < 2e-6
