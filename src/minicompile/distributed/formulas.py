"""Computes what each pattern must communicate in one training step, from the sizes alone.

With L blocks, width d, batch (B, T), m micro-batches, N ranks, P bytes of parameters, of which P_blocks in the blocks.
Parameters, activations and gradients are of one dtype; logits are float32, whatever the model is:

- DDP all-reduces every gradient once, P bytes, in buckets: gradients come in reverse order and a bucket is sent when
  it holds 25 MiB, the first one when it holds 1 MiB (Li et al. 2020, 3.2.3; DDP's argument `bucket_cap_mb`).
- FSDP2 gathers each block before its forward and again before its backward, and the root group once, since the root
  keeps its parameters between the two (`fully_shard`'s `reshard_after_forward`); it reduce-scatters every gradient
  once. That is P + P_blocks and P bytes, where each parameter's first axis is padded to a multiple of N (ZeRO stage 3's
  "1.5 times DDP", Rajbhandari et al. 2020, 7.2.2).
- Tensor parallel all-reduces the activations, B T d elements: after each block's two row-cut matrices forward, before
  its two column-cut pairs backward, after the embedding forward and before the LM head backward, so 4 L + 2 times
  (Megatron-LM, Shoeybi et al. 2019, 3). The sharded cross-entropy adds three of B T float32: the maximum, the sum of
  exponentials and the target's logit.
- Pipeline parallel sends the hidden states of a micro-batch, (B / m) T d elements, to the next rank forward, and their
  gradient to the one before backward: m times each, where there is such a rank (Huang et al. 2019, 2.2).
"""

from math import ceil, prod

from minicompile.distributed.rows import Counts
from minimodel.model_config import MiniGPTConfig

ITEM_BYTES = {"float32": 4, "bfloat16": 2}
LOGIT_BYTES = ITEM_BYTES["float32"]
MIB = 1024**2
FIRST_BUCKET, BUCKET = 1 * MIB, 25 * MIB


def expected(
    pattern: str, sizes: dict, batch: int, microbatches: int, ranks: int, rank: int, dtype: str = "float32"
) -> Counts:
    """Compute the collectives of one step of `pattern` on `rank` out of `ranks`: kind -> calls and bytes of payload.

    Args:
        pattern: `single`, `ddp`, `fsdp`, `tp` or `pp`.
        sizes: the model's, as `MiniGPTConfig` takes them; the sequence is `block_size` long.
        batch: the global batch, B.
        dtype: of the model, a key of `ITEM_BYTES`.
    """
    shapes = MiniGPTConfig(**sizes).shapes
    blocks = sizes["n_layer"]
    tokens = batch * sizes["block_size"]
    item = ITEM_BYTES[dtype]
    hidden = tokens * sizes["n_embd"] * item
    if pattern == "ddp":
        return _nonzero(all_reduce=(buckets(shapes, item), sum(prod(shape) for shape in shapes.values()) * item))
    if pattern == "fsdp":
        padded = {name: ceil(shape[0] / ranks) * ranks * prod(shape[1:]) * item for name, shape in shapes.items()}
        whole = sum(padded.values())
        in_blocks = sum(size for name, size in padded.items() if name.startswith("blocks."))
        return _nonzero(all_gather=(2 * blocks + 1, whole + in_blocks), reduce_scatter=(blocks + 1, whole))
    if pattern == "tp":
        activations, losses = activation_all_reduces(blocks), 3
        return _nonzero(all_reduce=(activations + losses, activations * hidden + losses * tokens * LOGIT_BYTES))
    if pattern == "pp":
        crossings = microbatches * ((rank < ranks - 1) + (rank > 0))
        each = (crossings, crossings * hidden // microbatches)
        return _nonzero(send=each, recv=each)
    return {}


def activation_all_reduces(blocks: int) -> int:
    """Count how often a step of tensor parallel all-reduces activations (B, T, d)."""
    return 4 * blocks + 2


def buckets(shapes: dict[str, tuple[int, ...]], item: int = 4) -> int:
    """Count the buckets that DDP cuts these parameters' gradients into, in reverse; elements have `item` bytes."""
    count, held, limit = 0, 0, FIRST_BUCKET
    for shape in reversed(shapes.values()):
        held += prod(shape) * item
        if held >= limit:
            count, held, limit = count + 1, 0, BUCKET
    return count + (held > 0)


def _nonzero(**kinds: tuple[int, int]) -> Counts:
    return {kind: {"count": count, "bytes": size} for kind, (count, size) in kinds.items() if count}


def sent_bytes(counts: Counts, ranks: int) -> float:
    """Compute the bytes that one rank puts on the wire for these collectives, under the ring algorithm.

    An all-reduce of n bytes sends 2 (N - 1) / N n, an all-gather or a reduce-scatter (N - 1) / N n, a send n; what is
    received is not counted again. Source: NCCL-tests, doc/PERFORMANCE.md, "bus bandwidth".

    Args:
        counts: kind -> calls and bytes of payload.
        ranks: N, the size of the group.
    """
    share = (ranks - 1) / ranks
    factors = {"all_reduce": 2 * share, "all_gather": share, "reduce_scatter": share, "broadcast": 1.0, "send": 1.0}
    return sum(factors.get(kind, 0.0) * entry["bytes"] for kind, entry in counts.items())
