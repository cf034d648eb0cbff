"""AdamW, the learning-rate schedule and gradient clipping, over flat parameter vectors.

AdamW after Loshchilov and Hutter 2019, with PyTorch's defaults and order of operations; cosine decay with
linear warmup after Loshchilov and Hutter 2017; clipping by the global norm after Pascanu et al. 2013.
"""

import math

import numpy as np


class AdamW:
    """Adam with decoupled weight decay, updating `parameters` in place.

    Args:
        parameters: flat vector of any floating dtype, updated by `step`.
        decayed: arrays that weight decay applies to, views of `parameters`.
        betas, epsilon, weight_decay: as in torch.optim.AdamW.
    """

    def __init__(
        self,
        parameters: np.ndarray,
        decayed: list[np.ndarray],
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 0.01,
    ):
        self.parameters, self.decayed = parameters, decayed
        self.betas, self.epsilon, self.weight_decay = betas, epsilon, weight_decay
        self.steps = 0
        # both moments, and two buffers so that a step allocates nothing
        self.mean, self.square = np.zeros_like(parameters), np.zeros_like(parameters)
        self._work, self._update = np.empty_like(parameters), np.empty_like(parameters)

    def step(self, gradients: np.ndarray, learning_rate: float) -> None:
        """One update from `gradients`, a vector like `parameters` (left as it is)."""
        self.steps += 1
        first, second = self.betas
        # m = b1 m + (1 - b1) g
        self.mean *= first
        self.mean += np.multiply(gradients, 1 - first, out=self._work)
        # v = b2 v + (1 - b2) g^2
        self.square *= second
        np.multiply(gradients, gradients, out=self._work)
        self._work *= 1 - second
        self.square += self._work

        # The bias corrections of both moments are folded into scalars.
        root = math.sqrt(1 - second**self.steps)
        # PyTorch divides m / (1 - b1^t) by sqrt(v / (1 - b2^t)) + eps. Multiplied through by root = sqrt(1 - b2^t), eps
        # becomes eps root and the rate's factor root / (1 - b1^t): two passes over the parameters less.
        denominator = np.sqrt(self.square, out=self._work)
        denominator += self.epsilon * root
        update = np.divide(self.mean, denominator, out=self._update)
        update *= learning_rate * root / (1 - first**self.steps)
        # Decoupled: weights shrink by the rate whatever their gradient is, before the update as in PyTorch.
        for array in self.decayed:
            array *= 1 - learning_rate * self.weight_decay
        self.parameters -= update


def cosine_schedule(step: int, steps: int, peak: float, final: float, warmup: int) -> float:
    """Learning rate of `step` (from 0): linear to `peak` over `warmup` steps, then a half cosine to `final`."""
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = (step - warmup) / max(1, steps - 1 - warmup)
    return final + (peak - final) * (1 + math.cos(math.pi * progress)) / 2


def clip_gradients(gradients: np.ndarray, limit: float) -> float:
    """Scale the vector in place so that its Euclidean norm is at most `limit`; return the norm it had."""
    # one dot product over the flat vector: the norm of all arrays together
    norm = math.sqrt(float(gradients @ gradients))
    if norm > limit:
        gradients *= limit / norm
    return norm
