"""What follows from the samples of a profile's timings; a record's figures are computed again from here."""

import statistics
from collections.abc import Sequence

from minicompile.profile.rows import Side
from minicompile.profile.verdict import gain, noise, verdict


def side(samples_us: list[float], again_us: list[float], tokens: int) -> Side:
    """Sum up one side's two timings, each of the same number of calls of so many tokens (or rows)."""
    both = [*samples_us, *again_us]
    median, fifths = statistics.median(both), statistics.quantiles(both, n=5)
    return {
        "median_us": median,
        "p20_us": fifths[0],
        "p80_us": fifths[-1],
        "per_second": 1e6 * tokens / median,
        "peak_bytes": None,
        "tokens": tokens,
        "samples_us": samples_us,
        "again_us": again_us,
        "noise": noise(samples_us, again_us),
    }


def compared(eager: Side, compiled: Side) -> dict:
    """`speedup` of compiled over eager, the `noise` of the two, and the `verdict` on the compiled one."""
    larger = max(eager["noise"], compiled["noise"])
    return {
        "speedup": eager["median_us"] / compiled["median_us"],
        "noise": larger,
        "verdict": verdict(gain(eager["median_us"], compiled["median_us"]), larger),
    }


def judged(before: float, after: float, sides: Sequence[Sequence[float]]) -> tuple[str, float]:
    """Judge `after` against `before`, of two sides whose steps took turns: the verdict, and the larger noise of both.

    Nothing was timed twice there. Every other step of a side is one timing of it, and the steps between are another.
    """
    apart = max(map(noise_of, sides))
    return verdict(gain(before, after), apart), apart


def noise_of(samples: Sequence[float]) -> float:
    """How far two timings of one side lie apart, of its steps in the order in which they were taken."""
    even = len(samples) // 2 * 2
    return noise(samples[0:even:2], samples[1:even:2]) if even else noise(samples, samples)
