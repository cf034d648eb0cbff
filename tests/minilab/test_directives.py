"""What stands in rules' directives follows from the configuration, the plan and the wildcards."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from minilab import LabError, directives
from minilab.plan import SIMULATED, Plan

ROOT = Path(__file__).parents[2]
LABS_OWN = yaml.safe_load((ROOT / "config.yaml").read_text())["kernels"]["fused"]
CONFIG = {
    "language": "en",
    "kernels": {
        "fused": LABS_OWN,
        "mine": {"source": "mine.py", "function": "softmax"},
    },
    "models": {"mlp": {"source": "mlp.py", "factory": "make"}},
    "capture": {"models": ["minigpt"], "simulated": True},
    "swap_kernel": "mine",
    "compile": {"time_limit_seconds": 100},
    "proof": {"time_limit_seconds": 60},
    "bench": {"cpu": {"shapes": [[1, 2]]}, "cuda": {"shapes": [[3, 4]]}},
}
ON_CPU = {"device": "cpu-amd-epyc", "model": "mlp"}


def matches(pattern: str, name: str) -> bool:
    return re.fullmatch(pattern, name) is not None


def test_a_pattern_matches_the_names_alone_dots_and_all():
    assert matches(directives.any_of(["F.softmax", "fused"]), "F.softmax")
    assert not matches(directives.any_of(["F.softmax", "fused"]), "F-softmax")
    assert not matches(directives.any_of([]), "")


@pytest.mark.parametrize(("path", "matched"), [("h200/bench", False), ("h200-nvl/bench", True), ("a100/bench", True)])
def test_a_pattern_of_other_devices_leaves_out_whole_slugs_alone(path: str, matched: bool):
    assert matches(f"{directives.none_of(['h200', 'cpu-amd'])}/bench", path) is matched


@pytest.mark.parametrize(
    ("device", "gpus", "environment", "kind"),
    [("cpu-amd-epyc", 0, "cpu", "cpu"), ("h200", 1, "gpu", "cuda"), (SIMULATED, 0, "cpu", "simulated")],
)
def test_a_simulated_gpu_needs_none(device: str, gpus: int, environment: str, kind: str):
    assert directives.gpus({"device": device}) == gpus
    assert directives.environment(device) == f"../envs/{environment}.yaml"
    assert directives.kind_of_target(device) == kind


def test_only_a_users_kernel_is_limited_and_tried_at_the_shapes_it_will_be_timed_at():
    assert directives.time_limit(CONFIG, "proof", "mine") == 60
    assert directives.users_shapes(CONFIG, "h200", "mine") == [[3, 4]]
    for trusted in ("fused", "F.softmax"):
        assert directives.time_limit(CONFIG, "proof", trusted) is None
        assert directives.users_shapes(CONFIG, "h200", trusted) == []


def test_only_a_users_model_is_limited_by_as_much_as_it_is_compiled():
    assert directives.limits_of_model(CONFIG, 3, {**ON_CPU, "model": "minigpt"}) == {}
    limits = directives.limits_of_model(CONFIG, 3, ON_CPU)
    assert (limits["seconds"], limits["knob"]) == (300, "compile.time_limit_seconds")
    assert limits["subject"] == "model mlp (mlp.py: make) on cpu-amd-epyc"
    assert directives.limits_of_model({**CONFIG, "compile": {"time_limit_seconds": None}}, 3, ON_CPU)["seconds"] is None


def test_only_a_users_kernel_that_is_swapped_in_is_limited():
    assert directives.limits_of_swapped(CONFIG, ON_CPU)["seconds"] == 60
    assert directives.limits_of_swapped({**CONFIG, "swap_kernel": "fused"}, ON_CPU) == {}


def test_what_a_key_names_is_a_path_or_fills_the_pattern_and_nothing_is_refused():
    def given(value: str) -> str:
        return directives.named({"before": value}, "before", "Name it.", "results/25/{}/capture.json")({})

    assert given("minigpt/h200") == "results/25/minigpt/h200/capture.json"
    assert given("elsewhere/capture.json") == "elsewhere/capture.json"
    with pytest.raises(LabError, match=r"^Name it\.$"):
        given("")


def test_a_what_if_has_a_page_for_each_device_that_its_knob_acts_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("minilab.plan.has_cpp_compiler", lambda: True)
    plan = Plan(CONFIG, ["cpu-amd-epyc"])
    anywhere = SimpleNamespace(name="fusion", targets=("cpu", "cuda", "simulated"))
    of_a_gpu = SimpleNamespace(name="graphs", targets=("cuda",))
    assert directives.what_if_pages(plan, "minigpt", anywhere, "Name it.") == [
        f"results/25/minigpt/{device}/what_if/fusion.html" for device in ("cpu-amd-epyc", SIMULATED)
    ]
    with pytest.raises(LabError, match="graphs acts on cuda, and minigpt is compiled for none of them"):
        directives.what_if_pages(plan, "minigpt", of_a_gpu, "Name it.")
    for model, knob in (("minigpt", None), ("no_such", anywhere)):
        with pytest.raises(LabError, match=r"^Name it\.$"):
            directives.what_if_pages(plan, model, knob, "Name it.")


def test_an_output_stands_in_the_report_with_a_label_for_each_wildcard():
    entry = directives.report_entry("results/25/{model}/{device}/KERNEL_ANNOTATION.md", "annotate", "annotation", "en")
    assert entry["caption"] == "../report/en/annotation.rst"
    assert list(entry["labels"].values())[1:] == ["{model}", "{device}"]


def test_a_docstring_is_one_line_in_the_language_asked_for():
    assert directives.docstring_in("en", "corpus", "Sample\n    sentences.") == "Sample sentences."
    assert directives.docstring_in("es", "corpus", "Sample sentences.").startswith("Toma")


def test_a_group_that_fails_says_why_and_can_be_asked_for_its_rule():
    class Group:
        groupid = "pages"

        def log_error(self, msg: str | None = None, **more: object) -> None:
            said.append((msg, more))

    said: list = []
    directives.say_why_groups_fail(Group, said.append)
    Group().log_error("SLURM sbatch failed. 'no such partition'\n    sbatch call:\n  sbatch ...", aux_logs=["a.log"])
    Group().log_error()
    words = "SLURM sbatch failed. 'no such partition'"
    assert said == [
        f"Group pages: {words}",
        (f"{words}\n    sbatch call:\n  sbatch ...", {"aux_logs": ["a.log"]}),
        (None, {}),
    ]
    assert Group().rule.name == "pages"


@pytest.mark.parametrize(
    ("outputs", "log", "said"),
    [
        (0, False, "verify"),
        (1, True, "verify: {output[0]} (log: {log})"),
        (5, True, "verify: {output[0]}, {output[1]} and 3 more (log: {log})"),
    ],
)
def test_a_job_is_told_in_a_line(outputs: int, log: bool, said: str):
    assert directives.message("verify", outputs, log) == said


@pytest.mark.parametrize(
    ("cores", "limit", "device", "taken"),
    [
        (16, 4, "h200", (12, 4)),
        (6, 1, "h200", (2, 1)),
        (5, 4, "h200", (5, 1)),
        (16, None, "h200", (16, 1)),  # nobody keeps other jobs from the GPU: then the cores do
        (16, 4, "cpu-amd-epyc", (16, 0)),
        (16, SimpleNamespace(value=4), "h200", (12, 4)),
    ],
)
def test_a_gpus_timing_leaves_cores_to_other_jobs(cores, limit, device, taken):
    timing = directives.timing(cores, limit)
    assert tuple(one({"device": device}) for one in timing) == taken
