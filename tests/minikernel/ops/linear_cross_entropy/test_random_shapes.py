"""Random sizes, dtypes, layouts and options, each held against float64 with torch's own functions.

500 on a CPU, and as many on a GPU where one is here; SHAPES and SEED in the environment change which and how many.
"""

import os
import random

import pytest
import torch
from exact_loss import exact, found

from minikernel import linear_cross_entropy

SHAPES, SEED, PARTS = int(os.environ.get("SHAPES", "500")), int(os.environ.get("SEED", "46")), 10
ON_A_GPU = (pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"))
# of one rounding at most; a sum of n rounds as its root grows, and softcap and offsets cost some digits
UNIT = {torch.float32: 2**-24, torch.bfloat16: 2**-8, torch.float16: 2**-11, torch.float64: 2**-53}
OF_SUMS = {torch.float64: 2**-53}
LEAST = {torch.float16: 2**-25}  # half a step of its smallest numbers


def size(draw: random.Random, most: int) -> int:
    """Small sizes as often as large ones; half of them beside a power of two, where masks begin and end."""
    number = int(2 ** draw.uniform(0, most.bit_length() - 1))
    return max(1, number if draw.random() < 0.5 else (1 << number.bit_length()) + draw.choice((-1, 0, 1)))


def drawn(draw: random.Random, device: str, large: bool) -> tuple[list, dict]:
    """Tensors and options of one call."""
    generator = torch.Generator().manual_seed(draw.getrandbits(32))
    m, d, v = (size(draw, most) for most in ((2048, 1024, 32768) if large else (192, 160, 1200)))
    v = max(v, 2)  # with one class all is 0, and no relative error is told
    dtype = draw.choice([torch.float32, torch.bfloat16, torch.float16, *([] if large else [torch.float64])])

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    h, weight = normal(m, d), normal(v, d) * d**-0.5
    if draw.random() < 0.3:  # nearly certain targets and hopeless ones
        h = h * 6
    options: dict = {"reduction": draw.choice(["mean", "sum", "none"])}
    if draw.random() < 0.3:
        options["ignore_index"] = draw.choice([-100, -1, 0, v - 1])
    target = torch.randint(v, (m,), generator=generator)
    if draw.random() < 0.5:
        target[torch.rand(m, generator=generator) < draw.random()] = options.get("ignore_index", -100)
    for name in ("bias", "class_weight"):
        if draw.random() < 0.3:
            options[name] = (normal(v) if name == "bias" else normal(v).abs() + 0.1).to(device, dtype)
    for name, values in (("label_smoothing", (0.1, 0.9)), ("z_loss", (1e-4, 0.1)), ("softcap", (2.0, 30.0))):
        if draw.random() < 0.2:
            options[name] = draw.choice(values)
    factors = (1.0, -0.25, 65536.0)
    upstream = normal(m) if options["reduction"] == "none" else torch.tensor(draw.choice(factors))
    h, weight = h.to(device, dtype), weight.to(device, dtype)
    if draw.random() < 0.3:
        h = torch.repeat_interleave(h, 2, -1)[:, ::2]
    if draw.random() < 0.3:
        weight = weight.T.contiguous().T
    return [h, weight, target.to(device), upstream.to(device)], options


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=ON_A_GPU)])
def test_random_shapes_and_options(device: str, part: int):
    draw = random.Random(SEED * PARTS + part)
    for _ in range(SHAPES // PARTS):
        tensors, options = drawn(draw, device, large=device == "cuda")
        h, weight = tensors[:2]
        (m, d), v = h.shape, len(weight)
        *expected, dlogits = exact(*tensors, **options, by_logits=True)
        results = found(linear_cross_entropy, *tensors, **options)
        sums = 8 * max(m, d, v) ** 0.5 * OF_SUMS.get(h.dtype, 2**-22)
        squares = dlogits.square()
        of_words, of_tokens = (one.cpu().double().square().sum(1) for one in (weight, h))
        terms = (0.0, (squares @ of_words).sum().sqrt(), (of_tokens @ squares).sum().sqrt(), squares.sum().sqrt())
        for name, result, right, several in zip(("loss", "dh", "dw", "db"), results, expected, terms, strict=False):
            if right.isnan().any():  # a mean of nothing
                assert torch.equal(result.isnan().cpu(), right.isnan()), (name, h.shape, v, options)
                continue
            if right.to(result.dtype).isinf().any():
                continue
            miss, size = (result.cpu().double() - right).norm(), right.norm()
            allowed = sums * size
            # the loss is not rounded to 16 bits; a gradient is once, and each of its terms, however they cancel
            if name != "loss":
                allowed += 2 * UNIT[h.dtype] * (size + several) + LEAST.get(h.dtype, 0.0) * right.numel() ** 0.5
            assert miss <= allowed, (name, miss / size, allowed / size, tuple(h.shape), v, h.dtype, options)
