"""Every refusal of a configuration is one sentence that names the key and says what to write."""

import copy
from pathlib import Path

import pytest
import yaml
from lab import Lab

from minicompile import CompileConfig
from minilab import LabError
from minilab.config.check import check_config, read_schema
from minilab.config.places import Places, merged

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
        ("training.seed", 42.0, "config.yaml: training.seed is 42.0 where a whole number is needed; write 42."),
        ("training.clip", "1e-5", "training.clip is the text '1e-5' where a number is needed; write 1.0e-05."),
        ("training.warmup", "1e3", "training.warmup is the text '1e3' where a number is needed; write 1000."),
        ("training.warmup", True, "config.yaml: training.warmup cannot be True"),
        ("kernels.mine", {"source": "a{b}.py", "function": "f"}, "without braces in its path"),
        ("models.mine", {"source": "a{b}.py", "factory": "f"}, "without braces in its path"),
    ],
)
def test_impossible_values_are_refused_in_one_sentence(config: dict, path: str, value: object, said: str):
    with pytest.raises(LabError) as refusal:
        check_config(changed(config, path, value), SCHEMA)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_kernel_that_may_not_be_read_is_told(config: dict, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may read everything
    with pytest.raises(LabError, match=r"kernels\.naive\.source is '\S+', which you may not read; write the path"):
        check_config(config, SCHEMA)


def test_missing_key_is_named(config: dict):
    del config["training"]["seed"]
    with pytest.raises(LabError, match=r"config.yaml: training lacks the key 'seed'; add it\."):
        check_config(config, SCHEMA)


@pytest.mark.parametrize("section", SCHEMA["required"])
def test_an_incomplete_configuration_is_told_whichever_section_is_missing(config: dict, section: str):
    del config[section]
    with pytest.raises(LabError, match=rf"config.yaml lacks the key '{section}'; add it\."):
        check_config(config, SCHEMA)


@pytest.mark.parametrize(
    ("file", "option", "said"),
    [
        ("training: {sed: 7}", {}, "{file}: training has an unknown key 'sed'"),
        ("training: {seed: x}", {"language": "es"}, "{file}: training.seed cannot be 'x'"),
        ("training: {seed: x}", {"training": {"seed": "y"}}, "the command line: training.seed cannot be 'y'"),
        ("training: {clip: .nan}", {"training": {"seed": 7}}, "{file}: training.clip is nan"),
        ("training:", {}, "{file}: training is empty; write what belongs there"),
        ("", {"kernels": {"Mine": {}}}, "the command line: kernels is 'Mine', but a kernel's name is"),
        ("kernels: {mine: {source: a.py}}", {"swap_kernel": "naive"}, "{file}: kernels.mine lacks the key 'function'"),
        (
            "kernels: {mine: {source: a.py}}",
            {"kernels": {"mine": {"function": "f"}}},
            "{file}: kernels.mine.source is 'a.py', which does not exist",
        ),
        ("model: {n_head: 5}", {}, "config.yaml and {file}: model.n_embd is 64, which model.n_head = 5 does not"),
        ("model: {n_head: 5, n_embd: 64}", {}, "{file}: model.n_embd is 64, which model.n_head = 5 does not divide"),
        ("swap_kernel: loop", {}, "{file}: swap_kernel is 'loop', which is written for a CPU"),
        (
            "class: 0042",
            {},
            '{file}: class is 34, as YAML reads 0042, where a text is needed; write it in quotes, "0042".',
        ),
        ("before: 12:30", {}, "{file}: before is 750, as YAML reads 12:30, where a text is needed"),
        ("exercise: 1", {}, '{file}: exercise is 1 where a text is needed; write it in quotes, "1".'),
        (
            "knob: 2026-01-01",
            {},
            '{file}: knob is 2026-01-01 where a text is needed; write it in quotes, "2026-01-01".',
        ),
        (
            "knob: off",
            {},
            '{file}: knob is False, as YAML reads off, where a text is needed; write it in quotes, "off".',
        ),
        ("devices: {measure: [1080]}", {}, "{file}: devices.measure.0 is 1080 where a text is needed"),
        ("7: x", {}, "{file}: a key of the configuration is 7 where a name is needed"),
        (
            "models: {mine: {source: a.py, factory: f, kwargs: {until: 2026-01-01}}}",
            {},
            "{file}: models.mine.kwargs.until is 2026-01-01 where a text is needed; write it in quotes",
        ),
    ],
)
def test_a_mistake_is_told_with_the_place_where_it_stands(
    config: dict, tmp_path: Path, file: str, option: dict, said: str
):
    path = tmp_path / "mine.yaml"
    path.write_text(file)
    layers = merged(merged(config, yaml.safe_load(file) or {}), option)
    with pytest.raises(LabError) as refusal:
        check_config(layers, SCHEMA, Places(["config.yaml", path], {"the command line": option}))
    assert str(refusal.value).startswith(said.format(file=path))
    assert "\n" not in str(refusal.value)


def test_a_key_that_several_files_lack_is_told_of_none_of_them(config: dict, tmp_path: Path):
    (tmp_path / "mine.yaml").write_text("language: es")
    (tmp_path / "less.yaml").write_text(
        yaml.safe_dump({key: value for key, value in config.items() if key != "kernels"})
    )
    places = Places([tmp_path / "less.yaml", tmp_path / "mine.yaml"])
    config.pop("kernels")
    with pytest.raises(LabError, match=r"^the configuration lacks the key 'kernels'; add it\."):
        check_config(config, SCHEMA, places)


def sentence(lab, *arguments: str) -> str:
    """The last line of what a refused run says that is not where it was raised."""
    done = lab.snakemake(*arguments, "--dry-run", check=False)
    assert done.returncode
    assert "Traceback" not in done.stdout
    return [line for line in done.stdout.splitlines() if not line.startswith("  File ")][-1]


def test_snakemake_ends_with_the_sentence(lab):
    (lab.root / "typo.yaml").write_text("kernls: {}")
    kept = [line for line in (lab.root / "config.yaml").read_text().splitlines() if not line.startswith("language")]
    (lab.root / "less.yaml").write_text("\n".join(kept))
    typo, less = ["--configfile", "typo.yaml"], ["--configfile", "less.yaml", "--replace-workflow-config"]
    assert sentence(lab, *typo) == "typo.yaml has an unknown key 'kernls'; did you mean 'kernels'?"
    said = sentence(lab, "--config", "langage=es")
    assert said == "the command line has an unknown key 'langage'; did you mean 'language'?"
    assert sentence(lab, *less) == "less.yaml lacks the key 'language'; add it."
    (lab.root / "typo.yaml").write_text("kernels: {}")
    assert sentence(lab, typo[0], typo[1], less[2]).startswith("typo.yaml lacks the key 'autotune'; add it.")
    (lab.root / "config.yaml").write_text("# all of it taken out\n")
    assert sentence(lab).startswith("config.yaml has no settings; write each as KEY: VALUE")


def test_away_from_its_folder_the_lab_says_where_it_runs(lab, tmp_path: Path):
    student = Lab(tmp_path / "student")
    student.root.mkdir()
    said = "the lab runs in its own folder, {lab.root}, and this is {student.root}; `cd` there"
    assert sentence(student, "-s", f"{lab.root}/Snakefile").startswith(said.format(lab=lab, student=student))
    (student.root / "Snakefile").write_text(
        f'configfile: "{lab.root}/config.yaml"\n'
        f'module lab:\n    snakefile: "{lab.root}/Snakefile"\n    config: config\n'
        "use rule * from lab\n"
    )
    assert sentence(student).startswith(said.format(lab=lab, student=student))
