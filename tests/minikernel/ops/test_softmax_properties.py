"""What every softmax of the lab must satisfy, on any shape, axis, strides, dtype and values that hypothesis finds.

On the CPU these are the public function, the operator and, under its interpreter, the Triton kernels; on a GPU
the CUDA C kernels too. Triton decides as it is imported whether it interprets, so that those tests run in a
pytest of their own, which the last test here starts.
"""

import math
import os
import subprocess
import sys
from importlib.util import find_spec
from typing import NamedTuple

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import minikernel
from minikernel.ops.ladder.table import LADDERS
from minikernel.ops.operator import operator
from minikernel.proof.accuracy import relative_error
from minikernel.proof.proof import INTERPRETER_TOLERANCE, REFERENCE_TOLERANCE, TOLERANCE

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
FLOAT64_TOLERANCE = 1e-13
# The CPU's is torch's own, which does not recover what rounding loses and along other axes than the last rounds
# exponentials to 16 bits before it divides them.
CPU_TOLERANCE = {**REFERENCE_TOLERANCE, "bfloat16": 2 * 2**-8 + 1e-5, "float16": 2 * 2**-11 + 1e-5}
WIDE = (31, 64, 255, 600, 601, 1025, 4099)  # odd ones start their rows off 16-byte boundaries
MOST_ROWS_OF_WIDE = 8
VALUES = ("normal", "spread", "tiny", "huge", "equal", "masked", "row of -inf", "NaN", "+inf")
derandomized = settings(max_examples=80, derandomize=True)
on_gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_gpu)])
interpreter = pytest.mark.skipif(not INTERPRETED, reason="runs under Triton's interpreter, in a pytest of its own")


class Case(NamedTuple):
    """A tensor by what it is made from, so that a failing one prints briefly."""

    sizes: tuple[int, ...]  # before the axes are permuted
    steps: tuple[int, ...]  # every how many elements of an axis one is taken
    axes: tuple[int, ...]
    expanded: int | None  # the axis along which one slice is repeated with stride 0
    offset: int  # elements from the storage's start
    values: str
    dtype: torch.dtype
    seed: int
    dim: int

    def tensor(self, device: str) -> torch.Tensor:
        """The tensor itself, made on the CPU and then strided on `device`, so that its addresses are as odd there."""
        whole = [size * step for size, step in zip(self.sizes, self.steps, strict=True)]
        x = values_of(self.values, math.prod(whole) + self.offset, self.dtype, self.seed).to(device)
        x = x[self.offset :].view(whole)[tuple(slice(None, None, step) for step in self.steps)]
        if self.expanded is not None:
            x = x.narrow(self.expanded, 0, 1).expand(self.sizes)
        x = x.permute(self.axes)
        if self.values == "row of -inf" and x.numel():
            x = x.clone()
            x.movedim(self.dim, -1)[(0,) * (x.dim() - 1)] = -torch.inf
        return x


