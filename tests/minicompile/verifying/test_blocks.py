"""Triton's numbers: 16 bits are rounded as PyTorch rounds them, integers are divided as in C."""

import operator

import pytest
import torch

from minicompile.verifying.blocks import Block, Unable, bfloat16, cast, float8e4nv, float16, float32, int32, uint32
from minicompile.verifying.language import helpers, libdevice, tl


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.mul, operator.truediv])
def test_halves_are_rounded_to_nearest(dtype, operation):
    """Against float64, whose one rounding is the nearest half."""
    torch.manual_seed(0)
    first, second = torch.randn(500).to(dtype), torch.randn(500).to(dtype)
    made = operation(Block(first), Block(second)).values
    assert made.dtype == dtype
    assert torch.equal(made, operation(first.double(), second.double()).to(dtype))


def test_casts_round_and_cut():
    values = torch.tensor([1.00390625, 1.01171875, -2.7, 3.9, 448.0])
    assert cast(Block(values), bfloat16).values.tolist() == [1.0, 1.015625, -2.703125, 3.90625, 448.0]
    assert cast(Block(values), int32).values.tolist() == [1, 1, -2, 3, 448]
    assert cast(Block(torch.tensor([0.3, 20.5])), float8e4nv).values.float().tolist() == [0.3125, 20.0]


def test_integers_are_divided_as_in_c():
    first, second = Block(torch.tensor([-7, 7, -7])), Block(torch.tensor([2, -2, -2]))
    assert (first // second).values.tolist() == [-3, -3, 3]
    assert (first % second).values.tolist() == [-1, 1, -1]
    assert helpers().div_floor_integer(first, second).values.tolist() == [-4, -4, 3]


def test_a_number_takes_the_blocks_dtype():
    assert (Block(torch.ones(2, dtype=torch.float16)) * 2.5).dtype is float16
    assert (Block(torch.ones(2, dtype=torch.int32)) + 1).dtype is int32
    assert (Block(torch.ones(2, dtype=torch.int32)) * 0.5).dtype is float32
    wrapped = cast(Block(torch.tensor([-1], dtype=torch.int64)), uint32)
    assert (wrapped + 1).values.tolist() == [0]


def test_helpers_are_the_installed_torchs():
    """The largest, the smallest and a running sum along an axis, NaN included, as PyTorch has them."""
    values = torch.tensor([[3.0, float("nan"), 1.0], [2.0, 5.0, -1.0]])
    given = Block(values)
    assert helpers().max2(given, 1).values.isnan().tolist() == [True, False]
    assert torch.equal(tl.cumsum(Block(values[1:]), 1).values, values[1:].cumsum(1))
    mean, spread, _ = helpers().welford(Block(values[1:]), Block(torch.zeros(1, 3)), Block(torch.ones(1, 3)), 1)
    assert float(mean.values) == 2.0
    assert float(spread.values) == pytest.approx(18.0)
    assert libdevice.rsqrt(Block(torch.tensor([4.0]))).values.tolist() == [0.5]


def test_instructions_that_inductor_writes():
    """A product and a sum rounded once: what is lost to one rounding of the product is there."""
    near = torch.tensor([1 + 2.0**-12])
    given = [Block(near), Block(near), Block(torch.tensor([-1.0]))]
    once = tl.inline_asm_elementwise("fma.rn.f32 $0, $1, $2, $3;", "=f, f, f, f", given, dtype=float32)
    assert once.values.tolist() == [2.0**-11 + 2.0**-24]
    assert (Block(near) * Block(near) - 1.0).values.tolist() == [2.0**-11]
    for other in ("fma.rn.f32 $0, $1, $3, $2;", "fma.rz.f32 $0, $1, $2, $3;", "mov.b32 $0, $1;"):
        with pytest.raises(Unable):
            tl.inline_asm_elementwise(other, "", [Block(near)] * 3, dtype=float32)
