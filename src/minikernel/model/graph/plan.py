"""How the rung `graph` spreads a forward pass over a GPU: which of the four kernels' instances, with which grids.

Few rows are cut along their columns, so that many multiprocessors share them and each has little to copy and to do.
Many rows are cut into tiles of 16, and each block keeps a whole matrix in shared memory for all of its tiles.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from minikernel.model.fragments import HEADS, WIDTH
from minikernel.model.graph.packing import FFN_VECTORS, PIECES, QKV_VECTORS, unit_bytes
from minimodel.model_config import MiniGPTConfig

ROWS, TILES, WARP = 16, WIDTH // 8, 32
PRECISIONS = {"float32": "Float32", "bfloat16": "Bfloat16"}
MOST_PAIRS = 10  # of word tiles that a warp of the head keeps in registers
MOST_PAIRS_OF_BLOCK = 52  # that shared memory holds, in float32


class Plan(NamedTuple):
    """The instances of the kernels for a number of row tiles, as the source's template parameters name them.

    Attributes:
        row_tiles: for how many at most.
        units, qkv_warps: 16 columns of qkv that a warp makes, of 12; warps of a block, each with rows of its own.
        attend_warps: warps of a block.
        groups, split, blocks: groups of warps that have 16 rows, warps of a group, blocks that share rows.
        head_groups, head_split, cluster: the same of the LM head; more blocks where the vocabulary asks for it.
    """

    row_tiles: float
    units: int
    qkv_warps: int
    attend_warps: int
    groups: int
    split: int
    blocks: int
    head_groups: int
    head_split: int
    cluster: int


# Measured on an H200 in float32, with 600 words: each change alone, kept where the whole replay took over 1 % less.
# (1, 16), from 30.5 us: split 8 with blocks 2, 29.5. (64, 64), from 86.2 us: units 2, 80.6; split 2, 80.7;
# head_split 8, 85.1. (512, 128), from 736 us: groups 16, 671; units 6, 723. Their sum is not measured.
PLANS = (
    # Thirty-two tiles are (1, 16) up to (32, 16): less than a
    # multiprocessor's work each. 1,056 are eight for each of an H200's 132.
    Plan(32, 1, 1, 1, 1, 8, 2, 1, 5, 8),
    Plan(1056, 2, 4, 4, 2, 2, 1, 2, 8, 1),
    Plan(float("inf"), 6, 8, 4, 16, 1, 1, 2, 8, 1),
)


class Head(NamedTuple):
    """How the LM head's words are divided: warps of a block, blocks of a cluster, pairs of word tiles of a warp."""

    split: int
    cluster: int
    pairs: int

    @property
    def words(self) -> int:
        """For how many words there is room."""
        return self.split * self.cluster * self.pairs * 2 * 8


class Buffers(NamedTuple):
    """What the launches read and write: addresses, or whatever stands for them where kernels are emulated.

    Attributes:
        qkv_weights, feed_forward_weights: of each layer.
        head_weights, tokens, places, ids, output, qkv, mixed: as in the source.
        streams: the parts of the residual stream, read and written by turns; twice the same where that goes in place.
        stamps: of the timeline, where one is wanted.
    """

    qkv_weights: Sequence[Any]
    feed_forward_weights: Sequence[Any]
    head_weights: Any
    tokens: Any
    places: Any
    ids: Any
    output: Any
    streams: tuple[Any, Any]
    qkv: Any
    mixed: Any
    stamps: Any = 0


class Kernel(NamedTuple):
    """A launch: its C++ name, grid, threads of a block, arguments, bytes of shared memory, blocks of a cluster.

    Of the arguments, integers are numpy.int32 and everything else is a pointer.
    """

    expression: str
    grid: tuple[int, int]
    threads: int
    arguments: tuple[Any, ...]
    shared_bytes: int
    cluster: int = 1


def plan_of(shape: tuple[int, int]) -> Plan:
    """The plan for ids (B, T)."""
    return next(plan for plan in PLANS if row_tiles_of(shape) <= plan.row_tiles)


# Whole tiles for each sequence: a tile that two sequences shared would need a mask in every kernel.
def row_tiles_of(shape: tuple[int, int]) -> int:
    """Tiles of 16 rows that ids (B, T) take: whole ones for each sequence."""
    return shape[0] * tiles_of_sequence(shape)