def values_of(kind: str, count: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    """`count` numbers of a kind in a dtype."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, generator=generator, dtype=torch.float64)
    largest = torch.finfo(dtype).max
    scale = {"spread": 25.0, "tiny": torch.finfo(dtype).tiny, "huge": largest / 4, "equal": 0.0}
    x = (x * scale.get(kind, 1.0)).clamp(-largest, largest).to(dtype)
    odd = {"masked": -torch.inf, "NaN": torch.nan, "+inf": torch.inf}.get(kind)
    if odd is not None:
        x[torch.rand(count, generator=generator) < (0.3 if kind == "masked" else 0.02)] = odd
    return x


@st.composite
def cases(draw, dtypes=DTYPES, last_axis=False):
    """Any `Case` of rank 0 to 4, with axes of no element and of one, some of them long."""
    sizes = draw(st.lists(st.integers(0, 5), max_size=4))
    if sizes and math.prod(sizes) // max(1, sizes[-1]) <= MOST_ROWS_OF_WIDE and draw(st.booleans()):
        sizes[-1] = draw(st.sampled_from(WIDE))
    rank = len(sizes)
    nonempty = [axis for axis, size in enumerate(sizes) if size]
    return Case(
        sizes=tuple(sizes),
        steps=tuple(draw(st.lists(st.integers(1, 2), min_size=rank, max_size=rank))),
        axes=tuple(draw(st.permutations(range(rank)))),
        expanded=draw(st.sampled_from([None, None, *nonempty])),
        offset=draw(st.integers(0, 9)),
        values=draw(st.sampled_from(VALUES)),
        dtype=draw(st.sampled_from(dtypes)),
        seed=draw(st.integers(0, 1 << 20)),
        dim=-1 if last_axis else draw(st.integers(-max(1, rank), max(1, rank) - 1)),
    )


def tolerance_of(dtype: torch.dtype, table: dict[str, float]) -> float:
    return table.get(str(dtype).removeprefix("torch."), FLOAT64_TOLERANCE)


def check(function, case: Case, device: str, table: dict[str, float]) -> None:
    """A softmax of the case is float64's within its tolerance, a NaN where that is one, and x is unchanged."""
    x = case.tensor(device)
    before = x.clone()
    y = function(x, case.dim)
    assert (y.shape, y.dtype, y.device) == (x.shape, x.dtype, x.device)
    assert torch.equal(x.isnan(), before.isnan())
    assert torch.equal(x[~x.isnan()], before[~before.isnan()])
    assert relative_error(y, torch.softmax(x.double(), case.dim)) <= tolerance_of(x.dtype, table)


FUNCTIONS = {
    "minikernel.softmax": minikernel.softmax,
    "softmax_op": operator.softmax_op,
}
functions = pytest.mark.parametrize("name", FUNCTIONS)


@devices
@functions
@derandomized
@given(case=cases())
def test_it_is_float64s_softmax(name, device, case):
    check(FUNCTIONS[name], case, device, CPU_TOLERANCE if device == "cpu" else TOLERANCE)


@devices
@derandomized
@given(case=cases(dtypes=DTYPES[:3]))
def test_rows_sum_to_one(device, case):
    x = case.tensor(device)
    assume(x.numel())
    sums = minikernel.softmax(x, case.dim).double().sum(case.dim)
    cols = x.shape[case.dim] if x.dim() else 1
    rounding = tolerance_of(x.dtype, CPU_TOLERANCE) + cols * torch.finfo(x.dtype).tiny
    assert (sums[~sums.isnan()] - 1).abs().le(rounding).all()


@devices
@derandomized
@given(
    cols=st.sampled_from((1, 2, 7, *WIDE)),
    dtype=st.sampled_from(DTYPES),
    shift=st.integers(-64, 64),
    seed=st.integers(0, 1 << 20),
)
def test_a_shift_that_is_exact_changes_nothing_but_rounding(device, cols, dtype, shift, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(-32, 33, (3, cols), generator=generator).to(device, dtype)
    shifted = minikernel.softmax(x + shift, -1)
    tolerance = 2 * tolerance_of(dtype, CPU_TOLERANCE)
    assert relative_error(shifted, minikernel.softmax(x, -1).double()) <= tolerance


@devices
@derandomized
@given(case=cases(), seed=st.integers(0, 1 << 20))
def test_permuted_columns_give_permuted_probabilities(device, case, seed):
    x = case.tensor(device)
    assume(x.dim())
    order = torch.randperm(x.shape[case.dim], generator=torch.Generator().manual_seed(seed)).to(device)
    permuted = minikernel.softmax(x.index_select(case.dim, order), case.dim)
    plain = minikernel.softmax(x, case.dim).index_select(case.dim, order)
    assert relative_error(permuted, plain.double()) <= 2 * tolerance_of(x.dtype, CPU_TOLERANCE)


def check_gradient(function, case: Case, device: str, table: dict[str, float]) -> None:
    """dx is that of float64's autograd, relative to the largest (|dy| + sum |dy y|) y that it cancels from."""
    x = case.tensor(device)
    dy = torch.randn(x.shape, generator=torch.Generator().manual_seed(case.seed + 1)).to(device, x.dtype)
    dx = function(x, dy, case.dim)
    exact_x = x.double().requires_grad_()
    y = torch.softmax(exact_x, case.dim)
    (exact,) = torch.autograd.grad(y, exact_x, dy.double())
    assert (dx.shape, dx.dtype) == (x.shape, x.dtype)
    assert torch.equal(dx.isnan(), exact.isnan())
    if x.numel():
        terms = (dy.double().abs() + (dy.double() * y).abs().sum(case.dim, keepdim=True)) * y
        error = (dx.double() - exact).abs() / terms.amax(case.dim, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
        assert error[~error.isnan()].le(4 * tolerance_of(x.dtype, table)).all()


@devices
@functions
@derandomized
@given(case=cases())
def test_its_gradient_is_that_of_float64s_autograd(name, device, case):
    def gradient(x, dy, dim):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(FUNCTIONS[name](x, dim), x, dy)[0]

    check_gradient(gradient, case, device, CPU_TOLERANCE)


@pytest.mark.parametrize("kernel", LADDERS["CUDA C"])
@pytest.mark.parametrize("device", [pytest.param("cuda", marks=on_gpu)])
@derandomized
@given(case=cases(dtypes=DTYPES[:3], last_axis=True))
def test_each_cuda_c_kernel_is_float64s_softmax(kernel, device, case):
    check(lambda x, dim: minikernel.kernels[kernel](x), case, device, TOLERANCE)


def triton_softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
    from minikernel.ops.softmax_triton import default_config, softmax

    return softmax(x, default_config(x.shape[-1] if x.numel() and x.dim() else 1))


def triton_gradient(x: torch.Tensor, dy: torch.Tensor, dim: int) -> torch.Tensor:
    from minikernel.ops.softmax_triton_backward import softmax_backward

    return softmax_backward(dy, torch.softmax(x.double(), -1).to(x.dtype))


where_triton_runs = pytest.mark.parametrize(
    "device", [pytest.param("cpu", marks=interpreter), pytest.param("cuda", marks=on_gpu)]
)


@where_triton_runs
@derandomized
@given(case=cases(dtypes=DTYPES[:3], last_axis=True))
def test_the_triton_kernel_is_float64s_softmax(device, case):
    check(triton_softmax, case, device, INTERPRETER_TOLERANCE if device == "cpu" else TOLERANCE)


@where_triton_runs
@derandomized
@given(case=cases(dtypes=DTYPES[:3], last_axis=True))
def test_the_triton_backward_is_that_of_float64s_autograd(device, case):
    check_gradient(triton_gradient, case, device, INTERPRETER_TOLERANCE)


@pytest.mark.parametrize("device", [pytest.param("cuda", marks=on_gpu)])
@derandomized
@given(
    rows=st.integers(0, 70),
    step=st.integers(1, 2),
    offset=st.integers(0, 5),
    values=st.sampled_from(["normal", "tiny", "equal", "NaN"]),
    with_bias=st.booleans(),
    seed=st.integers(0, 1 << 20),
)
def test_the_fused_head_is_float64s_linear_and_softmax(device, rows, step, offset, values, with_bias, seed):
    from minikernel.ops.lm_head import COLUMNS, FEATURES, fused_linear_softmax

    h = values_of(values, rows * step * FEATURES + offset, torch.float32, seed)
    h = h[offset:].view(rows * step, FEATURES)[::step].to(device)
    weight = values_of("normal", COLUMNS * FEATURES, torch.float32, seed + 1).view(COLUMNS, FEATURES).to(device) / 16
    bias = values_of("masked", COLUMNS, torch.float32, seed + 2).to(device) if with_bias else None
    logits = torch.nn.functional.linear(h.double(), weight.double(), None if bias is None else bias.double())
    assert relative_error(fused_linear_softmax(h, weight, bias), torch.softmax(logits, -1)) <= 2e-6


@pytest.mark.skipif(INTERPRETED or find_spec("triton") is None, reason="is what starts it, or Triton is missing")
def test_the_triton_properties_hold_in_its_interpreter():
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "-k", "triton and cpu", __file__]
    result = subprocess.run(command, env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
    assert "2 passed" in result.stdout
