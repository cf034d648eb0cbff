"""The command `minigpt`: the trained model writes on after a prompt, a word at a time.

It is the lab's own where that is built, in the current folder, and else the one that the package brings along.
"""

import argparse
import difflib
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from minilab import LabError
from minimodel.tokenizer import PIECE, UNK, Tokenizer
from minimodel.writing.sampling import Sampling
from minimodel.writing.shipped import BUILT, SHIPPED, at_hand

if TYPE_CHECKING:
    from minimodel.numpy_minigpt import NumpyMiniGPT
    from minimodel.torch_minigpt import GrammarMiniGPT

RUNGS = ("numpy", "torch")
SENTENCE_ENDS = ".?!"
SAMPLES = 5  # words that are named of a vocabulary


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    try:
        return _main(sys.argv[1:] if arguments is None else arguments)
    except LabError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _main(arguments: list[str]) -> int:
    if arguments[:1] == ["train"]:  # `minigpt -- train` writes on after that word
        from minimodel.train_command import main as train

        return train(arguments[1:])
    parser = argparse.ArgumentParser(
        prog="minigpt",
        description=(__doc__ or "").split(": ", 1)[1].split("\n")[0],
        epilog="`minigpt train` trains the model instead, and `minigpt train --help` says how; as a prompt: -- train",
    )
    parser.add_argument("prompt", nargs="?", default="", help='e.g. "Yesterday I"; none begins a sentence')
    parser.add_argument("--sentences", type=int, default=1, metavar="N", help="to end after (default: 1)")
    parser.add_argument("--tokens", type=int, metavar="N", help="at most (default: what the model has room for)")
    parser.add_argument("--temperature", type=float, default=0.0, metavar="T", help="0, the default, is greedy")
    parser.add_argument("--top-k", type=int, metavar="K", help="draw from the K likeliest words only")
    parser.add_argument("--seed", type=int, default=0, help="of the draws; the same seed writes the same text")
    parser.add_argument("--with", choices=RUNGS, default=RUNGS[0], dest="rung", help="what computes the model")
    parser.add_argument(
        "--checkpoint", type=Path, metavar="FILE", help=f"default: {BUILT} once it is built, else the package's own"
    )
    return _run(parser.parse_args(arguments))


def _run(given: argparse.Namespace) -> int:
    # Imported here, so that `--help` and a wrong option cost no NumPy model.
    from minimodel.opening import load_checkpoint
    from minimodel.writing.generate import stream

    sampling = Sampling(given.temperature, given.top_k, given.seed)
    if given.sentences < 1:
        raise LabError(f"--sentences is {given.sentences}; ask for at least 1.")
    path = given.checkpoint or at_hand()
    if not path.exists():
        raise LabError(
            f"{path} does not exist; train the model with `snakemake --cores 4 {BUILT}`, or leave --checkpoint out."
        )
    checkpoint = load_checkpoint(path)
    if checkpoint.tokens is None:
        raise LabError(f"{path} holds no vocabulary, and its ids are no words; save it with `tokens`.")
    tokenizer = Tokenizer(checkpoint.tokens)
    prompt = _encoded(tokenizer, given.prompt)
    room = checkpoint.config.block_size - len(prompt)
    if room < 1:
        raise LabError(f"the prompt has {len(prompt) - 1} words, and the model reads {room + len(prompt) - 1}; cut it.")
    asked = room if given.tokens is None else given.tokens
    tokens = stream(_model(checkpoint, given.rung), [prompt], asked, sampling)
    began = time.perf_counter()
    # without <bos>, which nobody wrote
    written = _shown(tokenizer, prompt[1:], (int(newest[0]) for newest in tokens), given.sentences)
    seconds = time.perf_counter() - began
    by = f" by the package's own checkpoint ({SHIPPED.with_suffix('.json')} says how it was trained)"
    said = f"{written} tokens, {written / seconds:.0f} tokens/s, written with {given.rung}"
    print(said + by * (path == SHIPPED), file=sys.stderr)
    return 0


def _model(checkpoint, rung: str) -> "NumpyMiniGPT | GrammarMiniGPT":
    if rung == "numpy":
        from minimodel.numpy_minigpt import NumpyMiniGPT

        return NumpyMiniGPT.from_checkpoint(checkpoint)
    from minimodel.port import port

    return port(checkpoint)[0]


def _encoded(tokenizer: Tokenizer, text: str) -> list[int]:
    """The prompt's ids, <bos> in front.

    Raises:
        LabError: a word is none of the model's.
    """
    for piece in PIECE.findall(text):
        # <unk> is in the vocabulary, and was never seen in training: it would write nonsense
        if piece == UNK or piece not in tokenizer.tokens:
            near = difflib.get_close_matches(piece, tokenizer.tokens, 3)
            known = [word for word in tokenizer.tokens if word.isalpha()]
            some = ", ".join(known[:: max(1, len(known) // SAMPLES)][:SAMPLES])
            hint = f"write {' or '.join(near)}" if near else f"it knows {len(known)} words, such as {some}"
            raise LabError(f"the model does not know {piece[:60]!r}; {hint}.")
    return tokenizer.encode(text, bos=True)


def _shown(tokenizer: Tokenizer, prompt: list[int], ids: Iterable[int], sentences: int) -> int:
    """Print the text as it grows, up to the end of the last sentence; returns how many tokens were written."""
    text, shown = list(prompt), ""
    written = 0
    for piece in _pieces(tokenizer, text, ids):
        written += 1
        # The text is decoded whole at each step, since a punctuation mark
        # takes the space before it away; what is new of it is printed.
        print(piece[len(shown) :], end="", flush=True)
        shown = piece
        if shown[-1] in SENTENCE_ENDS:
            sentences -= 1
        if not sentences:
            break
    print()
    return written


def _pieces(tokenizer: Tokenizer, text: list[int], ids: Iterable[int]) -> Iterator[str]:
    for index in ids:
        text.append(index)
        yield tokenizer.decode(text)
