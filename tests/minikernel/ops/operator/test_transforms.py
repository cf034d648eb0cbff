"""The operators under torch's transforms: every derivative is that of torch's own softmax, eager, batched and compiled.

Tangents are random: a tangent of ones is no change of a softmax, and would pass for zeros.
"""

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from torch.utils.checkpoint import checkpoint

from minikernel.ops.operator import triton_operator
from minikernel.ops.operator.operator import softmax_backward_op, softmax_op

GENERATOR = torch.Generator().manual_seed(0)
X, TANGENT, COTANGENT = torch.randn(3, 3, 4, generator=GENERATOR, dtype=torch.float64)
BATCH = torch.randn(2, 3, 4, generator=GENERATOR, dtype=torch.float64)
OPERATORS = {"softmax": (softmax_op, softmax_backward_op), "softmax_triton": triton_operator.OPERATORS}
pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of its own ways to trace and to linearize


def squares(function):
    return lambda x: function(x).square().sum()


TRANSFORMS = {
    "grad": lambda f: grad(squares(f)),
    "vjp": lambda f: lambda x: vjp(f, x)[1](COTANGENT)[0],
    "jvp": lambda f: lambda x: jvp(f, (x,), (TANGENT,))[1],
    "jacrev": jacrev,
    "jacfwd": jacfwd,
    "hessian": lambda f: hessian(squares(f)),
    "jacrev of jacrev": lambda f: jacrev(jacrev(f)),
    "jacfwd of jacfwd": lambda f: jacfwd(jacfwd(f)),
    "jacrev of jacfwd": lambda f: jacrev(jacfwd(f)),
}


@pytest.fixture(autouse=True)
def launched_on_a_cpu(monkeypatch):
    """What the Triton kernels compute, by torch: here it is what lies above a launch that counts."""

    def launch(kernel, result, operands, extra=()):
        if len(operands) == 1:
            result.copy_(torch.softmax(operands[0], -1, dtype=result.dtype))
        else:
            result.copy_(torch._softmax_backward_data(*operands, -1, operands[1].dtype))

    monkeypatch.setattr(triton_operator, "launch", launch)
    monkeypatch.setattr(triton_operator, "DTYPES", (*triton_operator.DTYPES, torch.float64))  # differences need it


def softmax_backward(dy, y):
    return (dy - (dy * y).sum(-1, keepdim=True)) * y


def functions_of(which):
    """(the lab's, torch's) function of one tensor: the softmax, and its backward pass in either operand."""
    forward, backward = OPERATORS[which]
    y = torch.softmax(X, -1)
    return {
        "forward": (lambda x: forward(x, -1), lambda x: torch.softmax(x, -1)),
        "backward of dy": (lambda x: backward(x, y, -1), lambda x: softmax_backward(x, y)),
        "backward of y": (lambda x: backward(COTANGENT, x, -1), lambda x: softmax_backward(COTANGENT, x)),
    }


@pytest.mark.parametrize("which", OPERATORS)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_gives_what_it_gives_of_torchs_softmax(which, name):
    transform = TRANSFORMS[name]
    for part, (ours, theirs) in functions_of(which).items():
        torch.testing.assert_close(transform(ours)(X), transform(theirs)(X), msg=lambda text, at=part: f"{at}: {text}")
        torch.testing.assert_close(vmap(transform(ours))(BATCH), vmap(transform(theirs))(BATCH))
        within = transform(lambda x, f=ours: vmap(f)(x)) if part == "forward" else transform(ours)
        torch.testing.assert_close(within(X), transform(theirs)(X))


@pytest.mark.parametrize("which", OPERATORS)
def test_compiled_transforms_are_the_same(which):
    for ours, theirs in functions_of(which).values():
        # one graph, as compiling takes far longer than what is compiled
        def all_of(f):
            chosen = ("jvp", "hessian")
            return lambda x: [TRANSFORMS[name](f)(x) for name in chosen]

        compiled = torch.compile(all_of(ours), backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(X), all_of(theirs)(X))


@pytest.mark.parametrize("which", OPERATORS)
def test_a_dual_tensor_keeps_its_tangent_eager_and_compiled(which):
    forward, _ = OPERATORS[which]

    def tangent_of(softmax):
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(softmax(forward_ad.make_dual(X, TANGENT), -1)).tangent

    expected = tangent_of(torch.softmax)
    torch.testing.assert_close(tangent_of(forward), expected)
    torch.testing.assert_close(torch.compile(tangent_of, backend="aot_eager", fullgraph=True)(forward), expected)


