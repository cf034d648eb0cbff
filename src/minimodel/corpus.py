"""The corpus: sentences sampled from the grammar, one a line; the last lines are held out.

The model reads a stream of independent sentences: a row starts with <bos> at the start of a sentence and runs
on over the sentences that follow, each ended by its full stop, until it is full. What comes next therefore
depends on the present sentence alone, and the grammar's probabilities hold for every token of a row.
"""

import random
from pathlib import Path

import numpy as np

from minilab import LabError
from minimodel.grammar import FULL_STOP, Grammar
from minimodel.tokenizer import UNK, Tokenizer


def sample_corpus(grammar: Grammar, sentences: int, seed: int) -> list[str]:
    """Draw sentences as lines of text, such as "Yesterday I walked to the market."; same seed, same lines."""
    # Python's own generator, whose sequence for a seed is the same in every version; so is the corpus.
    generator = random.Random(seed)
    return [" ".join(grammar.sample(generator)[:-1]) + FULL_STOP for _ in range(sentences)]


def read_corpus(path: str | Path, held_out: int) -> tuple[list[str], list[str]]:
    """Read a corpus and split it into (training lines, held-out lines): the last `held_out` are held out.

    Raises:
        LabError: the file is missing, or nothing would be left to train on.
    """
    try:
        lines = Path(path).read_text().splitlines()
    except FileNotFoundError:
        raise LabError(f"{path} does not exist; build it with `snakemake {path}`.") from None
    if not 0 < held_out < len(lines):
        raise LabError(
            f"{held_out} held-out sentences cannot be cut from the {len(lines)} of {path}; "
            "set corpus.held_out below corpus.sentences."
        )
    return lines[:-held_out], lines[-held_out:]


class TokenStream:
    """Consecutive sentences as one vector of ids, with rows for the model cut from it.

    Attributes:
        ids: int64 vector of all tokens.
        starts: int64 vector, where each sentence starts in `ids`.

    Raises:
        LabError: a word is not in the vocabulary.
    """

    def __init__(self, lines: list[str], tokenizer: Tokenizer):
        sentences = [tokenizer.encode(line) for line in lines]
        self.ids = np.array([index for sentence in sentences for index in sentence], np.int64)
        self.bos = tokenizer.bos
        lengths = np.array([len(sentence) for sentence in sentences], np.int64)
        self.starts = np.cumsum(lengths) - lengths
        if (self.ids == tokenizer.tokens.index(UNK)).any():
            line = next(line for line in lines if tokenizer.tokens.index(UNK) in tokenizer.encode(line))
            raise LabError(f"the vocabulary lacks a word of {line!r}; build corpus and vocabulary together.")

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets (B, T) of rows whose targets are the tokens at `places` (B, T) of the stream."""
        targets = self.ids[places]
        inputs = np.empty_like(targets)
        # The input at each place is the token before; <bos> stands before the first, wherever in the text that is.
        inputs[:, 0] = self.bos
        inputs[:, 1:] = targets[:, :-1]
        return inputs, targets

    def random_places(self, generator: np.random.Generator, batch: int, time: int) -> np.ndarray:
        """Places (B, T) of `batch` rows that start at sentences drawn at random."""
        # the sentences that have `time` tokens after their start; the last few have not
        eligible = np.searchsorted(self.starts, len(self.ids) - time, side="right")
        return self.starts[generator.integers(eligible, size=batch)][:, None] + np.arange(time)

    def consecutive_places(self, time: int) -> np.ndarray:
        """Places (rows, T) of as many rows as fit, one after the other, each from a sentence's start.

        Raises:
            LabError: the stream is shorter than one row.
        """
        firsts, end = [], 0
        for start in self.starts:
            # the next sentence that begins where no row has been: rows do not overlap, and each token counts once
            if start >= end and start + time <= len(self.ids):
                firsts.append(start)
                end = start + time
        if not firsts:
            raise LabError(f"{len(self.ids)} tokens do not fill a row of {time}; raise the number of sentences.")
        return np.array(firsts)[:, None] + np.arange(time)
