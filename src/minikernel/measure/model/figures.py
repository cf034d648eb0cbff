"""What follows from raw samples: the figures of a forward pass, of an empty kernel and of a written text."""

from collections.abc import Mapping, Sequence

import numpy as np

from minikernel.measure.model.clocks import Clocked
from minikernel.measure.model.rows import ForwardFigures, Samples, WritingFigures
from minikernel.measure.noise import DUPLICATE


def median(samples: Sequence[float]) -> float:
    """Median of some samples; zero of none."""
    return float(np.median(samples)) if len(samples) else 0.0


def forward_figures(rung: str, twice: str, clocked: Mapping[str, Clocked], flop: int) -> ForwardFigures:
    """The figures of one rung at one place.

    Args:
        rung, twice: the rung, and the one that was timed a second time.
        clocked: the samples of all rungs at this place, the duplicate among them.
        flop: operations of a pass.
    """
    device, wall = clocked[rung].device_us, clocked[rung].wall_us
    again = clocked[DUPLICATE]
    return {
        "device_us": median(device),
        "p20_us": float(np.percentile(device, 20)),
        "p80_us": float(np.percentile(device, 80)),
        "wall_us": median(wall),
        "wall_p20_us": float(np.percentile(wall, 20)),
        "wall_p80_us": float(np.percentile(wall, 80)),
        "noise_floor": apart(again.device_us, clocked[twice].device_us),
        "wall_noise_floor": apart(again.wall_us, clocked[twice].wall_us),
        "tflop_per_s": flop / median(device) / 1e6,
    }


def writing_figures(rung: str, twice: str, sequences: int, samples: Samples) -> WritingFigures:
    """The figures of one writer at one number of sequences, from the samples of all, the duplicate among them."""
    return {
        "us_per_token": median(samples[rung]),
        "p20_us": float(np.percentile(samples[rung], 20)),
        "p80_us": float(np.percentile(samples[rung], 80)),
        "noise_floor": apart(samples[DUPLICATE], samples[twice]),
        "tokens_per_s": 1e6 * sequences / median(samples[rung]),
    }


def apart(again: Sequence[float], first: Sequence[float]) -> float:
    """How far the medians of two timings of the same thing lie apart, as a share of the first."""
    return abs(median(again) / median(first) - 1)
