"""Who may be timed: who runs at a shape, is right there, ends in time and can be captured in a CUDA graph.

A contest waits for all of its contestants, a hundred times over. One that refuses, is wrong or is far too slow
is left out before anything is timed, and the reason is kept in its own words.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from minilab.user_code import first_line

PATIENCE = 30  # times the reference's time: what is slower is not waited for
SHORTEST, LONGEST = 2e-3, 8e-3  # seconds: nobody faster is ever too slow; nobody slower is waited for
LEAST_PATIENCE = 4  # times the reference's time, which may itself be long


@dataclass
class Admission:
    """Who entered with which error, and why the others did not."""

    entered: dict[str, Callable] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


def admit(
    providers: dict[str, Callable],
    given: object,
    error_of: Callable[[torch.Tensor], float],
    tolerances: dict[str, float],
    reference: str,
    seconds_left: dict[str, float] | None = None,
) -> Admission:
    """Call every provider on one input and say who may be timed.

    Args:
        providers: name -> function of `given`.
        given: the input.
        error_of: a result -> its error.
        tolerances: name -> the largest error with which a provider enters.
        reference: the provider by whose time patience is measured.
        seconds_left: of a provider whose first call compiles for long, the seconds that it may still take;
            what it takes is subtracted. Whoever has none left is not called.
    """
    seconds_left = {} if seconds_left is None else seconds_left
    reference_seconds = seconds(providers[reference], given)
    patience = max(min(PATIENCE * reference_seconds, LONGEST), SHORTEST, LEAST_PATIENCE * reference_seconds)
    admission = Admission()
    for name, provider in providers.items():
        if seconds_left.get(name, 1) <= 0:
            admission.reasons[name] = "its compiling had used up the time that it is given"
            continue
        began = time.monotonic()
        try:
            result = provider(given)
            wait()
            if name in seconds_left:
                seconds_left[name] -= time.monotonic() - began
            error = error_of(result)
            took = seconds(provider, given)
            reason = refusal(error, tolerances[name], took if name != reference else 0, patience)
            if not reason:
                check_capture(provider, given)
        except Exception as failure:  # somebody else's kernel may raise anything at a shape that it does not take
            reason = first_line(failure)
        result = None  # its memory is the next one's
        if reason:
            admission.reasons[name] = reason
        else:
            admission.entered[name], admission.errors[name] = provider, error
    return admission


def refusal(error: float, tolerance: float, took: float, patience: float) -> str:
    """Why a provider that ran is left out; empty where it is not."""
    if not error <= tolerance:
        return f"wrong, error {error:.1e}"
    return f"too slow, {took * 1e3:,.1f} ms a call" if took > patience else ""


def wait() -> None:
    """Wait for the GPU, where there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds(provider: Callable, given: object) -> float:
    """Wall time of the fastest of three warm calls, the device's work included."""
    provider(given)
    wait()
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        provider(given)
        wait()
        taken.append(time.perf_counter() - began)
    return min(taken)


def check_capture(provider: Callable, given: object) -> None:
    """Capture one call in a CUDA graph and replay it, where there is a GPU; raises what the capture raises."""
    if not torch.cuda.is_available():
        return
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        provider(given)
    graph.replay()
    wait()
