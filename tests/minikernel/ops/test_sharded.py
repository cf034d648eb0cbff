"""The operators on a DTensor, and on tensors whose memory is not their own: as torch's softmax takes them."""

import ast
import re
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.func import grad, jvp, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.masked import masked_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

import minikernel
from minikernel.ops import lm_head
from minikernel.ops.cpu.rungs import checked
from minikernel.ops.operands import is_plain, readable
from minikernel.ops.operator.operator import softmax_backward_op, softmax_op
from minilab import LabError

FUNCTIONS = [softmax_op, minikernel.softmax]
pytestmark = pytest.mark.filterwarnings("ignore")  # of prototypes: masked and nested tensors


@pytest.fixture
def group(request):
    """A process group of one rank, which computes, or, asked for by its size, of several that only plan."""
    size = getattr(request, "param", 1)
    dist.init_process_group("fake" if size > 1 else "gloo", store=FakeStore() if size > 1 else dist.HashStore(),
                            rank=0, world_size=size)  # fmt: skip
    yield size
    dist.destroy_process_group()


@pytest.mark.parametrize("group", [4], indirect=True)
def test_placements_are_those_of_torchs_softmax(group):
    line, square = init_device_mesh("cpu", (4,)), init_device_mesh("cpu", (2, 2))
    one = [(line, [each]) for each in (Shard(0), Shard(1), Shard(2), Replicate(), Partial())]
    two = [(square, [Shard(0), each]) for each in (Shard(0), Shard(1), Shard(2), Replicate())]
    for mesh, placements in one + two:
        for dim in (0, -1):
            x = DTensor.from_local(torch.randn(4, 4, 8), mesh, placements, run_check=False).requires_grad_()
            found = []
            for function in (torch.softmax, softmax_op):
                y = function(x, dim)
                dy = DTensor.from_local(torch.randn_like(y.to_local()), mesh, y.placements, run_check=False)
                (dx,) = torch.autograd.grad(y, x, dy)
                found.append((y.placements, dx.placements, y.shape, dx.shape))
            assert found[0] == found[1], (placements, dim)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_sharded_softmax_and_its_gradient_are_torchs(group, function):
    mesh, full, seen = init_device_mesh("cpu", (1,)), torch.randn(64, 6), []
    for softmax in (function, torch.softmax):
        for placement in (Shard(0), Shard(1), Replicate()):
            x = distribute_tensor(full, mesh, [placement]).requires_grad_()
            y = softmax(x, -1)
            y.square().sum().backward()
            seen.append((y.full_tensor(), x.grad.full_tensor(), y.placements, x.grad.placements))
    for ours, theirs in zip(seen[:3], seen[3:], strict=True):
        torch.testing.assert_close(ours[:2], theirs[:2])
        assert ours[2:] == theirs[2:]
    compiled = torch.compile(lambda x: function(2 * x, -1), backend="aot_eager", fullgraph=True)
    x = distribute_tensor(full, mesh, [Shard(0)])
    torch.testing.assert_close(compiled(x).full_tensor(), torch.softmax(2 * full, -1))


class OfMine(torch.Tensor):
    """A class that changes nothing."""


def of_other_classes():
    rows = [torch.randn(2, 5), torch.randn(3, 5)]
    return {
        "jagged": torch.nested.nested_tensor(rows, layout=torch.jagged, requires_grad=True),
        "nested": torch.nested.nested_tensor(rows, requires_grad=True),
        "masked": masked_tensor(torch.randn(3, 4), torch.ones(3, 4).tril() > 0, requires_grad=True),
        "of a class": torch.randn(3, 4).as_subclass(OfMine).requires_grad_(),
    }


def values(x):
    return torch.cat([each.reshape(-1) for each in x.unbind()]) if x.is_nested else getattr(x, "get_data", lambda: x)()


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", of_other_classes())
def test_a_tensor_of_another_class_goes_where_torchs_softmax_sends_it(function, name):
    x = of_other_classes()[name]
    ours, theirs = function(x, -1), torch.softmax(x, -1)
    assert type(ours) is type(theirs)
    assert torch.equal(values(ours.detach()), values(theirs.detach()))
    with torch.no_grad():
        assert type(function(x, -1)) is type(theirs)
    if name != "masked":  # whose backward pass torch has not
        gradients = [torch.autograd.grad(y, x, y.detach())[0] for y in (ours, theirs)]
        assert torch.equal(*map(values, gradients))


