"""What is said of a model is true, whatever the model: every kind of sentence, proved by another way than it was made.

The models are the files of `zoo/`, the proofs those of `zoo_proofs`; `checker_table.py` tells the same as a table. Each
model is tried for one target in turn, and for the other one among the slow tests.
"""

import json
from collections import Counter

import pytest
from checker_table import DATA, PAGE, page
from zoo_models import NAMES, TARGETS, Captured, Verdict, captured, load
from zoo_proofs import PROOFS, REFERENCES, generated
from zoo_runs import Ran, ran

from minicompile.explain.annotation.annotate import annotate
from minicompile.explain.explorer.tour import tour
from minicompile.explain.wording import Wording
from minilab.config import check_schema, read_schema

# of each kind of claim, how many are held at least: a proof that looks at nothing proves nothing
AT_LEAST = {
    "bytes": {"touched": 100},
    "fates": {"materialised": 50, "inlined": 100, "fused away": 1},
    "names": dict.fromkeys(REFERENCES, 0),
    "sizes": {"bytes of results": 50, "bytes apart": 20, "values reduced": 10},
    "fusions": {"handed": 1, "changed": 1, "read_by_both": 1, "taken": 20, "between": 5},
    "accesses": {"reads": 500, "writes": 100},
    "order": {"order": 200},
    "scans": {"ordered": 1},
    "structure": {"structure": 1},
    "tours": {"tour": 20},
}


def pairs(part: str) -> list[tuple[str, str]]:
    """(model, target) pairs: each model for a target in turn, or for the other one."""
    shift = part == "the other target"
    found = []
    for number, name in enumerate(NAMES):
        targets = load(name).targets
        if len(targets) > 1:
            found.append((name, TARGETS[(number + shift) % len(TARGETS)]))
        elif not shift:
            found.append((name, targets[0]))
    return found


@pytest.fixture(scope="session", params=["one target", "the other target"])
def zoo(request) -> list[Captured]:
    return [captured(name, target) for name, target in pairs(request.param)]


@pytest.fixture(scope="session")
def runs(zoo, tmp_path_factory) -> list[Ran]:
    return ran(zoo, tmp_path_factory.mktemp("ran"))


@pytest.mark.parametrize("kind", PROOFS)
def test_what_is_said_is_true(kind, zoo, runs):
    false, held = [], Counter()
    for one, its in zip(zoo, runs, strict=True):
        verdict: Verdict = PROOFS[kind](one, its)
        false += [f"{one.name} {one.target} {said}" for said in verdict.false]
        held += verdict.held
    assert not false
    assert all(held[what] >= least for what, least in AT_LEAST[kind].items()), held
    if kind == "bytes":
        assert held["touched"] > 5 * held["at_most"]
    if kind == "names":
        assert len(set(held)) >= 3, held


def test_every_model_is_captured_and_explained_in_both_languages(zoo):
    schema = read_schema("schemas/capture.schema.yaml")
    gaps = {}
    for one in zoo:
        check_schema(json.loads(json.dumps(one.capture)), schema, f"{one.name}.{one.target}")
        assert one.capture["graphs"]
        for language in ("en", "es"):
            assert annotate(one.capture, language=language).startswith("# ")
            assert tour([one.capture], language)
            for graph in one.capture["graphs"]:
                assert all(Wording(language).fusion(decision["reason"]) for decision in graph["decisions"])
        if one.capture["warnings"]:
            gaps[one.name, one.target] = one.capture["warnings"]
    assert not gaps


def test_each_kernel_can_be_asked_for(zoo):
    one = next(one for one in zoo if one.name == "variance")
    for graph in one.capture["graphs"]:
        for call in generated(graph):
            assert annotate(one.capture, kernel=call["kernel"]).startswith(f"# `{call['kernel']}`")


def test_the_page_of_explained_models_has_every_model_of_the_zoo_and_is_its_data():
    data = json.loads(DATA.read_text())
    assert {f"{name}.{target}" for name in NAMES for target in load(name).targets} <= set(data["rows"])
    assert PAGE.read_text() == page(data)
