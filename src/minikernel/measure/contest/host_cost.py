"""What one call costs the host: Python, the dispatch of the operator, the allocation, the launch.

At small shapes nothing else counts. Calls are made in batches so short that the launch queue never fills, the
device is waited for outside the timed span, and the providers take turns, batch by batch.
"""

import gc
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F

from minikernel import softmax
from minikernel.measure.contest import peers
from minikernel.measure.eligibility import find_eligible, wait
from minikernel.measure.noise import DUPLICATE
from minikernel.measure.rows import HostRow, Samples, Spread
from minikernel.measure.timing import DIGITS, turns
from minikernel.ops.registry import kernels
from minikernel.ops.softmax_reference import compiled
from minikernel.reasons import Reason

CALLS = 200  # a batch; a CUDA launch queue holds 1,024
BATCHES, WARMUP_BATCHES = 40, 3
REFERENCE = "F.softmax"


def host_providers(config: dict, requires_grad: bool) -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    """Name -> what a user calls. The bare kernels, which autograd cannot see through, only where it is not asked.

    Args:
        config: the Triton kernel's at this shape, looked up beforehand.
        requires_grad: whether the input asks for a gradient.
    """
    # What a user writes, with its dispatch and its checks; a peer's `call` is the one that autograd can go through.
    everybody = {
        REFERENCE: partial(F.softmax, dim=-1),
        "softmax": partial(softmax, dim=-1),
        "compile": compiled("default"),
        **peers.contestants("call"),
    }
    bare = {} if requires_grad else {"fused": kernels["fused"], "triton": partial(kernels["triton"], config=config)}
    return everybody | bare


def host_cost(
    providers: dict[str, Callable[[torch.Tensor], torch.Tensor]],
    shape: list[int],
    dtype: str,
    requires_grad: bool,
    error_of: Callable[[torch.Tensor, torch.Tensor], float],
    tolerance: float,
    device: torch.device,
    seed: int,
) -> tuple[list[HostRow], dict[str, Reason]]:
    """Time calls of every provider at one shape on the host, in turn.

    Args:
        providers: name -> softmax over the last axis, `F.softmax` among them.
        shape: [rows, cols].
        dtype: `float32`, `bfloat16` or `float16`.
        requires_grad: whether the input asks for a gradient. Only the forward call is timed.
        error_of: (result, x) -> its error; above `tolerance` a provider is left out.

    Returns:
        One row a provider (median_us, p20_us and p80_us of a call over the batches' means, and the noise floor,
        how far a duplicate of `F.softmax` lay from it), and name -> why it was left out.
    """
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.randn(shape, generator=generator, device=device).to(getattr(torch, dtype)).requires_grad_(requires_grad)
    tolerances = dict.fromkeys(providers, tolerance)
    # Host time of a wrong kernel is of no interest either.
    found = find_eligible(providers, x, lambda y: error_of(y.detach(), x.detach()), tolerances, REFERENCE)
    samples = time_calls({**found.eligible, DUPLICATE: providers[REFERENCE]}, x)
    beside = {REFERENCE: (REFERENCE, DUPLICATE)}  # the duplicate's samples lie in the row of what it duplicates
    rows: list[HostRow] = [
        {
            "kernel": name,
            "rows": shape[0],
            "cols": shape[1],
            "dtype": dtype,
            "requires_grad": requires_grad,
            **spread(name, samples),
            "calls": CALLS,
            "batches": BATCHES,
            "samples_us": {kept: samples[kept] for kept in beside.get(name, (name,))},
        }
        for name in found.eligible
    ]
    return rows, found.reasons


def spread(name: str, samples: Samples) -> Spread:
    """`median_us`, `p20_us`, `p80_us` of one provider's batches, and the noise floor of all."""
    return {
        "median_us": float(np.median(samples[name])),
        "p20_us": float(np.percentile(samples[name], 20)),
        "p80_us": float(np.percentile(samples[name], 80)),
        "noise_floor": abs(float(np.median(samples[DUPLICATE])) / float(np.median(samples[REFERENCE])) - 1),
    }


def time_calls(providers: dict[str, Callable], x: torch.Tensor) -> dict[str, list[float]]:
    """Microseconds a call of each provider on the host, one mean a batch; the garbage collector is off meanwhile."""
    samples: dict[str, list[float]] = {name: [] for name in providers}
    collecting = gc.isenabled()
    # a collection in the middle of a batch would be somebody's bad luck
    gc.disable()
    try:
        # batches before number 0 warm up: they run, and no sample of them is kept
        for batch, order in enumerate(turns(providers, WARMUP_BATCHES + BATCHES), -WARMUP_BATCHES):
            for name in order:
                call = providers[name]
                # The queue is empty when a batch begins, and 200 launches do not fill it: no call waits for the device.
                wait()
                began = time.perf_counter_ns()
                for _ in range(CALLS):
                    call(x)
                # The batch's time is read before the device is waited for: it is the host's alone.
                took = time.perf_counter_ns() - began
                if batch >= 0:
                    samples[name].append(round(took / CALLS / 1e3, DIGITS))
    finally:
        wait()
        if collecting:
            gc.enable()
    return samples
