"""The evaluator held against a GPU: each kernel runs there and here on the same memory, and leaves the same.

`python tests/minicompile/verifying/test_on_a_gpu.py [DEVICE [CASE ...]]` prints how many numbers the kernels left, how
many of them bit for bit, by how many units of the last place the others differ at most, and each memory that differs.
"""

import contextlib
import sys
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import torch.nn.functional as F

from minicompile.verifying import kernels
from minicompile.verifying.verify import ties_of
from minicompile.watching.session import fresh_dynamo, watch

UNITS = {torch.float64: 2.0**-52, torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7,
         torch.float8_e4m3fn: 2.0**-3, torch.float8_e5m2: 2.0**-2}  # fmt: skip
POINTWISE, SUMS = 4.0, 64.0  # units of the last place: CUDA documents up to 2 for most functions; sums of thousands


def functions(x: torch.Tensor) -> tuple:
    y = x.abs() + 0.1
    return (
        *(x.exp(), y.log(), x.tanh(), x.erf(), y.rsqrt(), y.sqrt(), x.sin(), x.cos(), x.sigmoid(), F.gelu(x)),
        *(y.pow(1.7), x.expm1(), y.log1p(), x.atan(), torch.atan2(x, y), y.log2(), x / 3.7, x.reciprocal()),
        *(F.silu(x), F.softplus(x), torch.floor(x), x.trunc(), x.round(), x.fmod(0.7), torch.remainder(x, 0.7)),
        *(x.exp2(), y.lgamma(), x.asinh(), x.erfc(), torch.hypot(x, y), torch.copysign(y, x)),
    )


def arithmetic(x: torch.Tensor, y: torch.Tensor) -> tuple:
    return (x + y, x - y, x * y, x / y, x * 0.3 + y, torch.addcmul(x, x, y), torch.maximum(x, y), x.clamp(-0.5, 0.4),
            (x > y).to(x.dtype), torch.where(x > 0, x, y), -x, x.square() * x, x.exp() * y.tanh())  # fmt: skip


def casts(x: torch.Tensor) -> tuple:
    wide = x.float()
    return (wide.to(torch.bfloat16), wide.to(torch.float16), (wide * 9).to(torch.int32), (wide * 9).to(torch.int8),
            (wide.abs() * 9).to(torch.uint8), (wide * 1e5).to(torch.int64), (wide * 9).to(torch.int16), wide > 0,
            wide.double())  # fmt: skip


def casts_to_8_bits(x: torch.Tensor) -> tuple:
    small, large = x.clamp(-400, 400).to(torch.float8_e4m3fn), x.clamp(-5e4, 5e4).to(torch.float8_e5m2)
    return small, large, small.float() * 3, large.to(torch.bfloat16) + 1


