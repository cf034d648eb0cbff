"""What an artefact is measured with fits the model that it is measured of."""

from pathlib import Path

import pytest
import yaml

from minilab.records import params

ROOT = Path(__file__).parents[3]
DEFAULT = yaml.safe_load((ROOT / "config.yaml").read_text())
SHORT = DEFAULT | {"model": DEFAULT["model"] | {"block_size": 32}}


def shapes_of(config: dict, model: str, device: str) -> list[list[int]]:
    return [case["shape"] for case in params.profile(config, {"model": model, "device": device})["cases"]]


@pytest.mark.parametrize("device", ["cpu-x", "h200"])
def test_no_shape_of_minigpts_profile_has_more_tokens_than_the_model_has_positions(device: str):
    assert max(tokens for _, tokens in shapes_of(SHORT, "minigpt", device)) == 32
    kind = params.kind_of(device)
    assert shapes_of(DEFAULT, "minigpt", device) == [case["shape"] for case in DEFAULT["profile"][kind]["minigpt"]]
    assert shapes_of(SHORT, "tiny_head", device) == [[2, 64]]  # features, which no block_size bounds


def test_of_two_shapes_that_become_alike_the_first_is_profiled():
    config = {**SHORT, "model": {**SHORT["model"], "block_size": 8}}
    first, *_ = params.profile(config, {"model": "minigpt", "device": "cpu-x"})["cases"]
    assert first["modes"] == ["default", "reduce-overhead"]
    assert shapes_of(config, "minigpt", "cpu-x") == [[2, 8], [1, 8], [64, 8]]
    config["profile"] = {**config["profile"], "cpu": {"minigpt": [
        {"shape": [2, 9], "modes": ["default"]}, {"shape": [2, 99], "modes": []}, {"shape": [1, 99], "modes": []},
    ]}}  # fmt: skip
    cases = params.profile(config, {"model": "minigpt", "device": "cpu-x"})["cases"]
    assert cases == [{"shape": [2, 8], "modes": ["default"]}, {"shape": [1, 8], "modes": []}]


def test_the_whole_models_shapes_and_texts_fit_its_positions():
    asked = params.model_contest(SHORT, {"device": "h200"})
    assert asked["shapes"] == [[1, 16], [2, 16], [64, 32], [512, 32]]
    assert asked["timelines"] == [[1, 16], [64, 32]]
    assert asked["generate"]["given"] + asked["generate"]["new_tokens"] == 32
    assert asked["generate"]["given"] == DEFAULT["model_contest"]["generate"]["given"]
    whole = params.model_contest(DEFAULT, {"device": "h200"})
    assert {name: whole[name] for name in DEFAULT["model_contest"]} == DEFAULT["model_contest"]
