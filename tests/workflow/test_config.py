"""Every refusal of a configuration is one sentence that names the key and says what to write."""

import copy
from pathlib import Path

import pytest
import yaml

from minicompile import CompileConfig
from minilab import LabError
from minilab.config.check import check_config, read_schema

ROOT = Path(__file__).parents[2]
SCHEMA = read_schema(ROOT / "schemas/config.schema.yaml")


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> dict:
    monkeypatch.chdir(ROOT)
    return yaml.safe_load((ROOT / "config.yaml").read_text())


def changed(config: dict, path: str, value: object) -> dict:
    config = copy.deepcopy(config)
    *parents, last = path.split(".")
    place = config
    for key in parents:
        place = place[key]
    place[last] = value
    return config


def test_shipped_configuration_is_accepted(config: dict):
    check_config(config, SCHEMA)


def test_the_compile_section_is_a_whole_compile_config(config: dict):
    assert CompileConfig.from_dict(config["compile"]).to_dict() == config["compile"]
    assert config["compile"]["enabled"]


def test_every_key_of_the_schema_is_in_the_shipped_configuration(config: dict):
    def missing(schema: dict, value: dict, where: str = "") -> list[str]:
        absent = []
        for key, inner in schema.get("properties", {}).items():
            if key not in value:
                absent.append(where + key)
            elif isinstance(value[key], dict):
                absent += missing(inner, value[key], f"{where}{key}.")
        return absent

    assert missing(SCHEMA, config) == []


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (
            "training.weigth_decay",
            0.1,
            "config.yaml: training has an unknown key 'weigth_decay'; did you mean 'weight_decay'?",
        ),
        ("trainig", {}, "config.yaml has an unknown key 'trainig'; did you mean 'training'?"),
        ("model.n_layer", "four", "config.yaml: model.n_layer cannot be 'four'"),
        ("model.n_head", 5, "model.n_embd is 64, which model.n_head = 5 does not divide"),
        (
            "swap_kernel",
            "tritom",
            "which is no kernel; write one of naive, smem, warp, fused, triton_textbook, triton.",
        ),
        ("swap_kernel", "loop", "swap_kernel is 'loop', which is written for a CPU; write one of naive, smem"),
        ("references.cpu", ["F.sofmax"], "config.yaml: references.cpu.0 cannot be 'F.sofmax'"),
        ("bench.cuda.launches", 10, "a median of fewer than 100 launches is not shown"),
        (
            "kernels.mine",
            {"source": "nowhere.py", "function": "f"},
            "kernels.mine.source is 'nowhere.py', which does not exist",
        ),
        ("kernels.mine", {"source": "README.md", "function": "f"}, "a kernel's source is a .py file"),
        ("kernels.numpy", {"source": "Snakefile.py", "function": "f"}, "numpy"),
        (
            "roofline.headline.cuda",
            [1, 600],
            "roofline.headline.cuda is [1, 600], which is not among bench.cuda.shapes",
        ),
        (
            "equivalence.shape",
            [2, 4096],
            "equivalence.shape asks for 4096 tokens, but model.block_size is 128",
        ),
        ("devices.measure", "h200", "it is the word auto, or a list of device slugs"),
        ("compile.mode", "turbo", "config.yaml: compile.mode cannot be 'turbo'"),
        ("compile.smoketest_step", 1, "compile has an unknown key 'smoketest_step'; did you mean 'smoketest_steps'?"),
        ("port_training.steps.cpu", 1, "config.yaml: port_training.steps.cpu cannot be 1"),
    ],
)
def test_impossible_values_are_refused_in_one_sentence(config: dict, path: str, value: object, said: str):
    with pytest.raises(LabError) as refusal:
        check_config(changed(config, path, value), SCHEMA)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_missing_key_is_named(config: dict):
    del config["training"]["seed"]
    with pytest.raises(LabError, match=r"config.yaml: training lacks the key 'seed'; add it\."):
        check_config(config, SCHEMA)


def test_snakemake_ends_with_the_sentence(lab):
    lab.edit("config.yaml", lambda text: text.replace("demo_prompt:", "demo_promt:"))
    done = lab.snakemake("--dry-run", check=False)
    assert done.returncode
    assert "config.yaml has an unknown key 'demo_promt'; did you mean 'demo_prompt'?" in done.stdout
