"""Text from a model: `stream` gives each token when it is there, `generate` all of them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from minilab import LabError
from minimodel.numpy_minigpt import NumpyMiniGPT
from minimodel.writing.numpy_writer import NumpyWriter
from minimodel.writing.sampling import Sampling

if TYPE_CHECKING:
    from minimodel.torch_minigpt import GrammarMiniGPT

GREEDY = Sampling()


class Writer(Protocol):
    """A model that is fed a token at a time; `name` is the rung of the ladder that it is."""

    name: str

    def step(self, ids: np.ndarray, position: int) -> np.ndarray: ...


def generate(
    model: "NumpyMiniGPT | GrammarMiniGPT", ids: Any, new_tokens: int, sampling: Sampling = GREEDY
) -> np.ndarray:
    """Write on: the tokens that follow each sequence.

    Args:
        model: in NumPy, or in PyTorch on any device.
        ids: (B, T) integers, B prompts of T tokens each.
        new_tokens: how many to write after them; with the prompt at most block_size.
        sampling: how each is chosen; the likeliest by default.

    Returns:
        (B, new_tokens) int64.

    Raises:
        LabError: `ids` is no such array or leaves the vocabulary, or there is no room for as many tokens.
    """
    written = list(stream(model, ids, new_tokens, sampling))
    return np.stack(written, 1) if written else np.zeros((len(ids), 0), np.int64)


def stream(
    model: "NumpyMiniGPT | GrammarMiniGPT", ids: Any, new_tokens: int, sampling: Sampling = GREEDY
) -> Iterator[np.ndarray]:
    """As `generate`, each token (B,) of all sequences as soon as it is chosen."""
    # Checked here and not in the generator below, which runs nothing before its first token is asked for.
    prompt = checked_prompt(model, ids, new_tokens)
    return _written(writer_of(model, len(prompt)), prompt, new_tokens, sampling)


def _written(writer: Writer, prompt: np.ndarray, new_tokens: int, sampling: Sampling) -> Iterator[np.ndarray]:
    last, end = prompt.shape[1] - 1, prompt.shape[1] + new_tokens
    newest = prompt[:, 0]
    for position in range(end - 1):
        logits = writer.step(newest, position)
        # The prompt goes through token by token, as what is written does: only then is the choice the model's.
        newest = prompt[:, position + 1] if position < last else sampling.choose(logits, position + 1)
        if position >= last:
            yield newest


def writer_of(model: "NumpyMiniGPT | GrammarMiniGPT", sequences: int) -> Writer:
    """The writer of a model; torch is imported only for a model that is torch's."""
    if isinstance(model, NumpyMiniGPT):
        return NumpyWriter(model, sequences)
    from minimodel.writing.torch_writer import TorchWriter

    return TorchWriter(model, sequences)


def checked_prompt(model: "NumpyMiniGPT | GrammarMiniGPT", ids: Any, new_tokens: int) -> np.ndarray:
    """The ids as an array of int64, once they and what is to follow them fit."""
    prompt, size = np.asarray(ids.cpu() if hasattr(ids, "cpu") else ids), model.config
    if prompt.ndim != 2 or prompt.dtype.kind not in "iu" or not prompt.size:
        raise LabError(f"the prompt has shape {prompt.shape} and dtype {prompt.dtype}; give integers of shape (B, T).")
    if prompt.min() < 0 or prompt.max() >= size.vocab_size:
        raise LabError(
            f"the prompt's ids reach from {prompt.min()} to {prompt.max()}, the vocabulary from 0 to "
            f"{size.vocab_size - 1}; encode it again."
        )
    room = size.block_size - prompt.shape[1]
    if type(new_tokens) is not int or not 0 <= new_tokens <= room:
        raise LabError(
            f"{new_tokens!r} new tokens after {prompt.shape[1]} do not fit, as the model's positions end at "
            f"{size.block_size}; ask for 0 to {max(room, 0)}."
        )
    return prompt.astype(np.int64)