def test_a_jagged_gradient_of_the_backward_operator_is_torchs():
    y = torch.nested.nested_tensor([torch.rand(2, 5), torch.rand(3, 5)], layout=torch.jagged)
    dy = 2 * y + 1
    expected = torch._softmax_backward_data(dy, y, -1, y.dtype)
    assert torch.equal(softmax_backward_op(dy, y, -1).values(), expected.values())


# What reads memory


def not_its_memory(group):
    """Tensors that are on a device and are not what lies at their address."""
    seen = []
    vmap(lambda x: (seen.append(x), x)[1])(torch.randn(2, 3))
    grad(lambda x: (seen.append(x), x.sum())[1])(torch.randn(3))
    jvp(lambda x: (seen.append(x), x)[1], (torch.randn(3),), (torch.randn(3),))
    with FakeTensorMode():
        seen.append(torch.randn(3))
    numbers = torch.randn(3, dtype=torch.complex64)
    seen += [numbers.conj().imag, torch._efficientzerotensor((3,)), *of_other_classes().values()]
    seen.pop()  # a class without a rule of its own has memory like any other
    return [*seen, distribute_tensor(torch.randn(4, 3), init_device_mesh("cpu", (1,)), [Shard(0)])]


def test_no_kernel_reads_a_tensor_that_is_not_its_memory(group):
    found = not_its_memory(group)
    assert len(found) == 10
    assert not any(is_plain(x) for x in found)
    negated = [x for x in found if not x.is_nested and x.is_neg()]
    assert len(negated) == 1
    assert torch.equal(readable("a kernel", negated[0]), negated[0])
    assert is_plain(readable("a kernel", negated[0]))
    for x in (found[-1], found[5]):
        with pytest.raises(LabError, match=r"a kernel reads a tensor's own memory, which .* use minikernel\.softmax"):
            readable("a kernel", x)
        with pytest.raises(LabError, match=r"the C\+\+ kernel loop reads a tensor's own memory"):
            checked("loop", x)
    for x in (torch.randn(3), torch.nn.Parameter(torch.randn(2, 3)), torch.randn(4, 4).t()[1:]):
        assert is_plain(x)
    with torch.inference_mode():
        assert is_plain(torch.randn(3))


def test_the_head_takes_no_tensor_that_is_not_its_memory_and_none_that_is_watched(monkeypatch):
    monkeypatch.setattr(lm_head, "largest_shared_bytes", lambda device: lm_head.SHARED_BYTES)
    mode = FakeTensorMode()
    with mode:
        h, weight = torch.empty(2048, 64, device="cuda"), torch.empty(600, 64, device="cuda")
    assert not lm_head.takes(h, weight)  # as a DTensor's, its address is no address
    # as if it were no fake: what else is asked for
    monkeypatch.setattr(lm_head, "is_plain", lambda x: True)
    assert lm_head.takes(h, weight)
    with mode:
        assert not lm_head.takes(h, weight)
    with torch.autograd.forward_ad.dual_level():
        assert not lm_head.takes(h, weight)
    seen = []
    look = lambda x: (seen.append(lm_head.takes(h, weight)), 2 * x)[1]  # noqa: E731
    torch.jit.trace(look, torch.ones(1), check_trace=False)
    for pre_dispatch in (True, False):
        make_fx(look, pre_dispatch=pre_dispatch)(torch.ones(1))
    assert seen == [False] * 3
    with pytest.raises(LabError, match=r"torch\.jit\.trace cannot follow a kernel; use minikernel\.softmax"):
        torch.jit.trace(lambda x: readable("a kernel", x), torch.ones(1))
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not lm_head.takes(h, weight)


def test_every_launch_of_triton_is_on_its_tensors_device_and_says_whether_it_fuses():
    """Read in the sources: a launch elsewhere needs two GPUs to be seen, and another default a release of Triton."""
    launches = []
    for path in Path(minikernel.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text())
        guarded = {
            node
            for block in ast.walk(tree)
            if isinstance(block, ast.With) and "device_of(" in ast.unparse(block.items[0])
            for node in ast.walk(block)
        }
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Subscript):
                launched = ast.unparse(call.func.value)
                if any(part.endswith("kernel") for part in launched.split(".")):
                    launches.append(f"{path}:{call.lineno}")
                    assert call in guarded, launches[-1]
                    assert re.search(r"\*\*FUSION|enable_fp_fusion=True", ast.unparse(call)), launches[-1]
    assert len(launches) == 8
