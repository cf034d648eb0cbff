"""`minigpt`: what it writes, what it says of it, and what it refuses."""

import re

import numpy as np
import pytest

from minimodel.checkpoint import save_checkpoint
from minimodel.model_config import MiniGPTConfig
from minimodel.numpy_minigpt import NumpyMiniGPT
from minimodel.tokenizer import Tokenizer
from minimodel.writing.command import main
from minimodel.writing.generate import generate

TOKENIZER = Tokenizer.from_words(["I", "walked", "home", "Yesterday", "to", "the", "market", ".", ","])
SIZES = MiniGPTConfig(vocab_size=len(TOKENIZER), block_size=16, n_layer=1, n_head=2, n_embd=16)


@pytest.fixture(scope="module")
def model():
    made = NumpyMiniGPT.initialise(SIZES, seed=4)
    made.parameters *= 10
    return made


@pytest.fixture(scope="module")
def checkpoint(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("17") / "checkpoint.npz"
    save_checkpoint(path, model.arrays, SIZES, list(TOKENIZER.tokens))
    return path


def test_it_writes_the_models_words_after_the_prompt(model, checkpoint, capsys):
    prompt = TOKENIZER.encode("Yesterday I", bos=True)
    written = generate(model, [prompt], 8)[0].tolist()
    full_stop = TOKENIZER.encode(".")[0]
    written = written[: written.index(full_stop) + 1] if full_stop in written else written
    assert main(["Yesterday I", "--tokens", "8", "--checkpoint", str(checkpoint)]) == 0
    shown = capsys.readouterr()
    assert shown.out == TOKENIZER.decode(prompt[1:] + written) + "\n"
    assert re.fullmatch(rf"{len(written)} tokens, \d+ tokens/s, written with numpy\n", shown.err)


@pytest.mark.parametrize("rung", ["numpy", "torch"])
def test_the_same_seed_writes_the_same_text_on_every_rung(checkpoint, capsys, rung):
    asked = ["--temperature", "1", "--top-k", "4", "--seed", "3", "--tokens", "12", "--sentences", "9"]
    assert main([*asked, "--checkpoint", str(checkpoint)]) == 0
    first = capsys.readouterr().out
    assert main([*asked, "--with", rung, "--checkpoint", str(checkpoint)]) == 0
    assert capsys.readouterr().out == first


def test_it_ends_with_the_last_sentence_that_was_asked_for(tmp_path, capsys):
    arrays = NumpyMiniGPT.initialise(SIZES, seed=4).arrays
    arrays["lm_head.bias"][TOKENIZER.encode(".")[0]] = 1000  # it writes full stops alone
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, arrays, SIZES, list(TOKENIZER.tokens))
    assert main(["I walked", "--sentences", "3", "--checkpoint", str(path)]) == 0
    assert capsys.readouterr().out == "I walked...\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Yesterday I wolked"], "the model does not know 'wolked'; write walked"),
        (["<unk>"], "the model does not know '<'; its 12 words"),
        (["I " * 20], "the prompt has 20 words, and the model reads 15"),
        (["--tokens", "40"], "40 new tokens after 1 do not fit"),
        (["--sentences", "0"], "--sentences is 0"),
        (["--temperature", "-2"], "temperature is -2.0"),
        (["--checkpoint", "no.npz"], "no.npz does not exist; train the model"),
    ],
)
def test_what_it_cannot_do_is_one_sentence(checkpoint, capsys, arguments, said):
    assert main(["--checkpoint", str(checkpoint), *arguments]) == 1
    shown = capsys.readouterr()
    assert not shown.out
    assert re.match(f"Error: .*{said}", shown.err)
    assert shown.err.count("\n") == 1


def test_a_checkpoint_without_words_is_refused(model, tmp_path, capsys):
    save_checkpoint(tmp_path / "bare.npz", {name: np.array(array) for name, array in model.arrays.items()}, SIZES)
    assert main(["--checkpoint", str(tmp_path / "bare.npz")]) == 1
    assert "holds no vocabulary" in capsys.readouterr().err
