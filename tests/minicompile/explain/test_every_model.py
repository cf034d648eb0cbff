"""What is said of a model is true, whatever the model: every kind of sentence, proved by another way than it was made.

The models are the files of `zoo/`, of which `compiles/` keeps what was watched; the proofs are those of `zoo_proofs`,
and a second reading judges each page by the compiler's texts; `checker_table.py` tells the same as a table. Nothing is
compiled here but the C++ kernels that are run.
"""

import json
from collections import Counter
from functools import cache

import pytest
from checker_table import DATA, PAGE, page, read_again
from second.kept import TOLD
from second_reading import Reading, read_capture
from watched_models import minor
from zoo_models import KEPT, NAMES, NEWEST, TARGETS, Captured, Verdict, captured, load
from zoo_proofs import PROOFS, explained, generated
from zoo_runs import Ran, ran

from minicompile.explain.annotation.annotate import annotate

# Of each kind of claim, how many are held at least of the newest torch's, for a proof that looks at nothing proves
# nothing: 0.7 of what was held of 204 models for the CPU and 210 for the simulated target.
AT_LEAST = {
    "cpu": {
        "bytes": {"touched": 186, "at_most": 23},
        "fates": {"inlined": 812, "materialised": 325, "fused away": 31},
        "names": {"softmax": 9, "standardise": 1, "layer_norm": 7, "log_softmax": 8, "rms_norm": 2},
        "sizes": {"bytes apart": 156},
        "fusions": {
            "read_by_both": 129, "between": 135, "vertical": 120, "handed": 144, "taken": 166, "ungiven":
            11, "taken_removed": 54, "other_order": 15, "horizontal": 47, "changed": 16, "nothing_shared":
            24, "not_worth_it": 11, "reversed": 2, "prologue_kind": 2, "overwritten": 4, "changes_later": 2,
        },
        "contents": {"contents": 177},
        "templates": {"template's memory": 1},
        "order": {"order": 1488},
        "tours": {"tour": 142},
    },
    "simulated": {
        "bytes": {"touched": 298, "at_most": 30},
        "fates": {"inlined": 841, "materialised": 306, "fused away": 48},
        "names": {"softmax": 13, "layer_norm": 9, "log_softmax": 5, "rms_norm": 2},
        "sizes": {"bytes apart": 177},
        "fusions": {
            "read_by_both": 122, "between": 58, "elements_and_rows": 14, "handed": 147, "taken_removed":
            149, "reductions_differ": 49, "taken": 133, "ungiven": 6, "other_order": 10, "elements_differ":
            32, "changed": 22, "not_worth_it": 13, "nothing_shared": 18, "reversed": 7, "epilogue": 2,
            "prologue_kind": 5, "overwritten": 4, "changes_later": 2,
        },
        "contents": {"contents": 336},
        "templates": {"template": 4, "template's memory": 2},
        "order": {"order": 1475},
        "tours": {"tour": 147},
    },
}  # fmt: skip
READ = {"cpu": 12000, "simulated": 24000}  # pages' sentences that the second reading held, of the newest torch's
# Nothing of these compiles was run beside its graph, and where notes alone tell whose a value is, they are wrong at
# times: of a convolution to which a kernel adds its bias, an input's slice that is copied into. So often in a set.
WRONG_NOTES = {"cpu": 9, "simulated": 19, "cuda": 20}


SETS = sorted((path.parent.name, path.name) for path in KEPT.glob("*/*"))  # (minor version of torch, target)


@pytest.fixture(scope="session", params=SETS, ids="-".join)
def kept(request) -> tuple[str, list[Captured]]:
    """A version of torch, and the models that are kept of it for one target."""
    version, target = request.param
    names = sorted(path.name.partition(".")[0] for path in (KEPT / version / target).iterdir())
    return version, [captured(name, target, version) for name in names]


@pytest.fixture(scope="session")
def zoo(kept) -> list[Captured]:
    return kept[1]


@pytest.fixture(scope="session")
def runs(kept, tmp_path_factory) -> list[Ran]:
    """What their kernels touch and leave; none of the code of another torch, whose headers and helpers are not here."""
    version, zoo = kept
    return ran(zoo, tmp_path_factory.mktemp("ran")) if version == minor() else [{} for _ in zoo]


@pytest.mark.parametrize("kind", PROOFS)
def test_what_is_said_is_true(kind, kept, runs):
    false, held = [], Counter()
    version, zoo = kept
    for one, its in zip(zoo, runs, strict=True):
        verdict: Verdict = PROOFS[kind](one, its)
        false += [f"{one.name} {one.target} {said}" for said in verdict.false]
        held += verdict.held
    assert not false
    if version == minor() == NEWEST:
        assert all(held[what] >= least for what, least in AT_LEAST[zoo[0].target][kind].items()), held
    if kind == "bytes" and held:
        assert held["touched"] > 5 * held["at_most"]


