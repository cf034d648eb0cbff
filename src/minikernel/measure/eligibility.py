"""Find out who may be timed: who runs at a shape, is right there, ends in time and can be captured in a CUDA graph.

A contest waits for all of its contestants, a hundred times over. One that refuses, is wrong or is far too slow
is left out before anything is timed, and the reason is kept.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from minikernel.reasons import Reason, of_exception, wrong

MAX_SLOWDOWN = 30  # times the reference's time: what is slower is left out
SHORTEST, LONGEST = 2e-3, 8e-3  # seconds: nobody faster is ever too slow; nobody slower is waited for
LEAST_SLOWDOWN = 4  # times the reference's time, which may itself be long


@dataclass
class Eligibility:
    """Who is eligible with which error, and why the others are not."""

    eligible: dict[str, Callable] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    reasons: dict[str, Reason] = field(default_factory=dict)


def find_eligible(
    providers: dict[str, Callable],
    given: object,
    error_of: Callable[[torch.Tensor], float],
    tolerances: dict[str, float],
    reference: str,
    seconds_left: dict[str, float] | None = None,
) -> Eligibility:
    """Call every provider on one input and say who may be timed.

    Args:
        providers: name -> function of `given`.
        given: the input.
        error_of: a result -> its error.
        tolerances: name -> the largest error with which a provider is eligible.
        reference: the provider whose time says what is too slow.
        seconds_left: of a provider whose first call compiles for long, the seconds that it may still take;
            what it takes is subtracted. Whoever has none left is not called.
    """
    seconds_left = {} if seconds_left is None else seconds_left
    reference_seconds = seconds(providers[reference], given)
    # Thirty times the reference, but no more than 8 ms, no less than 2, and four times a slow reference in any case: a
    # hundred launches of each have to end within the contest's time.
    longest = max(min(MAX_SLOWDOWN * reference_seconds, LONGEST), SHORTEST, LEAST_SLOWDOWN * reference_seconds)
    found = Eligibility()
    for name, provider in providers.items():
        # max-autotune compiles for long: a budget of its own keeps it from eating the others' time
        if seconds_left.get(name, 1) <= 0:
            found.reasons[name] = {"code": "compile_time_used_up"}
            continue
        began = time.monotonic()
        try:
            # The first call compiles; only the calls in `seconds` are warm.
            result = provider(given)
            wait()
            if name in seconds_left:
                seconds_left[name] -= time.monotonic() - began
            error = error_of(result)
            took = seconds(provider, given)
            reason = refusal(error, tolerances[name], took if name != reference else 0, longest)
            # Last, and as a trial of its own: one that cannot be captured would break off the timing of all.
            if reason is None:
                check_capture(provider, given)
        except Exception as failure:  # somebody else's kernel may raise anything at a shape that it does not take
            reason = of_exception(failure)
        result = None  # its memory is the next one's
        if reason is not None:
            found.reasons[name] = reason
        else:
            found.eligible[name], found.errors[name] = provider, error
    return found


def refusal(error: float, tolerance: float, took: float, longest: float) -> Reason | None:
    """Why a provider that ran, for `took` of at most `longest` seconds, is left out; None where it is not."""
    if not error <= tolerance:
        return wrong(error, tolerance)
    return {"code": "too_slow", "milliseconds": took * 1e3} if took > longest else None


def wait() -> None:
    """Wait for the GPU, where there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds(provider: Callable, given: object) -> float:
    """Wall time of the fastest of three warm calls, the device's work included."""
    provider(given)
    wait()
    # the fastest of three: anything else on the machine can only make a call slower
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
