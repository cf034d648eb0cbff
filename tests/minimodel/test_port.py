"""The port is a renaming: every byte arrives, and what does not fit is refused by name."""

import hashlib
import json

import numpy as np
import pytest
import torch
from random_checkpoint import random_checkpoint
from safetensors.torch import save_file

from minilab import LabError
from minimodel.port import compare_arrays, load_port, port, same_bytes, save_port, torch_name


@pytest.fixture
def checkpoint():
    return random_checkpoint()


def test_every_array_arrives_byte_equal_under_its_torch_name(checkpoint):
    model, table = port(checkpoint)
    state = model.state_dict()
    assert [row["numpy_name"] for row in table] == list(checkpoint.arrays)
    assert {row["torch_name"] for row in table} == set(state)
    for row in table:
        array = checkpoint.arrays[row["numpy_name"]]
        assert row["byte_equal"] is True
        assert row["shape"] == list(array.shape)
        assert state[row["torch_name"]].numpy().tobytes() == array.tobytes()


def test_only_the_embeddings_are_renamed(checkpoint):
    renamed = {name: torch_name(name) for name in checkpoint.arrays if torch_name(name) != name}
    assert renamed == {
        "token_embedding": "token_embedding.weight",
        "position_embedding": "position_embedding.weight",
    }


def test_the_model_does_not_share_memory_with_the_checkpoint(checkpoint):
    model, _ = port(checkpoint)
    before = checkpoint.arrays["lm_head.bias"].copy()
    with torch.no_grad():
        model.lm_head.bias.add_(1)
    assert np.array_equal(checkpoint.arrays["lm_head.bias"], before)


def test_a_missing_array_is_named(checkpoint):
    del checkpoint.arrays["blocks.1.ln_2.bias"]
    with pytest.raises(LabError, match=r"lacks blocks\.1\.ln_2\.bias"):
        port(checkpoint)


def test_an_extra_array_is_named(checkpoint):
    checkpoint.arrays["blocks.7.ln_2.bias"] = np.zeros(16, np.float32)
    with pytest.raises(LabError, match=r"adds blocks\.7\.ln_2\.bias"):
        port(checkpoint)


@pytest.mark.parametrize("change", [np.transpose, lambda array: array[:-1], np.float64])
def test_a_misshapen_or_recast_array_is_named(checkpoint, change):
    name = "blocks.0.mlp.fc.weight"
    checkpoint.arrays[name] = change(checkpoint.arrays[name])
    with pytest.raises(LabError, match=r"blocks\.0\.mlp\.fc\.weight .* needs torch\.float32 \(64, 16\)"):
        port(checkpoint)


def test_the_table_sees_a_single_flipped_sign_of_zero(checkpoint):
    checkpoint.arrays["ln_f.bias"][3] = 0.0
    model, _ = port(checkpoint)
    with torch.no_grad():
        model.ln_f.bias[3] = -0.0
    unequal = [row["numpy_name"] for row in compare_arrays(model, checkpoint.arrays) if not row["byte_equal"]]
    assert unequal == ["ln_f.bias"]


def test_same_bytes_needs_the_same_dtype_and_shape():
    zeros = np.zeros(4, np.float32)
    assert same_bytes(zeros, zeros.copy())
    assert not same_bytes(zeros, np.zeros(4, np.int32))
    assert not same_bytes(zeros, zeros.reshape(2, 2))


def test_a_saved_port_comes_back_whole(checkpoint, tmp_path):
    model, _ = port(checkpoint)
    save_port(tmp_path / "minigpt.safetensors", model)
    loaded = load_port(tmp_path / "minigpt.safetensors")
    assert loaded.config == checkpoint.config
    assert not loaded.training
    assert all(row["byte_equal"] for row in compare_arrays(loaded, checkpoint.arrays))


def test_the_same_model_gives_the_same_file(checkpoint, tmp_path):
    digests = set()
    for name in ("a", "b", "c"):
        save_port(tmp_path / name, port(checkpoint)[0])
        digests.add(hashlib.sha256((tmp_path / name).read_bytes()).hexdigest())
    assert len(digests) == 1


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(LabError, match=r"absent\.safetensors does not exist"):
        load_port(tmp_path / "absent.safetensors")


def test_a_truncated_file_is_refused(checkpoint, tmp_path):
    path = tmp_path / "minigpt.safetensors"
    save_port(path, port(checkpoint)[0])
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(LabError, match="not a whole safetensors file"):
        load_port(path)


@pytest.mark.parametrize("metadata", [None, {"config": "{"}, {"config": json.dumps({"width": 3})}])
def test_a_file_without_the_model_sizes_is_refused(checkpoint, tmp_path, metadata):
    save_file(port(checkpoint)[0].state_dict(), tmp_path / "bare.safetensors", metadata=metadata)
    with pytest.raises(LabError, match="no model sizes"):
        load_port(tmp_path / "bare.safetensors")
