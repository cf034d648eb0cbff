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
    # one duplicate for a place: its distance from its original is the noise of every row there
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
        # operations a microsecond are millions a second; a million of those are a TFLOP/s
        "tflop_per_s": flop / median(device) / 1e6,
    }


def writing_figures(
    rung: str, twice: str, sequences: int, new_tokens: int, texts: Samples, first: Samples
) -> WritingFigures:
    """The figures of one writer at one number of sequences, from the samples of all, the duplicate among them.

    Args:
        rung, twice: the writer, and the one that was timed a second time.
        sequences: side by side.
        new_tokens: of a text, at least 2.
        texts: wall times of whole texts.
        first: wall times of texts of one token, each taken beside the text of the same number.
    """

    def of_a_token(name: str) -> list[float]:
        # The difference of a pair that was timed one after the other: what the call and the prompt cost falls out.
        return [(text - one) / (new_tokens - 1) for text, one in zip(texts[name], first[name], strict=True)]

    own = of_a_token(rung)
    return {
        "us_per_token": median(own),
        "p20_us": float(np.percentile(own, 20)),
        "p80_us": float(np.percentile(own, 80)),
        "first_token_us": median(first[rung]),
        "noise_floor": apart(of_a_token(DUPLICATE), of_a_token(twice)),
        "tokens_per_s": 1e6 * sequences * new_tokens / median(texts[rung]),
    }


def apart(again: Sequence[float], first: Sequence[float]) -> float:
    """How far the medians of two timings of the same thing lie apart, as a share of the first."""
    return abs(median(again) / median(first) - 1)
