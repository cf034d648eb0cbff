"""Times two calls in turn, and says which is faster only where the difference is more than the clock's own noise.

Each round times the first, the second, and the first once more: how far its two times lie apart, with nothing changed
between them, is the noise that a difference must exceed.
"""

import statistics
from collections.abc import Callable
from typing import TypedDict

from minicompile.profile.breakdown import DIGITS
from minicompile.profile.subject import seconds_of
from minicompile.profile.verdict import SAME, below, verdict

ROUNDS = 40
WARM_ROUNDS = 3
ROUND_SECONDS = 0.01  # of each side in a round; one call where a call takes longer


class Samples(TypedDict):
    """Microseconds a call in each round; `again_us` is `before`, timed a second time."""

    calls: int
    before_us: list[float]
    after_us: list[float]
    again_us: list[float]


class Judged(TypedDict):
    """Medians in microseconds; `verdict` is faster or slower, of the second against the first, or None: no difference
    can be told."""

    before_us: float
    after_us: float
    difference_us: float
    noise_us: float
    verdict: str | None


def paired(before: Callable[[], object], after: Callable[[], object], rounds: int = ROUNDS) -> Samples:
    """Time two calls in turn.

    Args:
        before, after: the calls, already compiled.
        rounds: how many are counted, after three that are not.
    """

    def seconds(call: Callable[[], object], calls: int) -> float:
        def repeated() -> None:
            for _ in range(calls):
                call()

        return seconds_of(repeated) / calls

    slowest = max(min(seconds(call, 1) for _ in range(WARM_ROUNDS)) for call in (before, after))
    calls = max(1, int(ROUND_SECONDS / slowest))
    found: Samples = {"calls": calls, "before_us": [], "after_us": [], "again_us": []}
    for number in range(WARM_ROUNDS + rounds):
        taken = [round(1e6 * seconds(call, calls), DIGITS) for call in (before, after, before)]
        if number >= WARM_ROUNDS:
            for samples, us in zip((found["before_us"], found["after_us"], found["again_us"]), taken, strict=True):
                samples.append(us)
    return found


def judged(samples: Samples) -> Judged:
    """Compare the sides round by round. The noise is what nine rounds out of ten stay below."""
    rounds = list(zip(samples["before_us"], samples["after_us"], samples["again_us"], strict=True))
    difference = statistics.median(after - (before + again) / 2 for before, after, again in rounds)
    noise = below([abs(again - before) for before, _, again in rounds])
    told = verdict(-difference, noise)
    return {
        "before_us": statistics.median([*samples["before_us"], *samples["again_us"]]),
        "after_us": statistics.median(samples["after_us"]),
        "difference_us": round(difference, DIGITS),
        "noise_us": round(noise, DIGITS),
        "verdict": None if told == SAME else told,
    }
