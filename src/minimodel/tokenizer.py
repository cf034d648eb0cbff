"""Word-level tokenizer: one entry for every word that the grammar can produce, and three special tokens."""

import re
from collections.abc import Iterable
from pathlib import Path

from minilab import LabError
from minilab.files import read_json

PAD, BOS, UNK = "<pad>", "<bos>", "<unk>"
SPECIALS = (PAD, BOS, UNK)
# a run of letters or one punctuation mark; white space only parts them
PIECE = re.compile(r"\w+|[^\w\s]")


class Tokenizer:
    """Words to ids and back; the id of a token is its place in `tokens`.

    Args:
        tokens: the vocabulary, starting with <pad>, <bos>, <unk>.

    Raises:
        LabError: the special tokens are not in front, or a token comes twice.
    """

    def __init__(self, tokens: Iterable[str]):
        self.tokens = tuple(tokens)
        if self.tokens[: len(SPECIALS)] != SPECIALS:
            raise LabError(f"the vocabulary must start with {', '.join(SPECIALS)}; build vocab.json again.")
        self._ids = {token: index for index, token in enumerate(self.tokens)}
        if len(self._ids) != len(self.tokens):
            twice = next(token for index, token in enumerate(self.tokens) if self._ids[token] != index)
            raise LabError(f"the vocabulary holds {twice!r} twice; build vocab.json again.")

    @classmethod
    def from_words(cls, words: Iterable[str]) -> "Tokenizer":
        """The vocabulary of these words: special tokens first, then the words sorted."""
        # Sorted, so that the same words give the same ids whatever order the grammar yields them in.
        return cls((*SPECIALS, *sorted(set(words))))

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Read vocab.json.

        Raises:
            LabError: the file is missing, not JSON, or has no list of tokens.
        """
        tokens = read_json(path).get("tokens")
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise LabError(f"{path} has no list of tokens; build it again with `snakemake {path}`.")
        return cls(tokens)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def bos(self) -> int:
        """Id of <bos>, the first token of every row that the model sees."""
        return self._ids[BOS]

    def encode(self, text: str, bos: bool = False) -> list[int]:
        """Ids of the words and punctuation marks of `text`; unknown ones become <unk>.

        A prompt for the model is encoded with `bos=True`, which puts <bos> in front.
        """
        unknown = self._ids[UNK]
        ids = [self._ids.get(piece, unknown) for piece in PIECE.findall(text)]
        return [self.bos, *ids] if bos else ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, special tokens spelled out, no space before a punctuation mark.

        Raises:
            LabError: an id is outside the vocabulary.
        """
        text = ""
        for index in ids:
            if not 0 <= index < len(self.tokens):
                raise LabError(f"id {index} is outside the vocabulary of {len(self.tokens)} tokens.")
            token = self.tokens[index]
            # a single mark stands without a space before it; a special token such as <unk> is set like a word
            text += token if not text or re.fullmatch(r"[^\w\s<]", token) else f" {token}"
        return text