def test_a_second_reading_of_the_pages_finds_nothing_false_that_is_told_plainly(kept):
    version, zoo = kept
    reading = Reading()
    for one in zoo:
        read_capture(one.capture, reading, one.name)
    plain = [(page, each.sentence.text, each.cause) for page, each in reading.false if not each.sentence.noted]
    assert not plain
    assert reading.counts["by notes", "false"] <= WRONG_NOTES[zoo[0].target], reading.false
    if version == NEWEST:
        assert sum(reading.counts[told, "held"] for told in TOLD) >= READ[zoo[0].target]


def test_every_model_is_captured_and_explained_in_both_languages(zoo):
    gaps = {(one.name, one.target): gap for one in zoo if (gap := explained(one))}
    assert not gaps


@pytest.mark.parametrize("target", TARGETS)
def test_each_kernel_can_be_asked_for(target):
    one = captured("variance", target)
    for graph in one.capture["graphs"]:
        for call in generated(graph):
            assert annotate(one.capture, kernel=call["kernel"]).startswith(f"# `{call['kernel']}`")


def test_the_page_of_explained_models_has_every_model_of_the_zoo_and_is_its_data():
    data = json.loads(DATA.read_text())
    assert {f"{name}.{target}" for name in NAMES for target in load(name).targets} <= set(data["rows"])
    assert PAGE.read_text() == page(data, read_again())


@cache
def of_model(name: str, target: str) -> tuple[Captured, list[str]]:
    """A model's capture, and what is said of each of its kernels."""
    one = captured(name, target)
    calls = [call for graph in one.capture["graphs"] for call in generated(graph)]
    return one, [annotate(one.capture, kernel=call["id"]).split("## The kernel, line by line")[0] for call in calls]


@pytest.mark.parametrize("target", TARGETS)
def test_a_template_is_told_with_what_is_fused_to_it_and_with_what_it_reads(target):
    fused, alone = of_model("products_in_templates", target)[1]
    assert "This kernel computes, in this order: `bmm`, `relu`, multiply." in fused
    assert "3 operations are in this one kernel" in fused
    assert "op0, for `bmm`, is a template of torch's, filled in" in fused
    assert "the template in op0 reads `arg0_1`, `arg1_1`." in fused
    assert "the template in op0 writes" not in fused
    assert "Nothing was fused here: the kernel computes one ATen operation alone." in alone
    assert "the template in op2 writes `buf2`." in alone
    assert "None that Inductor made a loop for" in alone


@pytest.mark.parametrize("name", ["same_convolution", "dynamic_convolution", "depthwise"])
def test_what_is_copied_for_a_convolution_is_not_its_result(name):
    copying, computing = of_model(name, "cpu")[1]
    assert "the kernel computes no ATen operation, it only copies." in copying
    assert "so there is no intermediate" in copying
    assert "does not see into" not in copying
    assert "the result of `aten.convolution" not in copying
    assert "the result of `aten.convolution" in computing


def test_an_assertion_is_no_index_and_has_no_result():
    one, (text,) = of_model("asserted", "simulated")
    assert "| `aten._assert_async.msg` | `_assert_async` | none that is taken |" in text
    assert "several tensors" not in text
    lines = annotate(one.capture)
    assert "a condition that must hold is checked" in lines
    assert "an index is held against its bounds" not in lines


def test_bytes_of_symbolic_sizes_are_said_to_be_those_of_the_example():
    said = "Some sizes are symbols; the bytes are those at the sizes of the example inputs."
    assert all(said in text for text in of_model("dynamic_convolution", "cpu")[1])
    assert not any(said in text for text in of_model("same_convolution", "cpu")[1])
    assert "| not known |" in of_model("dynamic_convolution", "cpu")[1][-1]


def test_a_branch_has_inputs_and_results_of_its_own():
    texts = "".join(of_model("conditional", "cpu")[1])
    assert "an input of `true_graph_0`" in texts
    assert "`true_graph_0` returns it" in texts


def test_a_store_that_was_left_out_is_not_said_to_be_one():
    """Of which C++ has the declaration of the tile that it would have come from."""
    one, _ = of_model("nearest_centre", "cpu")
    assert {node["name"]: node["fate"] for node in one.capture["graphs"][0]["nodes"]}["add"] == "fused away"