def tiles_of_sequence(shape: tuple[int, int]) -> int:
    """Tiles of 16 rows that one of the sequences takes."""
    return -(-shape[1] // ROWS)


def head_of(plan: Plan, vocabulary: int) -> Head:
    """How a plan divides the words: over as many blocks as hold their weights, and the logits in registers."""
    pairs, split, cluster = -(-vocabulary // 16), plan.head_split, plan.cluster
    # Twice as many blocks share the words until each has few enough for its registers and its shared memory.
    while -(-pairs // (split * cluster)) > min(MOST_PAIRS, MOST_PAIRS_OF_BLOCK // split):
        cluster *= 2
    return Head(split, cluster, -(-pairs // (split * cluster)))


def room_for_words(vocabulary: int) -> int:
    """Words for which the packed head has room: enough for every plan."""
    # One packed head serves all plans, so that it is packed once for a model whatever its batches.
    return max(head_of(plan, vocabulary).words for plan in PLANS)


def workspace_bytes(shape: tuple[int, int], dtype: str) -> dict[str, int]:
    """Bytes of what lies between the launches; `stream` of one of the two, `streams` how many there are."""
    tiles, parts, unit = row_tiles_of(shape), plan_of(shape).blocks, unit_bytes(dtype)
    return {
        "stream": 4 * parts * tiles * ROWS * WIDTH, "streams": 1 if parts == 1 else 2,
        "qkv": tiles * 3 * HEADS * unit, "mixed": tiles * HEADS * unit,
    }  # fmt: skip


def launches(
    config: MiniGPTConfig,
    shape: tuple[int, int],
    dtype: str,
    multiprocessors: int,
    buffers: Buffers,
    *,
    probabilities: bool,
    timed: bool = False,
    plan: Plan | None = None,
) -> list[Kernel]:
    """The launches of a forward pass in their order: three for each layer, and the head.

    Args:
        config: the model's sizes.
        shape: (B, T) of the ids.
        dtype: `float32` or `bfloat16`.
        multiprocessors: of the GPU; no grid has more blocks than can be at work there.
        buffers: addresses.
        probabilities: softmax over the last axis, or logits.
        timed: the instances that write a timeline.
        plan: another than `plan_of` the shape, to try it.
    """
    plan = plan or plan_of(shape)
    time, tiles, unit = shape[1], row_tiles_of(shape), unit_bytes(dtype)
    precision, stamps, flag = PRECISIONS[dtype], buffers.stamps, str(timed).lower()
    # the layer's vectors whole, of its weights those that the block multiplies with
    qkv_shared = 4 * QKV_VECTORS + plan.units * 4 * unit
    ffn_shared = 4 * FFN_VECTORS + 16 * unit + PIECES // plan.blocks * 8 * unit
    # Warps that share rows also exchange: the rows after the projection, and what each warp adds.
    ffn_shared += plan.groups * (1 + plan.split) * TILES * WARP * 16 if plan.split > 1 else 0
    number, read, written = np.int32(tiles), *buffers.streams
    kernels = []
    for layer in range(config.n_layer):
        # The first layer makes its stream from the embeddings; later ones find as many parts as blocks shared the rows.
        parts, embed = (1, "true") if layer == 0 else (plan.blocks, "false")
        blocks = _blocks(tiles, plan.qkv_warps, multiprocessors, qkv_shared, plan.qkv_warps)
        kernels.append(Kernel(
            f"project_qkv<{precision}, {plan.units}, {plan.qkv_warps}, {parts}, {embed}, {flag}>",
            (blocks, 3 * HEADS // plan.units), WARP * plan.qkv_warps,
            (buffers.qkv_weights[layer], read, buffers.qkv, buffers.ids, buffers.tokens, buffers.places,
             np.int32(time), np.int32(config.vocab_size), number, stamps),
            qkv_shared,
        ))  # fmt: skip
        of_sequence = tiles_of_sequence(shape)
        # compiled for few lengths: a warp holds all keys of its queries in registers
        key_tiles = next(most for most in (1, 2, 4, 8) if of_sequence <= most)
        kernels.append(Kernel(
            f"attend<{precision}, {key_tiles}, {plan.attend_warps}, {flag}>",
            (-(-tiles * HEADS // plan.attend_warps), 1), WARP * plan.attend_warps,
            (buffers.qkv, buffers.mixed, np.int32(of_sequence), number, stamps), 0,
        ))  # fmt: skip
        warps = plan.groups * plan.split
        blocks = _blocks(tiles, plan.groups, multiprocessors, ffn_shared, warps)
        kernels.append(Kernel(
            f"feed_forward<{precision}, {plan.groups}, {plan.split}, {plan.blocks}, {parts}, {flag}>",
            (blocks, plan.blocks), WARP * warps,
            (buffers.feed_forward_weights[layer], buffers.mixed, read, written, number, stamps),
            ffn_shared,
        ))  # fmt: skip
        read, written = written, read
    head, words = head_of(plan, config.vocab_size), config.vocab_size
    head_shared = 16 + head.words // head.cluster * 4 + head.words // head.cluster // 16 * 4 * unit
    warps = plan.head_groups * head.split
    # a cluster's blocks are at work at the same time, on as many multiprocessors
    blocks = _blocks(tiles, plan.head_groups, multiprocessors // head.cluster, head_shared, warps) * head.cluster
    # with a multiple of four words each row of the output begins on a boundary for 16-byte stores
    flags = ", ".join(str(each).lower() for each in (probabilities, words % 4 == 0, timed))
    kernels.append(Kernel(
        f"predict<{precision}, {plan.head_groups}, {head.split}, {head.cluster}, {head.pairs}, {plan.blocks}, {flags}>",
        (blocks, 1), WARP * warps,
        (buffers.head_weights, read, buffers.output, np.int32(time), np.int32(words),
         np.int32(room_for_words(words)), number, stamps),
        head_shared, head.cluster,
    ))  # fmt: skip
    return kernels


def _blocks(tiles: int, of_block: int, multiprocessors: int, shared_bytes: int, warps: int) -> int:
    """Blocks along the rows: one for each `of_block` tiles, at most as many as fit onto the GPU at once."""
    # By shared memory (227 KB a multiprocessor; 3 KB besides for
    # static arrays and what CUDA keeps of each block) and by 16 warps.
    at_once = max(1, min(227 * 1024 // (shared_bytes + 3072), 16 // warps))
    return min(-(-tiles // of_block), max(1, at_once * multiprocessors))
