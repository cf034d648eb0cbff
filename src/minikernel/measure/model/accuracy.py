"""Whether a forward pass is right: its probabilities against the model in float64, and its loss on held-out text."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from minikernel.proof.accuracy import exact_softmax, relative_error
from minimodel.corpus import TokenStream
from minimodel.torch_minigpt import GrammarMiniGPT

TOLERANCES = {"float32": 1e-3, "bfloat16": 0.8}  # of a probability (zeros have 1); beyond it a rung is wrong, not timed
MOST_CALLS = 256  # of a rung, for its loss


@dataclass(frozen=True)
class HeldOut:
    """Rows of held-out text for one shape of a batch.

    Attributes:
        inputs, targets: (calls, B, T) int64 on the device. The last batch is filled up with rows of the first.
        rows: how many rows count.
    """

    inputs: Tensor
    targets: Tensor
    rows: int

    @property
    def tokens(self) -> int:
        return self.rows * self.targets.shape[-1]


@torch.no_grad()
def exact_probabilities(model: GrammarMiniGPT, ids: Tensor) -> Tensor:
    """The probabilities (B, T, V) that the same weights give in float64, on the model's device."""
    # a copy, for the model itself is about to be timed in its own dtype
    logits = copy.deepcopy(model).double()(ids)
    return exact_softmax(logits.flatten(0, -2)).view(logits.shape)


def error_of(result: Tensor, exact: Tensor) -> float:
    """Largest relative error of probabilities; infinite where they are wrong in kind."""
    return relative_error(result, exact)


def tolerance_used(result: Tensor, exact: Tensor, atol: float, rtol: float) -> float | None:
    """Largest difference of the logarithms over `atol + rtol |exact|`: at most 1 where they are allclose.

    The logarithm of a probability is its logit, up to a number for each position. None where a probability is zero.
    """
    # log p_i = z_i - log(sum(exp z)): one number apart for each position, equal for both sides up to rounding
    exact = exact.log()
    # a logarithm of 0 is minus infinity: None rather than a number that means nothing
    used = ((result.double().log() - exact).abs() / (atol + rtol * exact.abs())).max().item()
    return used if math.isfinite(used) else None


def held_out(stream: TokenStream, batch: int, time: int, device: torch.device) -> HeldOut:
    """The rows of a text, each from a sentence's start, in batches of one shape.

    Raises:
        LabError: the text is shorter than one row.
    """
    inputs, targets = stream.rows(stream.consecutive_places(time))
    rows = min(len(inputs), MOST_CALLS * batch)
    calls = -(-rows // batch)
    # A batch of one shape needs rows enough: the first ones again, which the mean leaves out.
    filled = np.arange(calls * batch) % rows

    def shaped(ids: np.ndarray) -> Tensor:
        return torch.as_tensor(ids[filled].reshape(calls, batch, time), device=device)

    return HeldOut(shaped(inputs), shaped(targets), rows)


def loss_of(forward: Callable[[Tensor], Tensor], text: HeldOut) -> float | None:
    """Cross-entropy in nats a token, of the probabilities that a rung gives; None where it is not finite."""
    losses = []
    for inputs, targets in zip(text.inputs, text.targets, strict=True):
        chosen = forward(inputs).gather(-1, targets[..., None]).squeeze(-1)
        losses.append(-chosen.double().log())
    loss = torch.cat(losses)[: text.rows].mean().item()
    return loss if math.isfinite(loss) else None
