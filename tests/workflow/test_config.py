"""Every refusal of a configuration is one sentence that names the key and says what to write."""

import copy
from pathlib import Path

import pytest
import yaml
from declared_faults import check_says, fault, told
from lab import Lab

from minicompile import CompileConfig
from minilab import LabError
from minilab.config.check import check_config, read_schema
from minilab.config.places import Places, merged

ROOT = Path(__file__).parents[2]
SCHEMA = read_schema(ROOT / "schemas/config.schema.yaml")
NOTHING = "Nothing has run."


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


@pytest.mark.parametrize("section", SCHEMA["required"])
def test_an_incomplete_configuration_is_told_whichever_section_is_missing(config: dict, section: str):
    del config[section]
    with pytest.raises(LabError, match=rf"config.yaml lacks the key '{section}'; add it\."):
        check_config(config, SCHEMA)


@pytest.mark.parametrize(
    ("file", "option", "said"),
    [
        ("training: {sed: 7}", {}, "{file}: training has an unknown key 'sed'; did you mean 'seed'?"),
        ("training: {seed: x}", {"language": "es"}, "{file}: training.seed cannot be 'x'..."),
        ("training: {seed: x}", {"training": {"seed": "y"}}, "the command line: training.seed cannot be 'y'..."),
        ("training: {clip: .nan}", {"training": {"seed": 7}}, "{file}: training.clip is nan..."),
        told("a section is empty", NOTHING, "training:", {}, "{file}: training is empty; write what belongs there..."),
        ("", {"kernels": {"Mine": {}}}, "the command line: kernels is 'Mine', but a kernel's name is..."),
        (
            "kernels: {mine: {source: a.py}}",
            {"swap_kernel": "naive"},
            "{file}: kernels.mine lacks the key...",
        ),
        told(
            "the file of a kernel of yours is not there",
            NOTHING,
            "kernels: {mine: {source: a.py}}",
            {"kernels": {"mine": {"function": "f"}}},
            "{file}: kernels.mine.source is 'a.py', which does not exist...",
        ),
        told(
            "two files do not agree",
            NOTHING,
            "model: {n_head: 5}",
            {},
            "config.yaml and {file}: model.n_embd is 64, which model.n_head = 5 does not divide...",
        ),
        ("model: {n_head: 5, n_embd: 64}", {}, "{file}: model.n_embd is 64, which model.n_head = 5 does not divide..."),
        ("swap_kernel: loop", {}, "{file}: swap_kernel is 'loop', which is written for a CPU..."),
        told(
            "a name is a number to YAML",
            NOTHING,
            "class: 0042",
            {},
            '{file}: class is 34, as YAML reads 0042, where a text is needed; write it in quotes, "0042".',
        ),
        ("before: 12:30", {}, "{file}: before is 750, as YAML reads 12:30, where a text is needed..."),
        ("exercise: 1", {}, '{file}: exercise is 1 where a text is needed; write it in quotes, "1".'),
        told(
            "a name is a date to YAML",
            NOTHING,
            "knob: 2026-01-01",
            {},
            '{file}: knob is 2026-01-01 where a text is needed; write it in quotes, "2026-01-01".',
        ),
        told(
            "a name is a truth value to YAML",
            NOTHING,
            "knob: off",
            {},
            '{file}: knob is False, as YAML reads off, where a text is needed; write it in quotes, "off".',
        ),
        ("devices: {measure: [1080]}", {}, "{file}: devices.measure.0 is 1080 where a text is needed..."),
        ("7: x", {}, "{file}: a key of the configuration is 7 where a name is needed..."),
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
    check_says(str(refusal.value), said.format(file=path))
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


@pytest.mark.parametrize(
    ("written", "options", "said"),
    [
        told(
            "a key is misspelt in a file of yours",
            NOTHING,
            lambda lines: ["kernls: {}"],
            ["--configfile", "mine.yaml"],
            "mine.yaml has an unknown key 'kernls'; did you mean 'kernels'?",
        ),
        told(
            "a key is misspelt on the command line",
            NOTHING,
            lambda lines: [],
            ["--config", "langage=es"],
            "the command line has an unknown key 'langage'; did you mean 'language'?",
        ),
        told(
            "a file that stands for config.yaml lacks a section",
            NOTHING,
            lambda lines: [line for line in lines if not line.startswith("language")],
            ["--configfile", "mine.yaml", "--replace-workflow-config"],
            "mine.yaml lacks the key 'language'; add it.",
        ),
        (
            lambda lines: ["kernels: {}"],
            ["--configfile", "mine.yaml", "--replace-workflow-config"],
            "mine.yaml lacks the key 'autotune'; add it....",
        ),
    ],
)
def test_snakemake_ends_with_the_sentence(lab, written, options: list[str], said: str):
    lines = (lab.root / "config.yaml").read_text().splitlines()
    (lab.root / "mine.yaml").write_text("\n".join(written(lines)))
    check_says(sentence(lab, *options), said)


@fault(
    "the lab is run from another folder, or as a module",
    "the lab runs in its own folder, ..., and this is ...; `cd` there...",
    NOTHING,
)
def test_away_from_its_folder_the_lab_says_where_it_runs(lab, tmp_path: Path, says: str):
    student = Lab(tmp_path / "student")
    student.root.mkdir()
    said = "the lab runs in its own folder, {lab.root}, and this is {student.root}; `cd` there"
    away = sentence(student, "-s", f"{lab.root}/Snakefile")
    assert away.startswith(said.format(lab=lab, student=student))
    check_says(away, says)
    (student.root / "Snakefile").write_text(
        f'configfile: "{lab.root}/config.yaml"\n'
        f'module lab:\n    snakefile: "{lab.root}/Snakefile"\n    config: config\n'
        "use rule * from lab\n"
    )
    assert sentence(student).startswith(said.format(lab=lab, student=student))
