"""The operators where their kernels run: derivatives, classes of tensors, devices, dtypes and sizes, beside torch's."""

import copy
import functools
import importlib.util
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

import minikernel
from minikernel.measure.multiply_add import STEPS, multiply_add
from minikernel.ops import lm_head, softmax_triton
from minikernel.ops.ladder.table import kernels
from minikernel.ops.operator import triton_operator
from minikernel.ops.operator.operator import softmax_backward_op, softmax_op
from minikernel.proof.accuracy import exact_softmax, softmax_error
from minikernel.proof.proof import TOLERANCE
from minilab import LabError

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore"),
]
CLOSE = {"rtol": 2e-5, "atol": 2e-6}
WIDE = ("float16", "bfloat16")  # which float32 is wider than


@functools.cache
def head():
    generator = torch.Generator("cuda").manual_seed(0)
    return torch.randn(600, 64, device="cuda", generator=generator) / 8


FUNCTIONS = {
    "softmax": (lambda x: minikernel.softmax(x, -1), lambda x: torch.softmax(x, -1)),
    "minikernel::softmax": (lambda x: softmax_op(x, -1), lambda x: torch.softmax(x, -1)),
    "minikernel::softmax_triton": (lambda x: triton_operator.softmax(x), lambda x: torch.softmax(x, -1)),
    "along another axis": (lambda x: minikernel.softmax(x, 0), lambda x: torch.softmax(x, 0)),
}
BACKWARD = {"minikernel::softmax_backward": softmax_backward_op, "of Triton": triton_operator.softmax_backward}


def random(*shape, dtype=torch.float32):
    return torch.randn(shape, device="cuda").to(dtype)


def transforms(x):
    """Name -> transform of a function of tensors like `x`; tangents are random, for ones are no change."""
    tangent, cotangent = torch.randn_like(x), torch.randn_like(x)
    return {
        "grad": lambda f: grad(lambda x: f(x).square().sum()),
        "vjp": lambda f: lambda x: vjp(f, x)[1](cotangent)[0],
        "jvp": lambda f: lambda x: jvp(f, (x,), (tangent,))[1],
        "jacrev": jacrev,
        "jacfwd": jacfwd,
        "hessian": lambda f: hessian(lambda x: f(x).square().sum()),
        "jacfwd of jacfwd": lambda f: jacfwd(jacfwd(f)),
    }


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("width", [5, 601])
def test_derivatives_are_those_of_torchs_softmax(name, width):
    (ours, theirs), x, batch = FUNCTIONS[name], random(3, width), random(2, 3, width)
    for kind, transform in transforms(x).items():
        if width > 5 and "jac" in kind:
            continue  # large, and nothing new
        torch.testing.assert_close(transform(ours)(x), transform(theirs)(x), msg=lambda m, k=kind: f"{k}: {m}", **CLOSE)
        torch.testing.assert_close(vmap(transform(ours))(batch), vmap(transform(theirs))(batch), **CLOSE)
    tangent = torch.randn_like(x)
    torch.testing.assert_close(linearize(ours, x)[1](tangent), jvp(theirs, (x,), (tangent,))[1], **CLOSE)
    with forward_ad.dual_level():
        mine, torchs = (forward_ad.unpack_dual(f(forward_ad.make_dual(x, tangent))).tangent for f in (ours, theirs))
    torch.testing.assert_close(mine, torchs, **CLOSE)


@pytest.mark.parametrize("name", BACKWARD)
def test_derivatives_of_the_backward_pass_are_torchs(name):
    backward, y, dy = BACKWARD[name], torch.softmax(random(3, 5), -1), random(3, 5)
    formula = lambda dy, y: (dy - (dy * y).sum(-1, keepdim=True)) * y  # noqa: E731
    for transform in transforms(y).values():
        for ours, theirs, at in (
            (lambda x: backward(x, y, -1), lambda x: formula(x, y), dy),
            (lambda x: backward(dy, x, -1), lambda x: formula(dy, x), y),
        ):
            torch.testing.assert_close(transform(ours)(at), transform(theirs)(at), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["softmax", "minikernel::softmax_triton"])
def test_compiled_derivatives_are_torchs(name):
    ours, theirs = FUNCTIONS[name]
    x = random(3, 600)
    chosen = {kind: transforms(x)[kind] for kind in ("grad", "jvp")}

    def all_of(f):
        return lambda x: [transform(f)(x) for transform in chosen.values()]

    compiled = torch.compile(all_of(ours), fullgraph=True)(x)
    torch.testing.assert_close(compiled, all_of(theirs)(x), **CLOSE)
    assert compiled[1].abs().max() > 1e-4


