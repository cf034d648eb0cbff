"""Values that YAML can hold and the lab cannot, and sizes that nothing could, are refused before anything runs."""

import copy
import time
from pathlib import Path

import pytest
import yaml

from minilab import ConfigError
from minilab.config.check import check_config, read_schema

ROOT = Path(__file__).parents[2]
SCHEMA = read_schema(ROOT / "schemas/config.schema.yaml")
KERNEL = {"source": "src/minikernel/ops/softmax_triton.py", "function": "softmax"}


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> dict:
    monkeypatch.chdir(ROOT)
    return yaml.safe_load((ROOT / "config.yaml").read_text())


def refused(config: dict, path: str, value: object, said: str) -> None:
    config = copy.deepcopy(config)
    *parents, last = path.split(".")
    place = config
    for key in parents:
        place = place[key]
    place[last] = value
    began = time.thread_time()
    with pytest.raises(ConfigError, match=said) as refusal:
        check_config(config, SCHEMA)
    assert time.thread_time() - began < 5
    assert str(refusal.value).startswith("config.yaml")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    "path", ["training.clip", "training.learning_rate", "proof.time_limit_seconds", "equivalence.atol"]
)
def test_numbers_that_are_none(config: dict, path: str, value: float):
    refused(config, path, value, rf"{path} is (nan|-?inf), which is no number to compute with")


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("training.seed", 1 << 32, "maximum"),
        ("corpus.seed", 10**400, "maximum|too long"),
        ("proof.time_limit_seconds", 1e10, "at most a week's 604800"),
        ("model.n_layer", 10**9, "maximum"),
        ("bench.cuda.shapes", [[1, 1]], r"bench\.cuda\.shapes has \[1, 1\], which is 1 elements"),
        ("contest.shapes", [[1 << 20, 1 << 20]], r"contest\.shapes has .* elements; write a shape of 1,024 to"),
        ("corpus.held_out", 250_000, "corpus.held_out is 250000 of 250000 sentences"),
        ("training.phases", [{"steps": 1, "batch": 1, "time": 129}], "time is 129, and model.block_size is 128"),
        ("demo_prompt", "a" * 1001, "is a text of 1,001 characters"),
        ("demo_prompt", "Yesterday\x00", "holds what cannot be printed"),
        ("kernels", {5: KERNEL, "triton": KERNEL}, "a key of kernels is 5 where a name is needed"),
        ("models", {True: {"source": "a.py", "factory": "f"}}, r"a key of models is true \(as YAML reads on, off"),
        ("kernels.mine", {**KERNEL, "source": "src"}, "source"),
        ("models.mine", {"source": "a\x00.py", "factory": "f"}, "holds what cannot be printed"),
    ],
)
def test_what_cannot_be_meant(config: dict, path: str, value: object, said: str):
    refused(config, path, value, said)


def test_sizes_whose_product_nothing_could_hold(config: dict):
    refused(config, "model", {"n_layer": 1000, "n_head": 4, "n_embd": 65536, "block_size": 65536}, "parameters")


def test_a_folder_as_a_source(config: dict, tmp_path: Path):
    folder = tmp_path / "kernel.py"
    folder.mkdir()
    refused(config, "kernels.mine", {**KERNEL, "source": str(folder)}, "is a folder")


def test_aliases_that_stand_for_billions(config: dict):
    many: list = ["x"]
    for _ in range(12):
        many = [many] * 10
    refused(config, "demo_prompt", many, "stands for more than 100,000 values")
    itself: list = []
    itself.append(itself)
    refused(config, "demo_prompt", itself, "stands for more than 100,000 values")
