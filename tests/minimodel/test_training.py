"""Training: the rows that the model sees, the limit it is held to, and that it repeats itself exactly."""

import math

import numpy as np
import pytest

from minilab import LabError
from minimodel.corpus import TokenStream, read_corpus, sample_corpus
from minimodel.grammar import Grammar, load_grammar
from minimodel.numpy_minigpt import MiniGPTConfig, NumpyMiniGPT
from minimodel.tokenizer import Tokenizer
from minimodel.training import HeldOut, train

# One free choice a sentence, between two words that differ in weight; the rest follows from it.
COIN = Grammar({("Sentence",): {("heads", "up"): 0.75, ("tails", "down"): 0.25}})
TOKENIZER = Tokenizer.from_words(COIN.words)
CONFIG = MiniGPTConfig(vocab_size=len(TOKENIZER), block_size=12, n_layer=1, n_head=2, n_embd=8)
TRAINING = {
    "seed": 42,
    "threads": 1,
    "phases": [{"steps": 60, "batch": 16, "time": 6}, {"steps": 60, "batch": 8, "time": 12}],
    "learning_rate": 0.03,
    "final_learning_rate": 0.0001,
    "warmup": 5,
    "beta_1": 0.9,
    "beta_2": 0.99,
    "weight_decay": 0.01,
    "clip": 1.0,
    "evaluate_every": 50,
    "record_every": 10,
    "report_seconds": 60,
    "max_excess_percent": 30.0,
}


@pytest.fixture(scope="module")
def stream():
    return TokenStream(sample_corpus(COIN, 500, seed=1), TOKENIZER)


@pytest.fixture(scope="module")
def held_out():
    return HeldOut(TokenStream(sample_corpus(COIN, 300, seed=2), TOKENIZER), TOKENIZER, COIN, 12)


@pytest.fixture(scope="module")
def trained(stream, held_out):
    return train(CONFIG, stream, held_out, TRAINING)


def test_the_same_seed_samples_the_same_corpus_and_another_one_does_not():
    grammar = load_grammar()
    assert sample_corpus(grammar, 50, seed=42) == sample_corpus(load_grammar(), 50, seed=42)
    assert sample_corpus(grammar, 50, seed=42) != sample_corpus(grammar, 50, seed=43)


