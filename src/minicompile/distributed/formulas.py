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
- FSDP2 x TP, on a mesh of 2 by N / 2 ranks, does both with half of the batch: tensor parallel among the N / 2, whose
  activations are half as large, and FSDP2 between the two, of what tensor parallel leaves a rank of each parameter.
- Pipeline parallel sends the hidden states of a micro-batch, (B / m) T d elements, to the next stage forward, and their
  gradient to the one before backward: m times each, where that stage is another rank's (Huang et al. 2019, 2.2).

What a pipeline's schedule leaves idle is told by `idle_slots`.
"""

from math import ceil, prod

from minicompile.distributed.rows import Counts
from minimodel.model_config import MiniGPTConfig

ITEM_BYTES = {"float32": 4, "bfloat16": 2}
LOGIT_BYTES = ITEM_BYTES["float32"]
MIB = 1024**2
FIRST_BUCKET, BUCKET = 1 * MIB, 25 * MIB
REPLICAS = 2  # slices of the batch in the mesh of FSDP2 x TP
PIPELINES = {"pp": 1, "pp_interleaved": 2, "pp_zb1p": 2, "pp_zbv": 2}  # pattern -> stages of a rank
SLOTS = 3  # of a micro-batch on a rank: forward, the gradients of its input, the gradients of its weights
# Whose weights tensor parallel leaves whole on every rank; of the matrices it cuts by rows it leaves the biases whole.
WHOLE_UNDER_TP = ("ln_", "position_embedding", "proj.bias")


def expected(
    pattern: str, sizes: dict, batch: int, microbatches: int, ranks: int, rank: int, dtype: str = "float32"
) -> Counts:
    """Compute the collectives of one step of `pattern` on `rank` out of `ranks`: kind -> calls and bytes of payload.

    Args:
        pattern: `single`, `ddp`, `fsdp`, `tp`, `fsdp_tp` or one of `PIPELINES`.
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
        return _nonzero(**_sharded(shapes, blocks, ranks, item))
    if pattern == "tp":
        return _nonzero(**_cut_by_heads(blocks, hidden, tokens))
    if pattern == "fsdp_tp":
        cut = {
            name: shape if any(part in name for part in WHOLE_UNDER_TP) else _cut(shape, ranks // REPLICAS)
            for name, shape in shapes.items()
        }
        sharded = _sharded(cut, blocks, REPLICAS, item)
        return _nonzero(**sharded, **_cut_by_heads(blocks, hidden // REPLICAS, tokens // REPLICAS))
    if pattern in PIPELINES:
        crossings = microbatches * _neighbours(pattern, ranks, rank)
        each = (crossings, crossings * hidden // microbatches)
        return _nonzero(send=each, recv=each)
    return {}


def _sharded(shapes: dict[str, tuple[int, ...]], blocks: int, ranks: int, item: int) -> dict[str, tuple[int, int]]:
    padded = {name: ceil(shape[0] / ranks) * ranks * prod(shape[1:]) * item for name, shape in shapes.items()}
    whole = sum(padded.values())
    in_blocks = sum(size for name, size in padded.items() if name.startswith("blocks."))
    return {"all_gather": (2 * blocks + 1, whole + in_blocks), "reduce_scatter": (blocks + 1, whole)}


def _cut_by_heads(blocks: int, hidden: int, tokens: int) -> dict[str, tuple[int, int]]:
    activations, losses = activation_all_reduces(blocks), 3
    return {"all_reduce": (activations + losses, activations * hidden + losses * tokens * LOGIT_BYTES)}


def _cut(shape: tuple[int, ...], ranks: int) -> tuple[int, ...]:
    """Cut one axis, by rows or by columns alike: the other stays whole, and only their product is asked for."""
    return (shape[0] // ranks, *shape[1:])


def _neighbours(pattern: str, ranks: int, rank: int) -> int:
    """Count the neighbours of a rank's stages that another rank has."""
    mine = stages_of(pattern, ranks, rank)
    beside = [stage + way for stage in mine for way in (-1, 1)]
    return sum(0 <= stage < PIPELINES[pattern] * ranks and stage not in mine for stage in beside)


def stages_of(pattern: str, ranks: int, rank: int) -> list[int]:
    """List the stages of a pipeline that `rank` holds: every N-th, or for ZBV one on the way down and one back up."""
    if pattern == "pp_zbv":
        return [rank, 2 * ranks - 1 - rank]
    return [rank + turn * ranks for turn in range(PIPELINES[pattern])]


def idle_slots(pattern: str, ranks: int, microbatches: int) -> float:
    """Compute for how many slots a rank waits in one step of a pipeline, of which it computes in `SLOTS` x m.

    A slot is one of three parts of a micro-batch's work on one rank, taken to be equal: forward, the gradients of the
    input, the gradients of the weights. Sending takes no time. With v stages a rank and N ranks:

    - 1F1B fills and drains the pipe: N - 1 forward and whole backward passes (Narayanan et al. 2019, "PipeDream").
    - Interleaved 1F1B does so with passes that are 1 / v as long (Narayanan et al. 2021, "Megatron-LM", 2.2.2).
    - ZB1P puts off the gradients of weights, so that they fill the drain: of the three slots one is left, 1 / v as long
      (Qi et al. 2023, "Zero Bubble Pipeline Parallelism", 2.3: (N - 1) (T_F + T_B - T_W) for one stage a rank).
    - ZBV has no bubble between a rank's first slot and its last (Qi et al. 2023, 6), but the last rank starts N - 1
      stages late, 1 / 2 slot each; where m < 2 N - 1 the V does not fill, and each that lacks costs two such stages.
    """
    late = ranks - 1
    if pattern == "pp_zb1p":
        return late / PIPELINES[pattern]
    if pattern == "pp_zbv":
        return max(late, 2 * (2 * ranks - 1 - microbatches)) / PIPELINES[pattern]
    return SLOTS * late / PIPELINES[pattern]


def bubble_bound(pattern: str, ranks: int, microbatches: int) -> float:
    """Compute the speed-up over one process that the schedule allows, were all else free and the stages equal."""
    work = SLOTS * microbatches
    return ranks * work / (work + idle_slots(pattern, ranks, microbatches))


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


def sent_bytes(counts: Counts, ranks: int, pattern: str = "") -> float:
    """Compute the bytes that one rank puts on the wire for these collectives, under the ring algorithm.

    An all-reduce of n bytes sends 2 (N - 1) / N n, an all-gather or a reduce-scatter (N - 1) / N n, a send n; what is
    received is not counted again. Source: NCCL-tests, doc/PERFORMANCE.md, "bus bandwidth".

    Args:
        counts: kind -> calls and bytes of payload.
        ranks: N, the size of the group.
        pattern: what was trained; the mesh of `fsdp_tp` has smaller groups, one size for each kind of collective.
    """
    gathering = reducing = (ranks - 1) / ranks
    if pattern == "fsdp_tp":
        gathering, reducing = (REPLICAS - 1) / REPLICAS, (ranks - REPLICAS) / ranks
    factors = {"all_reduce": 2 * reducing, "all_gather": gathering, "reduce_scatter": gathering}
    factors |= {"broadcast": 1.0, "send": 1.0}
    return sum(factors.get(kind, 0.0) * entry["bytes"] for kind, entry in counts.items())
