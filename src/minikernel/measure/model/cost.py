"""What a forward pass of MiniGPT costs by the count: products to compute, bytes to move."""

from math import prod

from minimodel.model_config import MiniGPTConfig

FLOP_A_PRODUCT = 2  # a multiplication and an addition
ID_BYTES = 8


def flop(config: MiniGPTConfig, batch: int, time: int) -> int:
    """Floating-point operations of all matrix products of (B, T) ids, causal ones as far as they are needed.

    LayerNorm, GELU, softmax and the sums of the stream are left out, as is usual.
    """
    d, tokens = config.n_embd, batch * time
    linear = 3 * d * d + d * d + 4 * d * d + 4 * d * d  # query, key and value; projection; feed-forward, in and out
    # the lower triangle alone: what causality hides is work that nobody need do
    seen = batch * time * (time + 1) // 2  # pairs of a position and one that it attends to
    attention = 2 * d  # scores and the mixture of values, over all heads
    head = d * config.vocab_size
    return FLOP_A_PRODUCT * (config.n_layer * (linear * tokens + attention * seen) + head * tokens)


def fewest_bytes(config: MiniGPTConfig, batch: int, time: int, itemsize: int) -> int:
    """The fewest bytes of (B, T) ids: weights and ids read once, probabilities of `itemsize` bytes written once."""
    parameters = sum(map(prod, config.shapes.values()))
    return parameters * itemsize + batch * time * (ID_BYTES + config.vocab_size * itemsize)
