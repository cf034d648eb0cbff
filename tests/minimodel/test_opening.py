"""Checkpoints and ports from anywhere: refused in a sentence before anything of a claimed size is made."""

import json
import struct
import time
from pathlib import Path

import numpy as np
import pytest

import minimodel
from minilab import LabError
from minimodel import MiniGPTConfig, NumpyMiniGPT, save_checkpoint
from minimodel.checkpoint import _digest
from minimodel.opening import load_checkpoint, load_port
from minimodel.port import port, save_port

CONFIG = MiniGPTConfig(vocab_size=5, block_size=4, n_layer=1, n_head=2, n_embd=4)
TOKENS = ["<pad>", "<bos>", "<unk>", "I", "."]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, NumpyMiniGPT.initialise(CONFIG, seed=0).arrays, CONFIG, TOKENS)
    return path


@pytest.fixture
def ported(tmp_path: Path, checkpoint: Path) -> Path:
    path = tmp_path / "minigpt.safetensors"
    save_port(path, port(load_checkpoint(checkpoint))[0])
    return path


def forge(path: Path, **changes) -> None:
    """Change the checkpoint's metadata and sign it anew."""
    with np.load(path) as file:
        arrays = dict(file)
    metadata = json.loads(arrays.pop("metadata").tobytes()) | changes
    metadata["digest"] = _digest(metadata, arrays)
    np.savez(path, metadata=np.frombuffer(json.dumps(metadata).encode(), np.uint8), **arrays)


def refused(load, path: Path, said: str) -> None:
    began = time.thread_time()
    with pytest.raises(LabError, match=said) as refusal:
        load(path)
    assert time.thread_time() - began < 1
    assert str(path) in str(refusal.value)
    assert len(str(refusal.value)) < 600


def test_the_public_names_are_these():
    assert minimodel.load_checkpoint is load_checkpoint
    assert minimodel.load_port is load_port


def test_what_is_right_is_loaded(checkpoint: Path, ported: Path):
    assert load_checkpoint(checkpoint).tokens == TOKENS
    assert load_port(ported).config == CONFIG


@pytest.mark.parametrize("layers", [2, 4000, 10**9, 10**18])
def test_layers_that_a_file_does_not_hold(checkpoint: Path, ported: Path, layers: int):
    sizes = {"vocab_size": 5, "block_size": 4, "n_layer": layers, "n_head": 2, "n_embd": 4}
    forge(checkpoint, config=sizes)
    refused(load_checkpoint, checkpoint, f"its {layers} layers need")
    header(ported, lambda described: described["__metadata__"].update(config=json.dumps(sizes)))
    refused(load_port, ported, f"its {layers} layers need")


@pytest.mark.parametrize(
    "tokens", [[1, 2, 3, 4, 5], ["a", "a", "b", "c", "d"], ["<pad>", "<bos>", "<unk>", "", "."], {}]
)
def test_a_vocabulary_of_no_words(checkpoint: Path, tokens: object):
    forge(checkpoint, tokens=tokens)
    refused(load_checkpoint, checkpoint, "its vocabulary is no list of words, each once")


@pytest.mark.parametrize("config", [None, [], {"a": 1}, {"vocab_size": 5}, {"vocab_size": 10**12, "block_size": 4}])
def test_a_config_that_is_none(checkpoint: Path, config: object):
    forge(checkpoint, config=config)
    refused(load_checkpoint, checkpoint, "is refused as a checkpoint")


def header(path: Path, change) -> None:
    """Change the port's header."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    described = json.loads(data[8 : 8 + length])
    change(described)
    encoded = json.dumps(described).encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + data[8 + length :])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_no_numbers(ported: Path, value: float):
    data = ported.read_bytes()
    ported.write_bytes(data[:-4] + struct.pack("<f", value))
    refused(load_port, ported, "holds NaN or infinite values")


@pytest.mark.parametrize("config", ["[" * 100_000, "null", "{}", "[1]", '{"vocab_size": "5"}'])
def test_sizes_of_a_port_that_are_none(ported: Path, config: str):
    header(ported, lambda described: described["__metadata__"].update(config=config))
    refused(load_port, ported, "is refused as a port")


def test_a_port_in_another_dtype(ported: Path):
    header(ported, lambda described: described["ln_f.bias"].update(dtype="I32"))
    refused(load_port, ported, "has dtype int32 where float32 is needed")
