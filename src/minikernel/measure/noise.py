"""How far two measurements of the same thing lie apart: the floor below which a difference says nothing."""

from collections.abc import Callable

from minikernel.measure.eligibility import seconds
from minikernel.measure.rows import Launched, NoiseFloors, RawSamples
from minikernel.measure.timing import Timing, measure, raw

DUPLICATE = "again"
SHORT_SECONDS, SHORT_FACTOR = 100e-6, 4  # launches of some microseconds scatter more: four times as many


def measure_with_duplicate(
    providers: dict[str, Callable], duplicated: str, reference: str, inputs: list, warmup: int, launches: int
) -> tuple[dict[str, Timing], Launched]:
    """`timing.measure` with one of the providers timed a second time under another name.

    Args:
        providers: name -> function of one input.
        duplicated: the provider that is timed twice.
        reference: the provider whose time says whether launches are short, and more of them are needed.
        inputs: the inputs in rotation.
        warmup: calls before those that count.
        launches: timed launches of each provider; `SHORT_FACTOR` times as many where they are short.

    Returns:
        The timings, `again` among them, and {"launches", "noise_floor", "graph_noise_floor"}: launches of each
        provider, and how far the duplicate's median lay from the first; None for graphs where there are none.
    """
    # whether launches are short is asked of the reference, so that all providers get as many
    if seconds(providers[reference], inputs[0]) < SHORT_SECONDS:
        launches *= SHORT_FACTOR
    # The duplicate takes its turns among the others, so that whatever disturbs them disturbs it as well.
    timings = measure({**providers, DUPLICATE: providers[duplicated]}, inputs, warmup, launches)
    return timings, {"launches": launches, **floors(timings, duplicated)}


def floors(timings: dict[str, Timing], duplicated: str) -> NoiseFloors:
    """`noise_floor` and `graph_noise_floor`: how far the duplicate's median lay from the provider's own."""
    first, again = timings[duplicated], timings[DUPLICATE]
    return {
        "noise_floor": abs(again.median_us / first.median_us - 1),
        "graph_noise_floor": abs(again.graph_us / first.graph_us - 1) if again.graph_us and first.graph_us else None,
    }


def own_samples(name: str, timings: dict[str, Timing], beside: tuple[str, ...] = ()) -> RawSamples:
    """A row's raw samples: its provider's own, and those of what was timed `beside` it and has no row."""
    return raw({kept: timings[kept] for kept in (name, *beside)})