def test_the_head_has_torchs_derivatives_under_every_transform_and_compiled():
    h, weight = random(1024, 64), head()
    ours = lambda h: minikernel.linear_softmax(h, weight)  # noqa: E731
    theirs = lambda h: F.softmax(F.linear(h, weight), -1)  # noqa: E731
    tangent = torch.randn_like(h)
    assert lm_head.fuses(h, weight) or torch.cuda.get_device_capability() != (9, 0)
    for transform in (
        lambda f: jvp(f, (h,), (tangent,))[1],
        lambda f: grad(lambda h: f(h).square().sum())(h),
        lambda f: vmap(f)(h.view(1, 1024, 64)),
        lambda f: vmap(f)(h),
        lambda f: vmap(lambda h: jvp(f, (h,), (tangent,))[1])(h.view(1, 1024, 64)),
        lambda f: torch.compile(f, fullgraph=True)(h),
        lambda f: torch.compile(lambda h: jvp(f, (h,), (tangent,))[1], fullgraph=True)(h),
    ):
        torch.testing.assert_close(transform(ours), transform(theirs), **CLOSE)
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(ours(forward_ad.make_dual(h, tangent))).tangent
    torch.testing.assert_close(dual, jvp(theirs, (h,), (tangent,))[1], **CLOSE)
    negated = torch.complex(h, -h).conj().imag
    assert negated.is_neg()
    torch.testing.assert_close(ours(negated), theirs(h), **CLOSE)


