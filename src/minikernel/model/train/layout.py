"""What the training kernel (`train.cu`) needs of a model, a schedule and a GPU, and the sizes of what it is given.

The numbers are those of `layout.cuh`.
"""

from typing import NamedTuple

from minilab import LabError
from minimodel.model_config import MiniGPTConfig

WIDTH, HEADS, ROWS, WARPS = 64, 4, 16, 16
THREADS = 32 * WARPS
MOST_POSITIONS = 128
KEPT, KEPT_LAST = 1288, 128  # floats of a token in global memory: of a layer; of the rest, but the logits
SHARED_LAYER, SHARED_REST, SHARED_UNION = 9696, 7744, 7680  # floats of a block
SHARED_UNIT, SHARED_BARRIERS = 4 * 128 * 96, 16
LOGITS_BEYOND = 16
MOST_LAYERS = 5
TOLD = 2 + MOST_LAYERS + 1  # where what blocks have told each other begins


class Phase(NamedTuple):
    """Steps of a schedule that have the same shape."""

    steps: int
    batch: int
    time: int


def shared_bytes(config: MiniGPTConfig, deep: bool = False) -> int:
    """Dynamic shared memory of a block; `deep`: what is kept of layers is in global memory."""
    union = max(SHARED_UNION, ROWS * (words_up(config) + LOGITS_BEYOND))
    return 4 * (
        SHARED_BARRIERS + max((0 if deep else config.n_layer * SHARED_LAYER) + SHARED_REST + union, SHARED_UNIT)
    )


def words_up(config: MiniGPTConfig) -> int:
    """Numbers of a row of logits' gradients in global memory."""
    return -(-config.vocab_size // 32) * 32


def tokens_of(phases: list[Phase], blocks: int) -> int:
    """Tokens that there is room for: those of the largest batch, and a tile of each block for the held-out text."""
    return max(ROWS * blocks, *(phase.batch * phase.time for phase in phases))


def floats_of(config: MiniGPTConfig, tokens: int, blocks: int) -> int:
    """Floats that are kept in global memory between the phases of a step."""
    norms = (2 * config.n_layer + 1) * 2 * WIDTH
    of_token = config.n_layer * KEPT + KEPT_LAST + words_up(config)
    return tokens * of_token + tokens // ROWS * norms + tokens + blocks


def packed_floats(config: MiniGPTConfig) -> int:
    """Floats of the matrices as the products read them: of the layers, then of the head, forth and back."""
    slots = 50 * config.n_layer + -(-config.vocab_size // 256) * 8 + -(-config.vocab_size // 128) * 4
    return slots * 4 * THREADS


def fits(config: MiniGPTConfig, most_shared_bytes: int) -> bool:
    """Whether what is kept of the layers of 16 tokens, and their logits, are within a block's shared memory."""
    return shared_bytes(config) <= most_shared_bytes and config.n_layer <= MOST_LAYERS


def check_model(config: MiniGPTConfig, most_shared_bytes: int, *, deep: bool = False) -> None:
    """Refuse a model that the kernel does not take; `deep`: layers are kept in global memory.

    Raises:
        LabError: its width, heads or positions are not the kernel's, or a block has no room for its layers and words.
    """
    if (config.n_embd, config.n_head) != (WIDTH, HEADS):
        raise LabError(
            f"the training in one launch has n_embd {WIDTH} and n_head {HEADS}, and this model {config.n_embd} and "
            f"{config.n_head}; train it with minimodel.training."
        )
    if config.block_size > MOST_POSITIONS:
        raise LabError(
            f"the training in one launch has at most {MOST_POSITIONS} positions, and this model {config.block_size}; "
            "train it with minimodel.training."
        )
    if deep and shared_bytes(config, deep) > most_shared_bytes:
        raise LabError(
            f"the training keeps {config.vocab_size} words of 16 tokens in a block, {shared_bytes(config, deep):,} "
            f"bytes of shared memory where this GPU has {most_shared_bytes:,}; train it with minimodel.training."
        )
    needed = shared_bytes(config)
    if not deep and not fits(config, most_shared_bytes):
        raise LabError(
            f"the training in one launch keeps {config.n_layer} layers and {config.vocab_size} words of 16 tokens in a "
            f"block, {needed:,} bytes of shared memory where this GPU has {most_shared_bytes:,}; a model of 4 layers "
            "and 704 words fits an H100. Train it with launches='graph'."
        )


def check_phases(config: MiniGPTConfig, phases: list[Phase], blocks: int) -> None:
    """Refuse a schedule that the kernel does not take.

    Raises:
        LabError: it has no step; a row is longer than the model's positions or is no multiple of 16 tokens, or one
            sequence has more tiles than there are blocks.
    """
    if not phases:
        raise LabError("the schedule has no phase; give at least one of (steps, batch, time).")
    for phase in phases:
        if min(phase) < 1:
            raise LabError(f"a phase has (steps, batch, time) {tuple(phase)}; each must be at least 1.")
        if phase.time > config.block_size:
            raise LabError(
                f"a phase of the schedule has rows of {phase.time} tokens, block_size is {config.block_size}; shorten "
                "its time."
            )
        if phase.time % ROWS:
            raise LabError(
                f"the training in one launch has rows of a multiple of {ROWS} tokens, and a phase of the schedule "
                f"{phase.time}; change its time, or train with minimodel.training."
            )
        if phase.time // ROWS > blocks:
            raise LabError(
                f"a row of {phase.time} tokens has {phase.time // ROWS} blocks, and this GPU {blocks}; shorten it."
            )
