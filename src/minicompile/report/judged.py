"""Judges times of two sides whose steps took turns: a difference that two timings of one side show as well is none.

Nothing was timed twice there. Every other step of a side is one timing of it, and the steps between are another.
"""

from collections.abc import Sequence

from minicompile.profile.verdict import gain, noise, verdict


def noise_of(samples: Sequence[float]) -> float:
    """How far two timings of one side lie apart, of its steps in the order in which they were taken."""
    even = len(samples) // 2 * 2
    return noise(samples[0:even:2], samples[1:even:2]) if even else noise(samples, samples)


def judged(before: float, after: float, sides: Sequence[Sequence[float]]) -> tuple[str, float]:
    """Judge `after` against `before`: `faster`, `slower` or `same`, and the noise, the larger one of the two sides."""
    apart = max(map(noise_of, sides))
    return verdict(gain(before, after), apart), apart