def test_sharded_jagged_and_masked_tensors_are_torchs():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.masked import masked_tensor

    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        mesh, full = init_device_mesh("cuda", (1,)), random(1024, 64)
        for placement in (Shard(0), Shard(1), Replicate()):
            gradients = []
            for function in (torch.softmax, softmax_op, minikernel.softmax):
                x = distribute_tensor(full, mesh, [placement]).requires_grad_()
                y = function(x, -1)
                y.square().sum().backward()
                gradients.append((y.full_tensor(), x.grad.full_tensor(), y.placements, x.grad.placements))
            for other in gradients[1:]:
                torch.testing.assert_close(other[:2], gradients[0][:2], **CLOSE)
                assert other[2:] == gradients[0][2:]
            with torch.no_grad():
                h, weight = (distribute_tensor(t, mesh, [Replicate()]) for t in (full, head()))
                assert h.data_ptr() == 0
                found = minikernel.linear_softmax(h, weight).full_tensor()
                torch.testing.assert_close(found, F.softmax(full @ head().T, -1), rtol=1e-3, atol=1e-5)
        for name in ("naive", "fused", "triton"):
            with pytest.raises(LabError, match="reads a tensor's own memory"):
                kernels[name](h)
    finally:
        dist.destroy_process_group()
    rows = [random(2, 5), random(3, 5)]
    jagged = torch.nested.nested_tensor(rows, layout=torch.jagged)
    masked = masked_tensor(random(3, 4), torch.ones(3, 4, device="cuda").tril() > 0)
    for function in (softmax_op, minikernel.softmax):
        assert torch.equal(function(jagged, -1).values(), torch.softmax(jagged, -1).values())
        assert torch.equal(function(masked, -1).get_data(), torch.softmax(masked, -1).get_data())
        nested = torch.nested.nested_tensor(rows)
        assert all(map(torch.equal, function(nested, -1).unbind(), torch.softmax(nested, -1).unbind()))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_every_launch_is_on_its_tensors_device():
    x, h = torch.randn(64, 600, device="cuda:1"), torch.randn(2048, 64, device="cuda:1")
    y, dy, tangent = torch.softmax(x, -1), torch.randn_like(x), torch.randn_like(x)
    assert torch.cuda.current_device() == 0
    for name in ("naive", "smem", "warp", "fused", "triton", "triton_textbook"):
        torch.testing.assert_close(kernels[name](x), y, **CLOSE)
    for function in (minikernel.softmax, softmax_op, triton_operator.softmax):
        torch.testing.assert_close(function(x, -1), y, **CLOSE)
        assert function(x.half(), -1, dtype=torch.float32).dtype == torch.float32
        leaf = x.clone().requires_grad_()
        (dx,) = torch.autograd.grad(function(leaf, -1), leaf, dy)
        torch.testing.assert_close(dx, torch._softmax_backward_data(dy, y, -1, y.dtype), **CLOSE)
        theirs = jvp(lambda x: torch.softmax(x, -1), (x,), (tangent,))[1]
        torch.testing.assert_close(jvp(lambda x, f=function: f(x, -1), (x,), (tangent,))[1], theirs, **CLOSE)
    for backward in (softmax_backward_op, triton_operator.softmax_backward):
        torch.testing.assert_close(backward(dy, y, -1), torch._softmax_backward_data(dy, y, -1, y.dtype), **CLOSE)
    torch.testing.assert_close(torch.compile(lambda x: minikernel.softmax(x, -1) * 2)(x), 2 * y, **CLOSE)
    weight = head().to("cuda:1")
    torch.testing.assert_close(minikernel.linear_softmax(h, weight), F.softmax(h @ weight.T, -1), rtol=1e-3, atol=1e-5)
    assert multiply_add(torch.zeros(1024, device="cuda:1")).sum() == 0
    assert torch.cuda.current_device() == 0


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("width", [7, 600, 20000, 50257])
def test_float32_out_of_sixteen_bits_is_one_pass_and_as_exact_as_float32(dtype, width):
    x = (3 * random(37, width)).to(getattr(torch, dtype))
    for function in (minikernel.softmax, triton_operator.softmax):
        y = function(x, -1, dtype=torch.float32)
        assert y.dtype == torch.float32
        assert softmax_error(y, x) <= TOLERANCE["float32"]
    leaf, dy = x.clone().requires_grad_(), random(37, width)
    (dx,) = torch.autograd.grad(minikernel.softmax(leaf, -1, dtype=torch.float32), leaf, dy)
    (theirs,) = torch.autograd.grad(F.softmax(leaf, -1, dtype=torch.float32), leaf, dy)
    assert dx.dtype == x.dtype
    torch.testing.assert_close(dx, theirs, rtol=2 * torch.finfo(x.dtype).eps, atol=1e-6)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        minikernel.softmax(x, -1, dtype=torch.float32)
        torch.cuda.synchronize()
    launched = [e.name for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    assert [re.sub(r"\W.*", "", name) for name in launched] == ["softmax_kernel"]


def test_it_stands_in_for_torchs_in_a_model_and_under_autocast(monkeypatch):
    layer = torch.nn.TransformerEncoderLayer(64, 4, 64, batch_first=True, dropout=0.0, device="cuda")
    x = random(2, 9, 64)
    outputs, theirs = [], F.softmax
    for softmax in (theirs, minikernel.softmax):
        monkeypatch.setattr(F, "softmax", softmax)
        model = torch.nn.Sequential(copy.deepcopy(layer), torch.nn.Softmax(dim=-1))
        with torch.autocast("cuda", torch.bfloat16):
            half = F.softmax(x.half(), -1), F.softmax(x.half(), -1, dtype=torch.float16), F.softmax(x, -1)
        others = F.softmax(x, 0), F.softmax(x.double(), -1), F.softmax(x.long(), -1, dtype=x.dtype)
        outputs.append([model(x), *half, *others])
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            outputs[-1].append(torch.nn.Softmax()(x))
        assert "Implicit dimension choice" in str(told[-1].message)
    for ours, expected in zip(outputs[1], outputs[0], strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-5)
    compiled = torch.compile(lambda x: F.softmax(x, -1, dtype=torch.float32), fullgraph=True)  # in its place still
    torch.testing.assert_close(compiled(x.half()), theirs(x.half(), -1, dtype=torch.float32), **CLOSE)


def test_no_variable_decides_what_is_fused(monkeypatch):
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    x = random(8, 1023)
    compiled = softmax_triton.launch(x, torch.empty_like(x), softmax_triton.default_config(1023))
    assert compiled.metadata.enable_fp_fusion
    # a step that is fused rounds once: 80 bits hold what is exact
    step = total = np.float32(1 - 2**-12)
    for _ in range(STEPS):
        total = np.float32(np.longdouble(total) * np.longdouble(step) + np.longdouble(step))
    assert multiply_add(torch.full((1024,), float(step), device="cuda"))[0].item() == total


def test_beyond_two_to_the_31_elements_the_last_rows_are_right(tmp_path):
    rows, cols = 2**31 // 4096 + 9, 4096
    if torch.cuda.mem_get_info()[0] < 16 * 2**30:
        pytest.skip("needs 16 GB of memory that is free")
    x = torch.zeros(rows, cols, device="cuda", dtype=torch.float16)
    x[-9:] = torch.randn(9, cols, device="cuda")
    for run in (
        lambda: minikernel.softmax(x, -1),
        lambda: kernels["triton"](x, softmax_triton.default_config(cols)),
        lambda: kernels["naive"](x),
    ):
        y = run()
        assert softmax_error(y[-9:], x[-9:]) <= TOLERANCE["float16"]
        assert softmax_error(y[:3], x[:3]) <= TOLERANCE["float16"]
        del y
    # the frame of exercises/README.md, which doubles
    readme = (Path(__file__).parents[3] / "exercises/README.md").read_text()
    (code,) = [each for each in re.findall(r"^```python\n(.*?)^```", readme, re.S | re.M) if "@triton.jit" in each]
    (tmp_path / "frame.py").write_text(code)
    specification = importlib.util.spec_from_file_location("frame", tmp_path / "frame.py")
    frame = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(frame)
    assert torch.equal(frame.softmax(x)[-9:], 2 * x[-9:])


def test_the_reference_is_sound_at_odd_widths():
    for width in (511, 513, 601, 781, 1023, 1025, 4097):
        x = random(300, width)
        assert softmax_error(torch.softmax(x, -1), x) < 1e-5
        assert exact_softmax(x.double()).dtype == torch.float64
