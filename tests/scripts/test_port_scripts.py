"""The port's three scripts, run by hand one after the other as their rules run them."""

import json
from pathlib import Path

import pytest
import yaml
from forks import script
from jsonschema import Draft202012Validator
from safetensors.torch import load_file, save_file

from minilab.files import write_json
from minilab.records.provenance import provenance
from minilab.records.store import write_artefact
from minimodel.checkpoint import save_checkpoint
from minimodel.numpy_minigpt import MiniGPTConfig, NumpyMiniGPT
from minimodel.tokenizer import Tokenizer

ROOT = Path(__file__).parents[2]
VERBS = {"motion": [{"base": base, "past": past} for base, past in [("go", "went"), ("walk", "walked")]]}
WORDS = ["I", "Yesterday", "go", "walk", "walked", "went"]


def refused(result):
    """The one sentence of a run that was refused, and did not crash."""
    assert result.returncode == 1, result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr.strip().splitlines()[-1]


def valid(path, schema):
    document = json.loads(path.read_text())
    Draft202012Validator(yaml.safe_load((ROOT / f"schemas/{schema}.schema.yaml").read_text())).validate(document)
    return document


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder in which the port and its proof have run on a small random model."""
    folder = tmp_path_factory.mktemp("port")
    tokenizer = Tokenizer.from_words(WORDS)
    config = MiniGPTConfig(vocab_size=len(tokenizer), block_size=12, n_layer=2, n_head=2, n_embd=16)
    described = save_checkpoint(folder / "checkpoint.npz", NumpyMiniGPT.initialise(config, seed=5).arrays, config)
    write_artefact(folder / "checkpoint.json", described | {"provenance": provenance([], {})})
    write_json(folder / "vocab.json", {"tokens": list(tokenizer.tokens)})
    (folder / "lexicon.yaml").write_text(yaml.safe_dump({"verbs": VERBS}))
    done = script("port", *port_arguments(folder))
    assert done.returncode == 0, done.stderr
    done = script("equivalence", *equivalence_arguments(folder))
    assert done.returncode == 0, done.stderr
    return folder


def port_arguments(folder):
    return [
        f"input.checkpoint={folder}/checkpoint.npz",
        f"input.description={folder}/checkpoint.json",
        "input.lib=[src/minimodel/port.py]",
        f"output.weights={folder}/minigpt.safetensors",
        f"output.report={folder}/port.json",
    ]


def equivalence_arguments(folder, weights="minigpt.safetensors", report="equivalence.json"):
    return [
        f"input.checkpoint={folder}/checkpoint.npz",
        f"input.weights={folder}/{weights}",
        "input.lib=[src/minimodel/equivalence.py]",
        f"output.report={folder}/{report}",
        "params.equivalence={seed: 42, shape: [2, 16], atol: 1.0e-5, rtol: 1.0e-5}",
    ]


def swap_arguments(folder, weights="minigpt.safetensors", kernel="triton", report="kernel_swap.json"):
    entry = yaml.safe_load((ROOT / "config.yaml").read_text())["kernels"][kernel]
    measuring = {"prompt": "Yesterday I", "kernel": kernel, "entry": entry}
    return [
        f"input.weights={folder}/{weights}",
        f"input.vocabulary={folder}/vocab.json",
        f"input.equivalence={folder}/equivalence.json",
        f"input.lexicon={folder}/lexicon.yaml",
        f"input.sources=[{entry['source']}]",
        f"output.report={folder}/{report}",
        f"params.measuring={json.dumps(measuring)}",
        "wildcards.device=cpu-any",
    ]


def transpose_in_file(folder, name):
    """Write a copy of the weights in which one array is transposed; give its file name."""
    from safetensors import safe_open

    tensors = load_file(folder / "minigpt.safetensors")
    tensors[name] = tensors[name].T.contiguous()
    with safe_open(folder / "minigpt.safetensors", framework="pt") as file:
        save_file(tensors, folder / "transposed.safetensors", metadata=file.metadata())
    return "transposed.safetensors"


def test_equivalence_reports_the_file_it_proved(built):
    report = valid(built / "equivalence.json", "equivalence")
    assert report["weights"]["sha256"] == json.loads((built / "port.json").read_text())["weights_sha256"]
    assert report["contract"]["shape"] == [2, 12]  # the model's positions end before 16


def test_a_kernel_that_the_cpu_cannot_run_is_replaced_and_said_so(built):
    result = script("kernel_swap", *swap_arguments(built, kernel="fused", report="fallback.json"))
    assert result.returncode == 0, result.stderr
    report = valid(built / "fallback.json", "kernel_swap")
    assert report["executed_by"] == "F.softmax"
    assert report["after_to_before"]["max_abs_difference"] == 0
    past = {row["word"] for row in report["cpu"]["top"] if row["past_simple"]}
    assert past == {row["word"] for row in report["cpu"]["top"]} & {"went", "walked"}


def test_weights_that_were_not_proven_are_not_swapped(built):
    weights = transpose_in_file(built, "blocks.0.attention.proj.weight")
    result = script("kernel_swap", *swap_arguments(built, weights, report="unproven.json"))
    assert "transposed.safetensors is not the file" in refused(result)
    assert not (built / "unproven.json").exists()