@pytest.mark.parametrize("which", OPERATORS)
def test_a_linearized_function_and_a_called_module_agree(which):
    forward, _ = OPERATORS[which]
    torch.testing.assert_close(
        linearize(lambda x: forward(x, -1), X)[1](TANGENT), jvp(lambda x: torch.softmax(x, -1), (X,), (TANGENT,))[1]
    )

    head, gradients = torch.nn.Linear(4, 5, dtype=torch.float64), []
    for softmax in (forward, torch.softmax):
        loss = lambda parameters, f=softmax: f(functional_call(head, parameters, (X,)), -1).square().sum()  # noqa: E731
        gradients.append(jacfwd(grad(loss))(dict(head.named_parameters()))["weight"]["bias"])
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("which", OPERATORS)
def test_compiled_autograd_and_checkpoints_have_the_gradient(which):
    forward, _ = OPERATORS[which]
    gradients = []
    for softmax in (forward, torch.softmax):
        for run in (lambda f, x: f(2 * x, -1), lambda f, x: checkpoint(f, 2 * x, -1, use_reentrant=False)):
            x = X.clone().requires_grad_()
            with torch._dynamo.compiled_autograd._enable(torch.compile(backend="aot_eager")):
                run(softmax, x).square().sum().backward()
            gradients.append(x.grad)
    for gradient in gradients[:3]:
        torch.testing.assert_close(gradient, gradients[3])


@pytest.mark.parametrize("which", OPERATORS)
@pytest.mark.parametrize("dim", [0, -1])
def test_differences_agree_in_both_modes_and_both_orders(which, dim):
    forward, backward = OPERATORS[which]
    x, dy = X.clone().requires_grad_(), COTANGENT.clone().requires_grad_()
    y = torch.softmax(X, dim).requires_grad_()
    both = {"check_forward_ad": True, "check_batched_grad": True, "check_batched_forward_grad": True}
    for function, inputs in ((lambda x: forward(x, dim), (x,)), (lambda dy, y: backward(dy, y, dim), (dy, y))):
        assert torch.autograd.gradcheck(function, inputs, **both)
        assert torch.autograd.gradgradcheck(function, inputs, check_fwd_over_rev=True)


@pytest.mark.parametrize("which", OPERATORS)
@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.bfloat16, torch.float16),
        (torch.float32, torch.bfloat16),
    ],
)
def test_a_result_of_another_dtype_has_its_derivatives_in_the_dtype_of_the_input(which, dtype, result):
    forward, _ = OPERATORS[which]
    x, tangent = X.to(dtype), TANGENT.to(dtype)
    ours, theirs = (lambda x: forward(x, -1, result)), (lambda x: torch.softmax(x, -1, dtype=result))
    assert torch.equal(ours(x), theirs(x))
    assert ours(x).dtype == result
    for transform in (
        lambda f: jvp(f, (x,), (tangent,))[1],
        lambda f: grad(lambda x: f(x).double().square().sum())(x),
        lambda f: hessian(lambda x: f(x).double().square().sum())(x),
        lambda f: vmap(lambda x: jvp(f, (x,), (tangent[0],))[1])(x),
    ):
        torch.testing.assert_close(transform(ours), transform(theirs), rtol=0.02, atol=0.01)


@pytest.mark.parametrize(
    ("shape", "in_dim", "dim"), [((3, 4, 5), 1, 0), ((3, 4, 5), 2, -1), ((4,), 0, 0), ((4,), 0, -1)]
)
def test_vmap_along_any_axis_agrees_with_a_loop(shape, in_dim, dim):
    x = torch.randn(shape, generator=GENERATOR, dtype=torch.float64)
    looped = torch.stack([torch.softmax(row, dim) for row in x.unbind(in_dim)])
    for forward, _ in OPERATORS.values():
        torch.testing.assert_close(vmap(lambda x, f=forward: f(x, dim), in_dims=in_dim)(x), looped)


def test_vmap_of_the_backward_operator_takes_an_operand_without_the_axis():
    dy, y = torch.randn(3, 4, 5), torch.softmax(torch.randn(4, 5), -1)
    for _, backward in OPERATORS.values():
        together = vmap(lambda dy, f=backward: f(dy, y, -1))(dy)
        torch.testing.assert_close(together, torch.stack([softmax_backward(each, y) for each in dy]))


@pytest.mark.parametrize("which", OPERATORS)
@pytest.mark.parametrize("shape", [(), (5,), (4, 5)])
def test_vmap_refuses_a_dim_of_its_own_axis_as_torch_does(which, shape):
    forward, backward = OPERATORS[which]
    x, rank = torch.randn(2, *shape), max(len(shape), 1)
    for dim in (-rank - 1, rank):
        for function in (
            lambda x, dim=dim: torch.softmax(x, dim),
            lambda x, dim=dim: forward(x, dim),
            lambda x, dim=dim: backward(x, x, dim),
        ):
            with pytest.raises(IndexError, match="Dimension out of range"):
                vmap(function)(x)
