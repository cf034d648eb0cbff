"""The checkpoint: what is saved comes back, byte for byte, and every fault is refused in a sentence."""

import hashlib
import io
import json
import time

import numpy as np
import pytest

from minilab import LabError
from minimodel.checkpoint import load_checkpoint, save_checkpoint
from minimodel.numpy_minigpt import MiniGPTConfig, NumpyMiniGPT

CONFIG = MiniGPTConfig(vocab_size=5, block_size=4, n_layer=1, n_head=2, n_embd=4)
TOKENS = ["<pad>", "<bos>", "<unk>", "I", "."]


@pytest.fixture
def arrays():
    return NumpyMiniGPT.initialise(CONFIG, seed=0).arrays


@pytest.fixture
def path(tmp_path, arrays):
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, arrays, CONFIG, TOKENS)
    return path


def contents(path):
    with np.load(path) as file:
        entries = dict(file)
    return json.loads(entries.pop("metadata").tobytes()), entries


def rewrite(path, metadata, entries):
    np.savez(path, metadata=np.frombuffer(json.dumps(metadata).encode(), np.uint8), **entries)


def refused(path, message):
    with pytest.raises(LabError, match=message) as refusal:
        load_checkpoint(path)
    sentence = str(refusal.value)
    assert str(path) in sentence
    assert "\n" not in sentence
    assert sentence.count(". ") == 0


def test_what_is_saved_comes_back(path, arrays):
    checkpoint = load_checkpoint(path)
    assert checkpoint.config == CONFIG
    assert checkpoint.tokens == TOKENS
    assert list(checkpoint.arrays) == list(CONFIG.shapes)
    for name, array in arrays.items():
        assert checkpoint.arrays[name].tobytes() == array.tobytes()
    ids = np.array([[1, 3]])
    original = NumpyMiniGPT(CONFIG, arrays).forward(ids)
    assert np.array_equal(NumpyMiniGPT.from_checkpoint(checkpoint).forward(ids), original)


def test_the_same_arrays_make_the_same_bytes_whenever_and_in_whatever_order(tmp_path, path, arrays, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 2e9)
    again = tmp_path / "again.npz"
    save_checkpoint(again, dict(reversed(arrays.items())), CONFIG, TOKENS)
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(path.read_bytes()).digest()


def test_the_shape_is_read_off_the_arrays_when_no_config_is_given(tmp_path, arrays):
    save_checkpoint(tmp_path / "plain.npz", arrays)
    checkpoint = load_checkpoint(tmp_path / "plain.npz")
    assert checkpoint.config == MiniGPTConfig(vocab_size=5, block_size=4, n_layer=1, n_embd=4)
    assert checkpoint.tokens is None


def test_no_two_checkpoints_share_a_digest(path, arrays, tmp_path):
    arrays["ln_f.bias"][0] += 1
    save_checkpoint(tmp_path / "other.npz", arrays, CONFIG, TOKENS)
    assert contents(path)[0]["digest"] != contents(tmp_path / "other.npz")[0]["digest"]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_truncated_file_is_refused(path, share):
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    refused(path, "truncated or damaged")


def test_a_flipped_bit_is_refused(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    refused(path, "refused as a checkpoint")


def test_a_missing_file_is_refused(tmp_path):
    refused(tmp_path / "absent.npz", "does not exist")


def test_another_format_version_is_refused(path):
    metadata, entries = contents(path)
    rewrite(path, {**metadata, "format_version": 2}, entries)
    refused(path, "format version is 2 where 1 is needed")


def test_a_missing_array_is_refused(path):
    metadata, entries = contents(path)
    del entries["ln_f.bias"]
    rewrite(path, metadata, entries)
    refused(path, "'ln_f.bias' is missing")


def test_an_extra_array_is_refused(path):
    metadata, entries = contents(path)
    rewrite(path, metadata, {**entries, "ln_g.bias": np.zeros(4, np.float32)})
    refused(path, "'ln_g.bias' does not belong")


def test_a_misshapen_array_is_refused(path):
    metadata, entries = contents(path)
    entries["blocks.0.mlp.fc.weight"] = entries["blocks.0.mlp.fc.weight"].T
    rewrite(path, metadata, entries)
    refused(path, r"'blocks.0.mlp.fc.weight' has shape \(4, 16\) where \(16, 4\) is needed")


def test_another_dtype_is_refused(path):
    metadata, entries = contents(path)
    entries["ln_f.bias"] = entries["ln_f.bias"].astype(np.float64)
    rewrite(path, metadata, entries)
    refused(path, "dtype float64 where float32 is needed")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused(path, value):
    metadata, entries = contents(path)
    entries["lm_head.weight"][1, 2] = value
    rewrite(path, metadata, entries)
    refused(path, "'lm_head.weight' holds NaN or infinite values")


def test_changed_weights_are_refused_by_their_digest(path):
    metadata, entries = contents(path)
    entries["lm_head.weight"][1, 2] += 1
    rewrite(path, metadata, entries)
    refused(path, "digest differs")


def test_changed_tokens_are_refused_by_the_digest(path):
    metadata, entries = contents(path)
    rewrite(path, {**metadata, "tokens": [*TOKENS[:3], "you", "."]}, entries)
    refused(path, "digest differs")


def test_pickled_objects_are_refused_without_being_loaded(path):
    metadata, entries = contents(path)
    entries["ln_f.bias"] = np.array([{"not": "a number"}] * 4, dtype=object)
    rewrite(path, metadata, entries)
    refused(path, "pickled objects")


def test_a_bare_pickle_is_refused(path):
    import pickle

    path.write_bytes(pickle.dumps({"weights": 1}))
    refused(path, "pickled objects")


def test_an_npy_file_is_refused(path):
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    path.write_bytes(buffer.getvalue())
    refused(path, "not an .npz archive")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config": {"vocab_size": 5}}, "is not the model's"),
        ({"config": {"vocab_size": 5, "block_size": 4, "n_layer": 1, "n_head": 3, "n_embd": 4}}, "not divisible"),
        ({"tokens": TOKENS[:4]}, "the 5 tokens that the model has"),
        ({"comment": "hello"}, "unknown entry 'comment'"),
    ],
)
def test_faulty_metadata_is_refused(path, change, message):
    metadata, entries = contents(path)
    rewrite(path, {**metadata, **change}, entries)
    refused(path, message)


def test_a_file_without_metadata_is_refused(path):
    _, entries = contents(path)
    np.savez(path, **entries)
    refused(path, "no readable metadata")


def test_an_invalid_model_is_not_saved(tmp_path, arrays):
    arrays["ln_f.bias"][0] = np.nan
    with pytest.raises(LabError, match="NaN"):
        save_checkpoint(tmp_path / "bad.npz", arrays, CONFIG)
    assert not list(tmp_path.iterdir())
