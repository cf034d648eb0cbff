"""What the training kernel reads besides the model: the text, where each row of a batch begins in it, and the rates.

Rows and rates are those of NumPy's training (`minimodel.training`), row for row for the same seed.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from minikernel.model.train.layout import Phase
from minilab import LabError
from minimodel.corpus import TokenStream
from minimodel.optim import cosine_schedule


@dataclass(frozen=True)
class AdamW:
    """AdamW's settings, its schedule and clipping, as `training` of config.yaml names them.

    Attributes:
        learning_rate: the peak, after `warmup` steps of linear warmup.
        final_learning_rate: where the cosine ends.
        clip: largest norm of the gradients.
    """

    learning_rate: float = 0.003
    final_learning_rate: float = 0.0001
    warmup: int = 60
    beta_1: float = 0.9
    beta_2: float = 0.99
    epsilon: float = 1e-8
    weight_decay: float = 0.01
    clip: float = 1.0


class Tables(NamedTuple):
    """Arrays that the kernel reads.

    Attributes:
        text: int32 ids of the training text, then of the held-out text.
        firsts: int32, where each row begins in `text`: a step's after the other, then each phase's held-out rows.
        phases: (phases, 5) int32: steps, batch, time, held-out rows, where these begin in `firsts`.
        rates: (steps, 3) float32: factor of the update, what is added to the root, what weights shrink to.
    """

    text: np.ndarray
    firsts: np.ndarray
    phases: np.ndarray
    rates: np.ndarray


def tables(
    stream: TokenStream, phases: list[Phase], optimizer: AdamW, seed: int, held_out: TokenStream | None
) -> Tables:
    """The tables of a whole schedule.

    Raises:
        LabError: a text is shorter than a row.
    """
    generator = np.random.default_rng(seed)
    for text in (stream, held_out):
        if text is not None and len(text) < (longest := max(phase.time for phase in phases)):
            raise LabError(f"{len(text)} tokens do not fill a row of {longest}; raise the number of sentences.")
    drawn = [
        stream.random_places(generator, phase.batch, phase.time)[:, 0] for phase in phases for _ in range(phase.steps)
    ]
    firsts, sizes, end = [*drawn], [], sum(map(len, drawn))
    for phase in phases:
        rows = np.empty(0, np.int64)
        if held_out is not None:  # its text lies behind the other
            rows = held_out.consecutive_places(phase.time)[:, 0] + len(stream)
        sizes.append((*phase, len(rows), end))
        firsts.append(rows)
        end += len(rows)
    texts = [stream.ids] if held_out is None else [stream.ids, held_out.ids]
    return Tables(
        np.concatenate(texts).astype(np.int32),
        np.concatenate(firsts).astype(np.int32),
        np.array(sizes, np.int32),
        rates(sum(phase.steps for phase in phases), optimizer),
    )


def rates(steps: int, optimizer: AdamW) -> np.ndarray:
    """(steps, 3) float32; the arithmetic of `minimodel.optim`, in float64 and rounded once."""
    made = []
    for step in range(steps):
        rate = cosine_schedule(step, steps, optimizer.learning_rate, optimizer.final_learning_rate, optimizer.warmup)
        # both moments' bias corrections, folded into a factor and into epsilon
        root = math.sqrt(1 - optimizer.beta_2 ** (step + 1))
        factor = rate * root / (1 - optimizer.beta_1 ** (step + 1))
        made.append((factor, optimizer.epsilon * root, 1 - rate * optimizer.weight_decay))
    return np.array(made, np.float32).reshape(steps, 3)
