"""Computes what each pattern must communicate in one training step, from the sizes alone.

With L blocks, width d, batch (B, T), m micro-batches, N ranks, P bytes of parameters, of which P_blocks in the blocks,
and float32 throughout (4 bytes):

- DDP all-reduces every gradient once, P bytes, in buckets: gradients come in reverse order and a bucket is sent when
  it holds 25 MiB, the first one when it holds 1 MiB (Li et al. 2020, 3.2.3; DDP's argument `bucket_cap_mb`).
- FSDP2 gathers each block before its forward and again before its backward, and the root group once, since the root
  keeps its parameters between the two (`fully_shard`'s `reshard_after_forward`); it reduce-scatters every gradient
  once. That is P + P_blocks and P bytes, where each parameter's first axis is padded to a multiple of N (ZeRO stage 3's
  "1.5 times DDP", Rajbhandari et al. 2020, 7.2.2).
- Tensor parallel all-reduces the activations, B T d floats: after each block's two row-cut matrices forward, before its
  two column-cut pairs backward, after the embedding forward and before the LM head backward, so 4 L + 2 times
  (Megatron-LM, Shoeybi et al. 2019, 3). The sharded cross-entropy adds three of B T floats: the maximum, the sum of
  exponentials and the target's logit.
- Pipeline parallel sends the hidden states of a micro-batch, (B / m) T d floats, to the next rank forward, and their
  gradient to the one before backward: m times each, where there is such a rank (Huang et al. 2019, 2.2).
"""

from math import ceil, prod

from minicompile.distributed.collectives import Counts
from minimodel.model_config import MiniGPTConfig

FLOAT = 4  # bytes
MIB = 1024**2
FIRST_BUCKET, BUCKET = 1 * MIB, 25 * MIB


def expected(pattern: str, sizes: dict, batch: int, microbatches: int, ranks: int, rank: int) -> Counts:
    """Compute the collectives of one step of `pattern` on `rank` out of `ranks`: kind -> calls and bytes of payload.

    Args:
        pattern: `single`, `ddp`, `fsdp`, `tp` or `pp`.
        sizes: the model's, as `MiniGPTConfig` takes them; the sequence is `block_size` long.
        batch: the global batch, B.
    """
    shapes = MiniGPTConfig(**sizes).shapes
    blocks = sizes["n_layer"]
    tokens = batch * sizes["block_size"]
    hidden = tokens * sizes["n_embd"] * FLOAT
    if pattern == "ddp":
        return _nonzero(all_reduce=(buckets(shapes), sum(prod(shape) for shape in shapes.values()) * FLOAT))
    if pattern == "fsdp":
        padded = {name: ceil(shape[0] / ranks) * ranks * prod(shape[1:]) * FLOAT for name, shape in shapes.items()}
        whole = sum(padded.values())
        in_blocks = sum(size for name, size in padded.items() if name.startswith("blocks."))
        return _nonzero(all_gather=(2 * blocks + 1, whole + in_blocks), reduce_scatter=(blocks + 1, whole))
    if pattern == "tp":
        activations, losses = 4 * blocks + 2, 3
        return _nonzero(all_reduce=(activations + losses, activations * hidden + losses * tokens * FLOAT))
    if pattern == "pp":
        crossings = microbatches * ((rank < ranks - 1) + (rank > 0))
        each = (crossings, crossings * hidden // microbatches)
        return _nonzero(send=each, recv=each)
    return {}


def buckets(shapes: dict[str, tuple[int, ...]]) -> int:
    """Count the buckets that DDP cuts these parameters' gradients into, taking them in reverse order."""
    count, held, limit = 0, 0, FIRST_BUCKET
    for shape in reversed(shapes.values()):
        held += prod(shape) * FLOAT
        if held >= limit:
            count, held, limit = count + 1, 0, BUCKET
    return count + (held > 0)


def _nonzero(**kinds: tuple[int, int]) -> Counts:
    return {kind: {"count": count, "bytes": size} for kind, (count, size) in kinds.items() if count}
