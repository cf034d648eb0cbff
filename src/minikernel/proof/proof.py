"""Prove a softmax: hold it against float64 NumPy on rows chosen to break it.

The measure is relative error, element by element, which all zeros cannot pass. Below the smallest normal
number of a format nothing can keep it, and an element is held to be no larger than twice that number
instead. The cases are those on which softmax kernels are known to fail: an outlier (the difference from
the maximum is then large, and its rounding alone is 4e-6), masked and equal rows, odd lengths, rows of
-infinity alone, empty and strided tensors. Each case runs twice: between redzones, so that a write outside
the output is seen, and then as it will be used.
"""

import importlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch

from minikernel.judge.kinds import wrong_form, wrong_value
from minikernel.ops.registry import any_spec
from minikernel.ops.softmax_reference import softmax_float64
from minikernel.proof.accuracy import relative_error
from minikernel.proof.redzones import Redzones
from minikernel.reasons import Place, Refusal, of_exception, wrong
from minilab import LabError

# one column; an odd few; the model's words; a width beyond them; GPT-2's vocabulary, whose rows start anywhere
COLS = (1, 7, 600, 1000, 50257)
ROWS = 5
SEED = 42
# Half an ulp of the format, and 1e-5 for the arithmetic before it; float32 by the lab's contract.
TOLERANCE = {"float32": 1e-6, "bfloat16": 2**-8 + 1e-5, "float16": 2**-11 + 1e-5}
# What the references and a user's kernel may miss by, so that any two kernels agree to 1e-4.
REFERENCE_TOLERANCE = {**TOLERANCE, "float32": 4.9e-5}
# Triton's interpreter drops the low bits where a GPU rounds to bfloat16: a whole ulp.
INTERPRETER_TOLERANCE = {**TOLERANCE, "bfloat16": 2**-7 + 1e-5}
STATIC_COLS = 600  # the width at which a kernel that is compiled for every shape is proven


class Case(NamedTuple):
    """A named input, a float32 tensor on the CPU; the softmax is over its last axis."""

    name: str
    x: torch.Tensor