def integers(x: torch.Tensor, y: torch.Tensor) -> tuple:
    return (
        *(x + y, x * y, x // y, x % y, torch.div(x, y, rounding_mode="trunc"), torch.fmod(x, y), x & y, x | y, x ^ y),
        *(~x, x << 2, x >> 1, x.abs(), -x, x.float() / y, torch.maximum(x, y), x.to(torch.int8)),
        *(x.to(torch.uint8) + 250, x.to(torch.float16), x == y),
    )


def reductions(x: torch.Tensor) -> tuple:
    return (x.sum(-1), x.mean(0), x.amax(-1), x.argmin(-1), x.var(-1), x.float().softmax(-1), (x > 0).sum(),
            F.layer_norm(x, x.shape[-1:]), x.abs().prod(0), (x > 3).any(-1), F.log_softmax(x, 0))  # fmt: skip


def of_no_number(x: torch.Tensor, y: torch.Tensor) -> tuple:
    gaps = torch.where(x > 1, float("nan"), torch.where(x < -1.5, float("-inf"), x))
    return (
        *(torch.maximum(gaps, y), torch.minimum(gaps, y), gaps.clamp(min=0), F.relu(gaps), torch.fmax(gaps, y)),
        *(gaps.amax(-1), gaps.argmax(-1), gaps.isnan(), gaps.sum(-1), torch.nan_to_num(gaps), gaps == gaps, gaps > y),
    )


def scans(x: torch.Tensor) -> tuple:
    return x.cumsum(-1), (x * 0.1 + 1).cumprod(-1), x.logcumsumexp(-1), x.cummax(-1), x.sort(-1)


def atomics(x: torch.Tensor, places: torch.Tensor) -> tuple:
    zeros = torch.zeros(7, x.shape[1], device=x.device)
    return (zeros.index_add(0, places, x), torch.zeros_like(x).scatter_add(0, (places[:, None] % 5).expand_as(x), x),
            zeros.scatter_reduce(0, places[:, None].expand_as(x), x, "amax"))  # fmt: skip


def drawn(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(5), dtype=torch.float64).to(dtype)


def whole(*size: int, low: int = -90, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    made = torch.randint(low, 90, size, generator=torch.Generator().manual_seed(size[0]))
    return torch.where(made == 0, 7, made).to(dtype)


CASES: dict[str, tuple[Callable, tuple[torch.Tensor, ...], float]] = {
    "functions": (functions, (drawn(40, 70),), POINTWISE),
    "functions_bfloat16": (functions, (drawn(40, 70, dtype=torch.bfloat16),), POINTWISE),
    "functions_float64": (functions, (drawn(40, 70, dtype=torch.float64),), POINTWISE),
    "bfloat16": (arithmetic, (drawn(40, 70, dtype=torch.bfloat16), drawn(70, dtype=torch.bfloat16)), 1.0),
    "float16": (arithmetic, (drawn(40, 70, dtype=torch.float16), drawn(70, dtype=torch.float16)), 1.0),
    "casts": (casts, (drawn(40, 70),), 0.0),
    "8_bits": (casts_to_8_bits, (drawn(40, 70) * 30,), 0.0),
    "8_bits_of_bfloat16": (casts_to_8_bits, (drawn(40, 70, dtype=torch.bfloat16) * 30,), 0.0),
    "integers": (integers, (whole(40, 70), whole(70)), 1.0),
    "integers_64": (integers, (whole(40, 70, dtype=torch.int64), whole(70, dtype=torch.int64)), 1.0),
    "reductions": (reductions, (drawn(48, 900),), SUMS),
    "reductions_bfloat16": (reductions, (drawn(48, 900, dtype=torch.bfloat16),), SUMS),
    "long": (lambda x: (x.sum(), x.softmax(-1), x.var()), (drawn(3, 70_000),), SUMS),
    "of_no_number": (of_no_number, (drawn(48, 90), drawn(90)), SUMS),
    "scans": (scans, (drawn(20, 60),), SUMS),
    "atomics": (atomics, (drawn(40, 70), whole(40, low=1, dtype=torch.int64) % 7), SUMS),
}


@dataclass
class Left:
    """What a kernel left in one memory, here and there."""

    kernel: str
    argument: str
    dtype: torch.dtype
    count: int
    alike: int
    units: float

    def __str__(self) -> str:
        what = f"{self.kernel[:50]:50} {self.argument:12} {str(self.dtype)[6:]:14}"
        return f"{what} {self.count:8} {self.alike:8} {self.units:10.3g}"


def compared(kernel: str, argument: str, here: torch.Tensor, there: torch.Tensor) -> Left:
    """Numbers that a kernel left; the unit is that of the larger of the two, or of what such numbers are like."""
    one, other = here.reshape(-1), there.reshape(-1).cpu()
    if not here.dtype.is_floating_point:
        alike = int((one == other).sum())
        return Left(kernel, argument, here.dtype, one.numel(), alike, float("inf") if alike < one.numel() else 0.0)
    one, other = one.double(), other.double()
    same = (one == other) | (one.isnan() & other.isnan())
    finite = other[torch.isfinite(other)]
    like = float(finite.square().mean().sqrt()) if finite.numel() else 1.0
    off = (one - other).abs() / (torch.maximum(other.abs(), torch.tensor(like)) * UNITS[here.dtype])
    off = torch.where(same, 0.0, off.nan_to_num(float("inf"), float("inf")))
    return Left(kernel, argument, here.dtype, one.numel(), int(same.sum()), float(off.max()) if off.numel() else 0.0)


def storages(tensors: list[torch.Tensor]) -> dict[int, torch.Tensor]:
    found = {}
    for one in tensors:
        size = one.untyped_storage().nbytes() // one.element_size()
        found.setdefault(one.untyped_storage().data_ptr(), one.detach().as_strided((size,), (1,), 0))
    return found


def moved(one: torch.Tensor, copies: dict[int, torch.Tensor]) -> torch.Tensor:
    """The same view of the copy of its memory."""
    whole = copies[one.untyped_storage().data_ptr()].view(one.dtype)
    return whole.as_strided(one.size(), one.stride(), one.storage_offset())


def launched(kernel: kernels.Kernel, given: list) -> None:
    """Launch a kernel's text as Inductor's own wrapper does."""
    from torch._inductor.codecache import PyCodeCache

    text = kernel.text.replace("(type='cpu'", "(type='cuda'")  # the wrapper's devices were changed to run here
    there = getattr(PyCodeCache.load(text), kernel.name)
    there.run(*given, stream=torch.cuda.current_stream().cuda_stream)


def held_against(function: Callable, inputs: tuple[torch.Tensor, ...], device: str = "cuda") -> list[Left]:
    """Every kernel of a compiled function, on each of the inputs that a verification runs it on."""
    with fresh_dynamo(), watch("simulated" if device == "cpu" else None) as seen, torch.no_grad():
        torch.compile(function, dynamic=False)(*(one.to(device) for one in inputs))
    left: list[Left] = []
    run = kernels.run

    def both(kernel: kernels.Kernel, arguments: tuple, seconds: float) -> kernels.Ran:
        tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
        copies = {place: one.to(device, copy=True) for place, one in storages(tensors).items()}
        given = [moved(one, copies) if isinstance(one, torch.Tensor) else one for one in arguments]
        ran = run(kernel, arguments, seconds)
        launched(kernel, given)
        written = [one.memory for one in ran.accesses if one.stored and not ran.random]
        names = {one.tensor.untyped_storage().data_ptr(): one.argument for one in written}
        for place, one in storages(tensors).items():
            if place in names:
                left.append(compared(kernel.name, names[place], one, copies[place]))
        return ran

    with mock.patch.object(kernels, "run", both):
        for one in seen.lowered:
            ties = ties_of(one["live"], 300.0, 100.0)
            refused = [(call["kernel"], call["code"], call["detail"]) for call in ties["calls"] if call["code"]]
            assert ties["refused"] is None, ties["refused"]
            assert not refused, refused
    return left


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", CASES)
def test_a_kernel_leaves_here_what_it_leaves_there(name):
    function, inputs, units = CASES[name]
    left = held_against(function, inputs)
    assert left
    assert not [str(one) for one in left if one.units > units]


TYPES = {"fp64": torch.float64, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16,
         "fp8e4nv": torch.float8_e4m3fn, "fp8e5": torch.float8_e5m2, "i1": torch.bool, "u8": torch.uint8,
         **{f"i{bits}": getattr(torch, f"int{bits}") for bits in (8, 16, 32, 64)}}  # fmt: skip


class StandIn:
    """In the place of a GPU: what torch would compile and launch runs here, from the file that torch has made of it.

    Args:
        bit: in the last place of the first number that each kernel leaves, the bit that is changed; 0 for none.
    """

    def __init__(self, bit: int = 0) -> None:
        self.bit, self.launches, self.run = bit, 0, kernels.run

    def __enter__(self) -> "StandIn":
        from torch._inductor.runtime import triton_helpers, triton_heuristics

        self.patches = contextlib.ExitStack()

        def run(there: Any, *given: Any, stream: int) -> None:
            self.launch(there, given, stream)

        for owner, name, instead in (
            (triton_helpers, "set_driver_to_gpu", lambda: None),
            (triton_heuristics.CachingAutotuner, "run", run),
            (torch.cuda, "current_stream", lambda: types.SimpleNamespace(cuda_stream=7)),
        ):
            self.patches.enter_context(mock.patch.object(owner, name, instead))
        return self

    def __exit__(self, *error: object) -> None:
        self.patches.close()

    def launch(self, there: Any, given: tuple, stream: int) -> None:
        """Run a kernel here on what a launch is given, which has the types that its signature tells."""
        signature = there.triton_meta["signature"]
        told = [signature[name] for name in there.fn.arg_names if signature[name] != "constexpr"]
        assert (stream, there.triton_meta["device_type"], len(given)) == (7, "cuda", len(told))
        for one, kind in zip(given, told, strict=True):
            dtype = one.dtype if isinstance(one, torch.Tensor) else type(one)
            assert dtype == (TYPES[kind[1:]] if kind.startswith("*") else int), (dtype, kind)
        text = Path(there.filename).read_text().replace("(type='cuda'", "(type='cpu'")
        ran = self.run(kernels.kernel_of(there.fn.__name__, text), given, 100.0)
        self.launches += 1
        stored = next((one for one in ran.accesses if one.stored), None)
        if self.bit and stored is not None:
            place = int(stored.offsets.reshape(-1)[0] if stored.mask is None else stored.offsets[stored.mask][0])
            memory = stored.memory.tensor
            size = memory.element_size()
            flat = memory.as_strided((memory.untyped_storage().nbytes() // size,), (1,), 0).view(torch.uint8)
            flat[(memory.storage_offset() + place) * size] ^= self.bit


@pytest.mark.parametrize("name", ["8_bits", "atomics", "scans"])
def test_all_of_it_but_the_gpu_runs_here(name):
    """Here against here nothing differs; one bit of one number that a launch leaves is seen, and in no other memory."""
    function, inputs, _ = CASES[name]
    with StandIn() as right:
        left = held_against(function, inputs, "cpu")
    assert right.launches
    assert left
    assert {one.units for one in left} == {0.0}
    assert all(one.alike == one.count for one in left)
    with StandIn(bit=1) as wrong:
        changed = [one for one in held_against(function, inputs, "cpu") if one.alike < one.count]
    assert len(changed) == wrong.launches == right.launches
    assert {one.count - one.alike for one in changed} == {1}
    assert {one.kernel for one in changed} == {one.kernel for one in left}


def test_what_differs_is_told_in_units_of_the_last_place():
    larger = compared("k", "a", torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0 + 2**-22]))
    assert larger.units == pytest.approx(1, 1e-3)
    assert compared("k", "a", torch.tensor([1, 2]), torch.tensor([1, 3])).units == float("inf")
    assert compared("k", "a", torch.tensor([float("nan")]), torch.tensor([1.0])).units == float("inf")


def main(device: str = "cuda", *names: str) -> None:
    for name in names or CASES:
        function, inputs, units = CASES[name]
        began = time.monotonic()
        try:
            with StandIn() if device == "cpu" else contextlib.nullcontext():
                left = held_against(function, inputs, device)
        except Exception as error:
            print(name, type(error).__name__, str(error)[:300], flush=True)
            continue
        counts = f"{sum(one.count for one in left)} numbers, {sum(one.alike for one in left)} alike"
        most = f"at most {max(one.units for one in left):.3g} units (allowed {units})"
        print(f"{name}: {time.monotonic() - began:.1f} s, {len(left)} memories, {counts}, {most}", flush=True)
        for one in left:
            if one.units > min(units, 0.5):
                print("   ", one, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
