"""MiniGPT's weights in the order in which the blocks of a cluster read them (`generate.cu`).

Block c of 8 holds head c // 2 of the attention, half of that head's share of the projection, an eighth of each
feed-forward layer, and an eighth of the LM head's words. A matrix is cut into 16-byte pieces; the piece that a thread
reads at a step lies beside those that its neighbours read at that step.
"""

import numpy as np

from minilab import LabError
from minimodel.model_config import MiniGPTConfig

BLOCKS, THREADS = 8, 256
WIDTH, HEADS = 64, 4
POSITIONS = 128  # at most: 16 for each of a block's 8 warps
MOST_WORDS = 2048  # at most: 16 for each half of a warp
SCRATCH_BYTES = 5120  # of `Shared`, rounded up
SHARED_BYTES = 232448  # that a block may have, on compute capability 9.0


def check_fits(config: MiniGPTConfig) -> None:
    """Refuse a model that the kernel does not hold.

    Raises:
        LabError: its width or its number of heads is another than the kernel's, its sequences are longer, or a block's
            share of it is larger than shared memory.
    """
    given = (config.n_embd, config.n_head)
    if given != (WIDTH, HEADS):
        raise LabError(
            f"the model in one kernel has n_embd {WIDTH} and n_head {HEADS}, and this one {given[0]} and {given[1]}; "
            "write with minimodel.writing.generate."
        )
    if config.block_size > POSITIONS:
        raise LabError(
            f"the model in one kernel has at most {POSITIONS} positions, and this one {config.block_size}; write with "
            "minimodel.writing.generate."
        )
    if config.vocab_size > MOST_WORDS:
        raise LabError(
            f"the model in one kernel has at most {MOST_WORDS} words, and this one {config.vocab_size}; "
            "write with minimodel.writing.generate."
        )
    needed = shared_bytes(config)
    if needed > SHARED_BYTES:
        raise LabError(
            f"an eighth of the model takes {needed:,} bytes of shared memory, and a block has {SHARED_BYTES:,}; take "
            "fewer layers or words, or write with minimodel.writing.generate."
        )


def shared_bytes(config: MiniGPTConfig) -> int:
    """Shared memory of a block: its share of the weights, its head's keys and values, the logits, and scratch."""
    cache = 2 * config.n_layer * _rounded(config.block_size, 16) * WIDTH // HEADS
    return 4 * (block_floats(config) + cache + (BLOCKS + 1) * _words(config)) + SCRATCH_BYTES


def block_floats(config: MiniGPTConfig) -> int:
    """How many float32 a block's share of the weights is."""
    head, hidden = WIDTH // HEADS, 4 * WIDTH // BLOCKS
    matrices = 3 * head * WIDTH + WIDTH * head // 2 + 2 * hidden * WIDTH
    biases = 3 * head + WIDTH + hidden + WIDTH
    return config.n_layer * (matrices + biases) + _words(config) * (WIDTH + 1)


def packed(config: MiniGPTConfig, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Pack a model's float32 arrays, named as `MiniGPTConfig.shapes` names them.

    Returns:
        (BLOCKS, block_floats(config)) float32.

    Raises:
        LabError: the model does not fit, as `check_fits` says.
    """
    check_fits(config)
    return np.stack([np.concatenate(list(_share(config, arrays, block))) for block in range(BLOCKS)])


def _share(config: MiniGPTConfig, arrays: dict[str, np.ndarray], block: int):
    head_size, hidden = WIDTH // HEADS, 4 * WIDTH // BLOCKS
    head, half = divmod(block, 2)
    of_head = np.concatenate([part * WIDTH + head * head_size + np.arange(head_size) for part in range(3)])
    of_half = head * head_size + half * head_size // 2 + np.arange(head_size // 2)
    of_hidden = block * hidden + np.arange(hidden)
    for layer in range(config.n_layer):
        name = f"blocks.{layer}"
        qkv, qkv_bias = _with_norm(arrays, f"{name}.ln_1", f"{name}.attention.qkv")
        fc, fc_bias = _with_norm(arrays, f"{name}.ln_2", f"{name}.mlp.fc")
        yield _by_threads(qkv[of_head], 16)
        yield _by_threads(arrays[f"{name}.attention.proj.weight"][:, of_half], 8)
        yield _by_threads(fc[of_hidden], 16)
        yield _by_threads(arrays[f"{name}.mlp.proj.weight"][:, of_hidden], 8)
        yield qkv_bias[of_head]
        yield arrays[f"{name}.attention.proj.bias"]
        yield fc_bias[of_hidden]
        yield arrays[f"{name}.mlp.proj.bias"]
    words = _words(config)
    of_words = slice(block * words, (block + 1) * words)
    head_weights, head_bias = _with_norm(arrays, "ln_f", "lm_head")
    yield _by_threads(_padded(head_weights[of_words], words), 16)
    yield _padded(head_bias[of_words], words)


def _with_norm(arrays: dict[str, np.ndarray], norm: str, linear: str) -> tuple[np.ndarray, np.ndarray]:
    """A linear layer that has the weight and bias of the LayerNorm before it in its own: W diag(w), b + W c."""
    weight, bias = (arrays[f"{linear}.{part}"].astype(np.float64) for part in ("weight", "bias"))
    scaled = weight * arrays[f"{norm}.weight"]
    return scaled.astype(np.float32), (bias + weight @ arrays[f"{norm}.bias"]).astype(np.float32)


def _by_threads(matrix: np.ndarray, lanes: int) -> np.ndarray:
    """(rows, columns), each row read by `lanes` neighbouring threads, which take as many rows as the others do."""
    rows, columns = matrix.shape
    groups = THREADS // lanes
    return matrix.reshape(groups, rows // groups, lanes, columns // lanes).transpose(1, 0, 2, 3).ravel()


def _padded(array: np.ndarray, rows: int) -> np.ndarray:
    return np.concatenate([array, np.zeros((rows - len(array), *array.shape[1:]), array.dtype)])


def _words(config: MiniGPTConfig) -> int:
    """Words of the LM head in a block, the last block's filled up with zeros."""
    return _rounded(-(-config.vocab_size // BLOCKS), 16)


def _rounded(number: int, to: int) -> int:
    return -(-number // to) * to