def adversarial_cases() -> list[Case]:
    """The inputs that every kernel is proven on."""
    generator = torch.Generator().manual_seed(SEED)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    cases = []
    for cols in COLS:
        outlier, masked = 3 * normal(ROWS, cols), 5 * normal(ROWS, cols)
        # A number of 75 has an ulp of 8e-6: to round the difference from the maximum once is an error of up to 4e-6.
        outlier[:, cols // 2] += 75.3
        masked[:, 1::3] = -torch.inf
        cases += [
            Case("random", normal(ROWS, cols)),
            Case("spread", 25 * normal(ROWS, cols)),
            Case("outlier", outlier),
            Case("far from zero", 3 * normal(ROWS, cols) + 1e4),
            Case("masked", masked),
            # every element 1/cols: a sum that stops growing, as it may in float16, shows here
            Case("equal", torch.full((ROWS, cols), 1.7)),
        ]
    # softmax of minus infinity alone is 0/0: NaN in that row, as torch has it, and in no other
    all_masked = normal(ROWS, 600)
    all_masked[2] = -torch.inf
    special = normal(ROWS, 600)
    # NaN and +infinity spoil their own row; the largest and lowest finite numbers must not.
    special[1, 3], special[2, 5], special[3, 7] = torch.nan, torch.inf, torch.finfo(torch.float32).max
    special[4, ::2] = torch.finfo(torch.float32).min
    return [
        *cases,
        Case("a row of -inf alone", all_masked),
        Case("NaN, inf and extremes", special),
        Case("zero rows", normal(0, 600)),
        Case("transposed", normal(600, ROWS).T),
        Case("every other column", normal(ROWS, 1200)[:, ::2]),
        # contiguous, and 4 bytes past a boundary: a 16-byte load there would fault
        Case("a view off its start", normal(ROWS * 600 + 1)[1:].view(ROWS, 600)),
        Case("rank 4", normal(2, 3, 2, 600)),
        Case("rank 1", normal(600)),
    ]


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """Make torch fill what `torch.empty` returns with NaN, so that an element nobody wrote is seen."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    memory: Any = torch.utils.deterministic  # whose switch torch's types lack
    filled = memory.fill_uninitialized_memory
    # torch fills uninitialised memory only where deterministic
    # algorithms are asked for; that some have none is no matter.
    torch.use_deterministic_algorithms(True, warn_only=True)
    memory.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        memory.fill_uninitialized_memory = filled


def numpy_error(result: torch.Tensor, x: torch.Tensor) -> float:
    """Relative error of `result` as the softmax of `x` over the last axis, against float64 NumPy."""
    return relative_error(result, torch.from_numpy(softmax_float64(x.double().cpu().numpy())))


def prove(
    function: Callable[[torch.Tensor], torch.Tensor],
    device: str,
    dtype: str,
    cases: list[Case] | None = None,
    name: str | None = None,
    tolerance: float | None = None,
    with_redzones: tuple[bool, ...] = (True, False),
) -> list[dict]:
    """Hold a softmax over the last axis against float64 on every case.

    Args:
        function: tensor -> softmax over its last axis, same shape and dtype.
        device: torch device to run on (`cpu`, `cuda`, `cuda:1`).
        dtype: `float32`, `bfloat16` or `float16`.
        cases: `adversarial_cases()` unless given.
        name: the kernel's name for messages; the function's own unless given.
        tolerance: largest relative error allowed; `TOLERANCE` of the dtype unless given.
        with_redzones: one run a case for each, between redzones or not.

    Returns:
        One row a case: case, dtype, rows, cols, max_rel_err, tolerance.

    Raises:
        Refusal: a result is wrong, or the kernel fails, changes its input or writes outside its output; its
            reason and its sentence name kernel and case.
        LabError: what the kernel itself refused, in its own words.
    """
    name = name or function.__name__
    tolerance = TOLERANCE[dtype] if tolerance is None else tolerance
    rows = []
    for case in adversarial_cases() if cases is None else cases:
        at: Place = {"code": "case", "kernel": name, "device": device, "case": case.name}
        at |= {"shape": list(case.x.shape), "dtype": dtype}
        # Twice: between redzones, where compiled functions run uncompiled, and as it will really run.
        error = max(_checked_error(function, case.x, device, dtype, at, run) for run in with_redzones)
        if not error <= tolerance:
            raise Refusal({**wrong(error, tolerance), "at": at})
        cols = case.x.shape[-1]
        rows.append(
            {
                "case": case.name,
                "dtype": dtype,
                "rows": case.x.numel() // cols,
                "cols": cols,
                "max_rel_err": error,
                "tolerance": tolerance,
            }
        )
    return rows


def _checked_error(
    function: Callable[[torch.Tensor], torch.Tensor],
    x: torch.Tensor,
    device: str,
    dtype: str,
    at: Place,
    with_redzones: bool,
) -> float:
    """The relative error of one call, which must leave all memory but its output as it was."""
    zones = Redzones()
    x = zones.input(x, getattr(torch, dtype), device)
    # the input is compared afterwards: a kernel that works in place spoils its caller's tensor
    before = x.clone()
    try:
        with poisoned_memory(), zones if with_redzones else nullcontext():
            result = function(x)
        if not isinstance(result, torch.Tensor):
            raise Refusal({"code": "no_tensor", "type": type(result).__name__, "at": at})
        error = numpy_error(result, before) if result.dtype == x.dtype else float("inf")
        damage = zones.damage()
    except LabError:
        raise
    except (Exception, SystemExit) as failure:
        raise Refusal({**of_exception(failure), "at": at}) from failure
    # NaN equals nothing, itself included: it is replaced on both sides
    if not torch.equal(x.nan_to_num(0.5), before.nan_to_num(0.5)):
        raise Refusal({"code": "changed_input", "at": at})
    if damage:
        raise Refusal({**damage, "at": at})
    if math.isinf(error):  # of no number: what is wrong, and where, says more
        form = wrong_form({"shape": list(result.shape), "dtype": str(result.dtype)[6:]}, list(x.shape), dtype)
        kind = form or wrong_value(result, torch.from_numpy(softmax_float64(before.double().cpu().numpy())))
        raise Refusal({**(kind or wrong(error, 0)), "at": at})
    return error


def _untuned(softmax: Callable[..., torch.Tensor], module: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """A tuned kernel with its default configuration: a proof must not tune at each of its shapes."""
    default_config = importlib.import_module(module).default_config
    return lambda x: softmax(x, config=default_config(x.shape[-1]))


def prove_kernel(
    name: str,
    entry: dict | None,
    device: str,
    interpreted: bool = False,
) -> list[dict]:
    """Prove a kernel of the registry, or a user's, in every dtype that it takes.

    The lab's own kernels are held to `TOLERANCE`; a user's and the references, which need not recover
    what rounding loses, to `REFERENCE_TOLERANCE`, a user's in float32 alone. A tuned kernel runs with its
    default configuration at each width; autotune checks every other one before timing it.

    Args:
        name, entry: as `minikernel.ops.registry.load_kernel` takes them.
        device: torch device.
        interpreted: the kernel runs in Triton's interpreter.

    Returns:
        The rows of `prove`, dtype by dtype.

    Raises:
        LabError: there is no such kernel, or it is wrong.
    """
    spec = any_spec(name, entry)
    function = _untuned(spec.load(), spec.module) if spec.tuned else spec.load()
    accurate = INTERPRETER_TOLERANCE if interpreted else TOLERANCE
    tolerances = accurate if spec.accurate else REFERENCE_TOLERANCE
    cases = adversarial_cases()
    # each width would be compiled anew
    if spec.static:
        cases = [case for case in cases if case.x.shape[-1] == STATIC_COLS]
    with_redzones = (True,) if interpreted and spec.accurate else (True, False)  # the interpreter takes a minute a run
    rows = []
    for dtype in spec.dtypes:
        rows += prove(function, device, dtype, cases, name, tolerances[dtype], with_redzones)
    return rows