def test_the_last_lines_are_held_out(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("one.\ntwo.\nthree.\n")
    assert read_corpus(path, 1) == (["one.", "two."], ["three."])


@pytest.mark.parametrize("held_out", [0, 3, 4])
def test_a_split_that_leaves_nothing_is_refused(tmp_path, held_out):
    path = tmp_path / "corpus.txt"
    path.write_text("one.\ntwo.\nthree.\n")
    with pytest.raises(LabError, match="held-out sentences"):
        read_corpus(path, held_out)


def test_a_missing_corpus_is_refused(tmp_path):
    with pytest.raises(LabError, match="does not exist"):
        read_corpus(tmp_path / "absent.txt", 1)


def test_a_word_outside_the_vocabulary_is_refused():
    with pytest.raises(LabError, match=r"vocabulary lacks a word of 'heads sideways\.'"):
        TokenStream(["heads up.", "heads sideways."], TOKENIZER)


def test_every_row_starts_with_bos_at_a_sentence_and_predicts_the_next_token(stream):
    places = stream.random_places(np.random.default_rng(0), 200, 7)
    inputs, targets = stream.rows(places)
    assert set(places[:, 0]) <= set(stream.starts)
    assert (inputs[:, 0] == stream.bos).all()
    assert np.array_equal(inputs[:, 1:], targets[:, :-1])
    assert places.max() < len(stream)


def test_held_out_rows_do_not_overlap_and_start_at_sentences(stream):
    places = stream.consecutive_places(7)
    assert set(places[:, 0]) <= set(stream.starts)
    assert len(np.unique(places)) == places.size


def test_a_stream_shorter_than_a_row_is_refused():
    with pytest.raises(LabError, match="do not fill a row of 12"):
        TokenStream(["heads up."], TOKENIZER).consecutive_places(12)


def test_the_limit_is_the_entropy_of_the_only_choice(held_out):
    # Rows of 12 are four whole sentences of three tokens, and only the first token of each is free.
    coin = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert held_out.entropy == pytest.approx(coin / 3, rel=1e-12)
    heads = np.mean(held_out.targets[:, ::3] == TOKENIZER.encode("heads")[0])
    surprisal = -(heads * math.log(0.75) + (1 - heads) * math.log(0.25)) / 3
    assert held_out.surprisal == pytest.approx(surprisal, rel=1e-12)


def test_an_untrained_model_scores_about_as_a_uniform_one(held_out):
    model = NumpyMiniGPT.initialise(CONFIG, seed=0)
    assert held_out.cross_entropy(model) == pytest.approx(math.log(len(TOKENIZER)), rel=0.05)


def test_held_out_cross_entropy_does_not_depend_on_the_batch(held_out, trained):
    whole, single = (held_out.cross_entropy(trained[0], tokens=tokens) for tokens in (held_out.targets.size, 1))
    assert whole == pytest.approx(single, rel=1e-5)


def test_excess_is_counted_from_the_smaller_limit(held_out):
    smaller = min(held_out.entropy, held_out.surprisal)
    assert held_out.excess_percent(1.1 * smaller) == pytest.approx(10)


def test_training_approaches_the_limit_and_never_beats_it(held_out, trained):
    _, record = trained
    assert record["held_out_losses"][0]["loss"] > record["held_out_cross_entropy"]
    assert record["excess_percent"] < TRAINING["max_excess_percent"]
    assert record["held_out_cross_entropy"] > 0.98 * held_out.surprisal
    assert record["tokens"] == 60 * 16 * 6 + 60 * 8 * 12


def test_held_out_text_is_scored_from_the_untrained_model_on_in_rows_as_long_as_those_trained(held_out, trained):
    _, record = trained
    scored = record["held_out_losses"]
    assert [(point["step"], point["time"]) for point in scored] == [(0, 6), (50, 6), (100, 12), (120, 12)]
    untrained = NumpyMiniGPT.initialise(CONFIG, TRAINING["seed"])
    assert scored[0]["loss"] == held_out.cross_entropy(untrained, 6) != held_out.cross_entropy(untrained)


def test_the_loss_that_is_judged_is_of_rows_of_block_size_whatever_was_trained_last(stream, held_out):
    short = {**TRAINING, "phases": [{"steps": 30, "batch": 16, "time": 6}], "max_excess_percent": 1e9}
    model, record = train(CONFIG, stream, held_out, short)
    assert record["held_out_cross_entropy"] == held_out.cross_entropy(model)
    assert record["held_out_losses"][-1]["loss"] == held_out.cross_entropy(model, 6)


def test_the_same_seed_trains_the_same_bytes(stream, held_out, trained):
    again, _ = train(CONFIG, stream, held_out, TRAINING)
    assert again.parameters.tobytes() == trained[0].parameters.tobytes()
    other, _ = train(CONFIG, stream, held_out, {**TRAINING, "seed": 43})
    assert other.parameters.tobytes() != trained[0].parameters.tobytes()


def test_a_model_too_far_from_the_limit_fails_the_training(stream, held_out):
    short = {**TRAINING, "phases": [{"steps": 1, "batch": 1, "time": 6}], "max_excess_percent": 2.0}
    with pytest.raises(LabError, match=r"above the grammar's entropy .*max_excess_percent = 2.0"):
        train(CONFIG, stream, held_out, short)


def test_a_diverging_training_is_stopped(stream, held_out):
    wild = {**TRAINING, "learning_rate": 1e30, "warmup": 0}
    with pytest.raises(LabError, match="no longer finite"), np.errstate(all="ignore"):
        train(CONFIG, stream, held_out, wild)


def test_rows_longer_than_the_block_are_refused(stream, held_out):
    long = {**TRAINING, "phases": [{"steps": 1, "batch": 1, "time": 13}]}
    with pytest.raises(LabError, match="rows of 13 tokens, block_size is 12"):
        train(CONFIG, stream, held_out, long)


def test_held_out_text_is_scored_before_the_first_step_and_in_rows_as_long_as_the_trained_ones(trained):
    scored = [(one["step"], one["time"]) for one in trained[1]["held_out_losses"]]
    assert scored == [(0, 6), (50, 6), (100, 12), (120, 12)]
