"""Says whether one thing is faster than another: only where they differ by more than two timings of one thing do.

What is compared is timed in turn, and each side is timed a second time between the others. How far its two timings lie
apart, with nothing changed between them, is the noise; a difference within it is none.
"""

import statistics
from collections.abc import Sequence

BLOCKS = 10  # of calls, each compared with its duplicate: a busy moment lies in some of them, not in all
STAYS_BELOW = 0.9  # the noise is what so many of them stay below
FASTER, SLOWER, SAME = "faster", "slower", "same"


def gain(before: float, after: float) -> float:
    """How much less time `after` takes than `before`, relative to the shorter one; below zero where it takes more."""
    return (before - after) / min(before, after)


def verdict(difference: float, noise: float) -> str:
    """Judge a gain, or a difference of times in any unit, against the noise: `faster`, `slower` or `same`."""
    if abs(difference) <= noise:
        return SAME
    return FASTER if difference > 0 else SLOWER


def below(values: Sequence[float]) -> float:
    """What nine of ten values stay below."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(STAYS_BELOW * len(ordered)))]


def noise(first: Sequence[float], again: Sequence[float]) -> float:
    """How far two timings of one thing, taken in turn, lie apart: a gain, block by block, that nine of ten stay below.

    Args:
        first, again: as many samples each, in the order in which they were taken; a block's median is compared.
    """
    length = max(1, len(first) // BLOCKS)

    def medians(samples: Sequence[float]) -> list[float]:
        return [statistics.median(samples[start : start + length]) for start in range(0, len(samples), length)]

    return below([abs(gain(one, other)) for one, other in zip(medians(first), medians(again), strict=True)])
