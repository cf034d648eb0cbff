"""What changed between two builds, and what that changed."""

import copy

import pytest

from minilab import LabError
from minilab.files import sha256, write_json
from minilab.records.drift import described, drift
from minilab.records.lock import choices_of, flat, lock
from minilab.records.sources.digests import digest_of_code

LOCK = {
    "machine": {"cpu": "A Chip", "system": "Linux", "python": "3.11"},
    "packages": {"numpy": "2.1", "torch": "2.11"},
    "config": {"training.seed": 42, "corpus.seed": 42},
    "sources": {"src/minimodel/training.py": "a" * 64, "src/minimodel/port.py": "b" * 64},
    "choices": {"results/24/h200/autotune.json": {"64x600 float32": {"config": {"BLOCK": 1024}, "faster": "fused"}}},
    "graphs": {"results/25/minigpt/cpu/post_grad.py": "c" * 64},
    "results": {
        "weights": {"sha256": "d" * 64, "sources": ["src/minimodel/training.py"], "config": ["training"], "of": []},
        "port": {"sha256": "e" * 64, "sources": ["src/minimodel/port.py"], "config": [], "of": ["weights"]},
    },
}


@pytest.fixture
def after() -> dict:
    return copy.deepcopy(LOCK)


def test_the_same_build_twice_has_no_drift(after: dict):
    assert drift(LOCK, after) == {"changed": [], "results": []}
    assert described(drift(LOCK, after)).count("Nothing.") == 2


def test_a_changed_seed_is_named_and_what_it_changed_with_it(after: dict):
    after["config"]["training.seed"] = 43
    after["results"]["weights"]["sha256"] = "0" * 64
    after["results"]["port"]["sha256"] = "1" * 64
    assert drift(LOCK, after) == {
        "changed": ["config training.seed: 42 -> 43"],
        "results": [
            "weights has changed: config training.seed: 42 -> 43",
            "port has changed: weights has changed",
        ],
    }


def test_a_changed_source_that_changes_no_result_is_named_alone(after: dict):
    after["sources"]["src/minimodel/port.py"] = "2" * 64
    assert drift(LOCK, after) == {"changed": ["source src/minimodel/port.py has changed"], "results": []}


def test_what_changes_without_its_inputs_is_laid_to_packages_or_called_not_deterministic(after: dict):
    after["results"]["weights"]["sha256"] = "0" * 64
    (sentence,) = drift(LOCK, after)["results"]
    assert sentence.endswith("so it is not deterministic")
    after["packages"]["numpy"] = "2.2"
    (sentence,) = drift(LOCK, after)["results"]
    assert sentence == "weights has changed: package numpy: 2.1 -> 2.2"


def test_a_graph_and_a_choice_that_changed_are_named(after: dict):
    after["packages"]["torch"] = "2.13"
    after["graphs"]["results/25/minigpt/cpu/post_grad.py"] = "0" * 64
    after["choices"]["results/24/h200/autotune.json"]["64x600 float32"]["faster"] = "triton"
    found = drift(LOCK, after)
    assert "choices results/24/h200/autotune.json has changed" in found["changed"]
    assert found["results"] == ["results/25/minigpt/cpu/post_grad.py has changed: package torch: 2.11 -> 2.13"]


def test_results_that_came_and_went_are_named(after: dict):
    after["results"]["new"] = after["results"].pop("port")
    assert drift(LOCK, after)["results"] == ["port is gone", "new is new"]


def test_a_file_that_is_no_lock_is_refused(after: dict):
    with pytest.raises(LabError, match=r"second lab.lock.json has no 'choices'"):
        drift(LOCK, {key: value for key, value in after.items() if key != "choices"})


@pytest.mark.parametrize("results", [None, [], {"a": None}, {"a": {}}, {"a": {"sha256": 1, "sources": 2}}])
def test_a_lock_with_other_things_in_it_is_refused(after: dict, results: object):
    with pytest.raises(LabError, match=r"the second lab\.lock\.json"):
        drift(after, {**after, "results": results})


def test_a_lock_holds_versions_digests_and_choices(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    choice = {"rows": 64, "cols": 600, "dtype": "float32", "config": {"BLOCK": 4}, "median_us": 1.0, "faster": "fused"}
    write_json("autotune.json", {"kernel": "triton", "choices": [choice]})
    (tmp_path / "a.py").write_text("a")
    made = lock({"a": {"b": [1]}, "c": {}}, ["a.py"], {"a.py": {"of": []}, "absent": {}}, ["a.py"], ["autotune.json"])
    assert made["config"] == {"a.b": [1], "c": {}}
    assert made["choices"] == {"autotune.json": {"64x600 float32": {"config": {"BLOCK": 4}, "faster": "fused"}}}
    assert made["graphs"]["a.py"] == made["results"]["a.py"]["sha256"] == sha256("a.py")
    assert made["sources"]["a.py"] == digest_of_code("a.py")
    assert "absent" not in made["results"]
    assert "numpy" in made["packages"]


def test_a_record_that_does_not_say_which_kernel_is_faster_counts_the_tuned_one():
    choice = {"rows": 1, "cols": 2, "dtype": "float32", "config": {"BLOCK": 4}}
    assert choices_of({"kernel": "triton", "choices": [choice]})["1x2 float32"]["faster"] == "triton"
    assert dict(flat({"x": {"y": 1}})) == {"x.y": 1}
