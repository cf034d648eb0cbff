"""Which token comes next: the likeliest, or one drawn from the distribution.

A draw needs a random number for each token of each sequence. They come from a counter-based generator, Philox4x32-10
(Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"), which computes the number of any
token from the seed, the sequence and the position alone: the same text for the same seed, however many sequences are
written side by side and whatever computes them.
"""

from dataclasses import dataclass

import numpy as np

from minilab import ConfigError

# the constants of Philox4x32, from the paper; WEYL are those of its key schedule
MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen.

    Args:
        temperature: the logits are divided by it before the softmax; 0 takes the likeliest token (greedy).
        top_k: only the k likeliest tokens are drawn from, of equal ones those of lower id; None draws from all.
        seed: of the random numbers, 0 to 2**64 - 1.

    Raises:
        ConfigError: one of them cannot be.
    """

    temperature: float = 0.0
    top_k: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.temperature, bool) or not isinstance(self.temperature, int | float):
            raise ConfigError(f"temperature is {self.temperature!r}; make it a number of at least 0.")
        if not (0 <= self.temperature < float("inf")):
            raise ConfigError(f"temperature is {self.temperature!r}; make it a finite number of at least 0.")
        if self.top_k is not None and (type(self.top_k) is not int or self.top_k < 1):
            raise ConfigError(f"top_k is {self.top_k!r}; make it a whole number of at least 1, or leave it out.")
        if type(self.seed) is not int or not 0 <= self.seed < 2**64:
            raise ConfigError(f"seed is {self.seed!r}; make it a whole number from 0 to 2**64 - 1.")

    def choose(self, logits: np.ndarray, position: int) -> np.ndarray:
        """Choose a token for each sequence.

        Args:
            logits: (B, V) floating point, of the token at `position`; computed with in float64.
            position: of the token that is chosen, counted from the first token of the sequence.

        Returns:
            (B,) int64 ids.
        """
        # greedy: of equal logits the first, as argmax takes it
        if not self.temperature:
            return logits.argmax(-1)
        scaled = logits.astype(np.float64) / self.temperature
        # Not divided by their sum: the aim below is a share of it instead.
        weights = np.exp(scaled - scaled.max(-1, keepdims=True))
        if self.top_k is not None and self.top_k < weights.shape[-1]:
            # stable, so that of equal logits the lower id stays, here and in the CUDA kernel (choice.cuh)
            left_out = np.argsort(-scaled, axis=-1, kind="stable")[:, self.top_k :]
            np.put_along_axis(weights, left_out, 0.0, axis=-1)
        # Inversion: the first token whose running sum exceeds the aim. float64, so that the kernel draws the same one.
        reached = weights.cumsum(-1)
        aims = uniform(self.seed, len(logits), position) * reached[:, -1]
        return (reached > aims[:, None]).argmax(-1)


def uniform(seed: int, sequences: int, position: int) -> np.ndarray:
    """Random numbers in [0, 1) for the token at `position` of each sequence.

    Returns:
        (sequences,) float64, multiples of 2**-24, which float32 holds exactly.
    """
    counters = np.zeros((sequences, 4), np.uint32)
    # A number belongs to (seed, sequence, position) alone: another batch, another order, another device draw the same.
    counters[:, 0], counters[:, 1] = position, np.arange(sequences)
    return (philox(counters, seed)[:, 0] >> 8) * 2.0**-24


def philox(counters: np.ndarray, key: int) -> np.ndarray:
    """Philox4x32-10: four random words for each counter.

    Args:
        counters: (N, 4) uint32.
        key: 0 to 2**64 - 1.

    Returns:
        (N, 4) uint32.
    """
    words = [counters[:, i].astype(np.uint64) for i in range(4)]
    keys = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(ROUNDS):
        # products of 32 by 32 bits in 64: their high and low halves are what a round mixes
        first, second = MULTIPLIERS[0] * words[0], MULTIPLIERS[1] * words[2]
        words = [
            (second >> np.uint64(32)) ^ words[1] ^ np.uint64(keys[0]),
            second & LOW,
            (first >> np.uint64(32)) ^ words[3] ^ np.uint64(keys[1]),
            first & LOW,
        ]
        keys = [(key + step) & 0xFFFFFFFF for key, step in zip(keys, WEYL, strict=True)]
    return np.stack(words, -1).astype(np.uint32)
