"""What follows from the samples of a profile's timings; a record's figures are computed again from here."""

import statistics

from minicompile.profile.rows import Side, Spread
from minicompile.profile.verdict import gain, noise, verdict


def side(samples_us: list[float], again_us: list[float], tokens: int) -> Side:
    """Sum up one side's two timings, each of the same number of calls of so many tokens (or rows)."""
    return {
        **spread([*samples_us, *again_us], tokens),
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


def spread(samples_us: list[float], tokens: int) -> Spread:
    """Compute `median_us`, `p20_us`, `p80_us` and `per_second` of calls of so many tokens (or rows)."""
    median = statistics.median(samples_us)
    fifths = statistics.quantiles(samples_us, n=5) if len(samples_us) > 1 else [median] * 4
    return {"median_us": median, "p20_us": fifths[0], "p80_us": fifths[-1], "per_second": 1e6 * tokens / median}
