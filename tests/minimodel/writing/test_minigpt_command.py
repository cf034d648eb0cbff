"""`minigpt`: what it writes and by which checkpoint, what it says of it, and what it refuses."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from minilab import LabError
from minilab.files import read_object, write_json
from minilab.records.store import is_edited
from minimodel.checkpoint import save_checkpoint
from minimodel.model_config import MiniGPTConfig
from minimodel.numpy_minigpt import NumpyMiniGPT
from minimodel.opening import load_checkpoint
from minimodel.tokenizer import Tokenizer
from minimodel.writing.command import main
from minimodel.writing.generate import generate
from minimodel.writing.sampling import Sampling
from minimodel.writing.shipped import BUILT, SHIPPED, ship

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


def test_it_writes_by_the_packages_checkpoint_until_the_lab_has_its_own(checkpoint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["Yesterday I", "--tokens", "1"]) == 0
    shipped = capsys.readouterr()
    assert "by the package's own checkpoint" in shipped.err
    BUILT.parent.mkdir(parents=True)
    shutil.copyfile(checkpoint, BUILT)
    assert main(["Yesterday I", "--tokens", "1"]) == 0
    own = capsys.readouterr()
    assert own.err.endswith("written with numpy\n")
    assert main(["Yesterday I", "--tokens", "1", "--checkpoint", str(checkpoint)]) == 0
    assert capsys.readouterr().out == own.out != shipped.out


def test_what_lies_beside_the_packages_checkpoint_is_true_of_it():
    held, described = load_checkpoint(SHIPPED), read_object(SHIPPED.with_suffix(".json"))
    assert described["digest"] == held.metadata["digest"]
    assert described["parameters"] == sum(array.size for array in held.arrays.values())
    assert not is_edited(described)
    config = yaml.safe_load(Path(__file__).parents[3].joinpath("config.yaml").read_text())
    assert described["provenance"]["params"] == {name: config[name] for name in ("model", "training", "corpus")}
    assert described["again"] == [f"snakemake --cores 4 {BUILT}", f"python -m {ship.__module__}"]


@pytest.mark.parametrize(
    ("prompt", "form"), [("Yesterday she", "past"), ("Every day she", "third"), ("Tomorrow she will", "base")]
)
def test_the_packages_checkpoint_puts_a_verb_into_the_tense_that_the_time_asks_for(prompt, form):
    verbs = yaml.safe_load(SHIPPED.with_name("lexicon.yaml").read_text())["verbs"]
    checkpoint = load_checkpoint(SHIPPED)
    tokenizer = Tokenizer(checkpoint.tokens)
    prompts = [tokenizer.encode(prompt, bos=True)] * 30  # each draws among the five likeliest words
    written = generate(NumpyMiniGPT.from_checkpoint(checkpoint), prompts, 1, Sampling(temperature=1.0, top_k=5))
    words = {tokenizer.tokens[word] for word in written[:, 0]}
    assert len(words) > 1
    assert words <= {verb[form] for frame in verbs.values() for verb in frame}


def test_a_trained_checkpoint_is_shipped_with_how_it_was_trained(checkpoint, model, tmp_path):
    described, trained = read_object(SHIPPED.with_suffix(".json")), tmp_path / "17" / "checkpoint.npz"
    trained.parent.mkdir()
    shutil.copyfile(checkpoint, trained)
    with pytest.raises(LabError, match=r"training\.json"):
        ship(trained, tmp_path / "shipped.npz")
    assert not list(tmp_path.glob("*.*"))
    write_json(trained.with_name("training.json"), {**described, "losses": [1.0]})
    ship(trained, tmp_path / "shipped.npz")
    assert (tmp_path / "shipped.npz").read_bytes() == checkpoint.read_bytes()
    made = read_object(tmp_path / "shipped.json")
    assert made["digest"] == load_checkpoint(checkpoint).metadata["digest"] != described["digest"]
    assert made["provenance"]["params"] == described["provenance"]["params"]
    assert made.keys() == described.keys()
    save_checkpoint(trained, model.arrays, SIZES)
    with pytest.raises(LabError, match="holds no vocabulary"):
        ship(trained, tmp_path / "other.npz")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Yesterday I wolked"], "the model does not know 'wolked'; write walked"),
        (["<unk>"], "the model does not know '<'; it knows 7 words, such as I, "),
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
