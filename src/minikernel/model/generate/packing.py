"""MiniGPT's weights in the order in which the blocks of a cluster read them (`write_text.cu`), and made easier to use.

Block c of 8 holds head c // 2 of the attention, half of what that head adds to the stream, an eighth of each
feed-forward layer, and an eighth of the LM head's words. A matrix is cut into 16-byte pieces; the piece that a thread
reads at a step lies beside those that its neighbours read at that step. All that is added to the stream loses its mean,
which no LayerNorm would see, and so do the embeddings; each of these has the weight and bias of the LayerNorm before
it; scores come out as powers of two; and a head's values have been through the projection.
"""

import numpy as np

from minilab import LabError
from minimodel.model_config import MiniGPTConfig

BLOCKS, THREADS, WARPS = 8, 256, 8
WIDTH, HEADS = 64, 4
HEAD, HIDDEN = WIDTH // HEADS, 4 * WIDTH // BLOCKS  # of a block
POSITIONS = 128  # at most: 16 for each of a block's warps
MOST_WORDS = 2048  # at most: 32 for each warp
HELD_LAYERS, HELD_VECTORS, LAYER_VECTORS = 4, 40, 8  # what registers hold, and a layer has, as write_text.cu says
LAYER_BIASES = 2 * HEAD + WIDTH // 2 + HIDDEN + 2 * WIDTH
SCRATCH_BYTES = 8192  # of `Shared` and the prompt, rounded up
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
    """Shared memory of a block: the weights that registers do not hold, biases, embeddings, keys, values, logits."""
    # Registers hold four layers, and the head too where it fits; the rest of the weights lies in shared memory.
    held, pairs = min(config.n_layer, HELD_LAYERS) * LAYER_VECTORS, _words(config) // (2 * WARPS)
    vectors = config.n_layer * LAYER_VECTORS - held + (0 if held + pairs <= HELD_VECTORS else pairs)
    cache = config.n_layer * _rounded(config.block_size, 16) * (HEAD + WIDTH // 2)
    return 16 * THREADS * vectors + 4 * (_rest(config) + cache + (BLOCKS + 1) * _words(config)) + SCRATCH_BYTES


def block_floats(config: MiniGPTConfig) -> int:
    """How many float32 a block's share of the weights is."""
    vectors = config.n_layer * LAYER_VECTORS + _words(config) // (2 * WARPS)
    return 4 * THREADS * vectors + _rest(config)


def packed(config: MiniGPTConfig, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Pack a model's float32 arrays, named as `MiniGPTConfig.shapes` names them.

    Returns:
        (BLOCKS, block_floats(config)) float32.

    Raises:
        LabError: the model does not fit, as `check_fits` says.
    """
    check_fits(config)
    layers = [_layer(arrays, f"blocks.{i}") for i in range(config.n_layer)]
    head, head_bias = _with_norm(arrays, "ln_f", "lm_head")
    tokens, words = embedding(arrays["token_embedding"]), _words(config)
    blocks = []
    for block in range(BLOCKS):
        matrices, biases = zip(*(_share(layer, block) for layer in layers), strict=True)
        # A block keeps the embeddings of its own words too: the likeliest one's is sent along with it.
        own = slice(block * words, (block + 1) * words)
        parts = [*matrices, _by_warps(_padded(head[own], words)), *biases]
        parts += [_padded(head_bias[own], words), _padded(tokens[own], words)]
        blocks.append(np.concatenate([part.astype(np.float32).ravel() for part in parts]))
    return np.stack(blocks)


def embedding(table: np.ndarray) -> np.ndarray:
    """An embedding (rows, d) without the mean of each row, float32."""
    return _without_mean(table.astype(np.float64), 1).astype(np.float32)


def _layer(arrays: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """A layer's matrices and biases as the kernel uses them, float64; `value` is (HEADS, WIDTH, WIDTH)."""
    qkv, qkv_bias = _with_norm(arrays, f"{name}.ln_1", f"{name}.attention.qkv")
    fc, fc_bias = _with_norm(arrays, f"{name}.ln_2", f"{name}.mlp.fc")
    proj, proj_bias, out, out_bias = (
        _without_mean(arrays[f"{name}.{part}"].astype(np.float64), 0)
        for part in ("attention.proj.weight", "attention.proj.bias", "mlp.proj.weight", "mlp.proj.bias")
    )
    query, key, value = qkv.reshape(3, HEADS, HEAD, WIDTH)
    # Keys need no bias: q (k + b) adds the same q b to all scores of a query, which a softmax does not notice.
    query_bias, _, value_bias = qkv_bias.reshape(3, WIDTH)
    to_powers_of_two = np.log2(np.e) / np.sqrt(HEAD)
    return {
        "query": query * to_powers_of_two,
        "query_bias": query_bias.reshape(HEADS, HEAD) * to_powers_of_two,
        "key": key,
        # The projection is linear, and so is attention's average of values: P_h (sum a v) = sum a (P_h v). So values
        # are made 64 wide, through the projection, and the second matrix product is gone.
        "value": proj.reshape(WIDTH, HEADS, HEAD).transpose(1, 0, 2) @ value,
        # shares add up to one, so that the values' bias comes through as it is
        "proj_bias": proj_bias + proj @ value_bias,
        "fc": fc,
        "fc_bias": fc_bias,
        "out": out,
        "out_bias": out_bias,
    }


def _share(layer: dict[str, np.ndarray], block: int) -> tuple[np.ndarray, np.ndarray]:
    """A block's matrices of a layer, as its threads read them, and its biases."""
    # two blocks a head, each with half of the 64 numbers that the head adds to the stream
    head, half = divmod(block, 2)
    of_half, of_hidden = slice(half * WIDTH // 2, (half + 1) * WIDTH // 2), slice(block * HIDDEN, (block + 1) * HIDDEN)
    qkv = np.concatenate([layer["query"][head], layer["key"][head], layer["value"][head][of_half]])
    qkv_bias = np.concatenate([layer["query_bias"][head], np.zeros(HEAD + WIDTH // 2)])
    # eight lanes for two rows, four columns each
    out = layer["out"][:, of_hidden].reshape(THREADS // 8, 2, 8, 4).transpose(1, 0, 2, 3)
    matrices = np.concatenate([_by_warps(qkv).ravel(), _by_warps(layer["fc"][of_hidden]).ravel(), out.ravel()])
    biases = [qkv_bias, layer["fc_bias"][of_hidden], layer["proj_bias"], layer["out_bias"]]
    return matrices, np.concatenate(biases)


def _by_warps(matrix: np.ndarray) -> np.ndarray:
    """(rows, WIDTH), as many rows for each warp, two columns for each lane and two rows in each of its pieces."""
    return matrix.reshape(WARPS, -1, 2, 32, 2).transpose(1, 0, 3, 2, 4)


def _with_norm(arrays: dict[str, np.ndarray], norm: str, linear: str) -> tuple[np.ndarray, np.ndarray]:
    """A linear layer with the weight and bias of the LayerNorm before it in its own: W diag(w), b + W c; float64."""
    weight, bias = (arrays[f"{linear}.{part}"].astype(np.float64) for part in ("weight", "bias"))
    return weight * arrays[f"{norm}.weight"], bias + weight @ arrays[f"{norm}.bias"].astype(np.float64)


def _without_mean(array: np.ndarray, axis: int) -> np.ndarray:
    return array - array.mean(axis, keepdims=True)


def _padded(array: np.ndarray, rows: int) -> np.ndarray:
    return np.concatenate([array, np.zeros((rows - len(array), *array.shape[1:]), array.dtype)])


def _words(config: MiniGPTConfig) -> int:
    """Words of the LM head in a block, the last block's filled up with zeros."""
    return _rounded(-(-config.vocab_size // BLOCKS), 2 * WARPS)


def _rest(config: MiniGPTConfig) -> int:
    """Floats of a block besides its matrices: biases, and its words' embeddings."""
    return config.n_layer * LAYER_BIASES + _words(config) * (1 + WIDTH)


def _rounded(number: int, to: int) -> int:
    return -(-number // to) * to
