"""What the hooks must have seen, of whatever torch; where they passed something over, that is said and no more."""

import copy
from pathlib import Path

import pytest
from markupsafe import escape
from zoo_models import NEWEST, captured_anew, path_of

from minicompile.explain.annotation.annotate import annotate
from minicompile.explain.explorer.questions import questions
from minicompile.explain.explorer.render import render_explorer
from minicompile.explain.explorer.tour import tour
from minicompile.explain.wording import Wording
from minicompile.lowering.capture import as_capture
from minicompile.lowering.invariants import INVARIANTS
from minicompile.watching.watched import Watched, read_watched

CASES = Path(__file__).parents[1] / "cases"
CLAIMS = ("operations are in this one kernel", "in this order", "No kernel stores", "its stores", "did not join to it")


@pytest.fixture(scope="module")
def nested() -> Watched:
    return read_watched(path_of("scaled_groups", "simulated", NEWEST))


def without(nested: Watched, what: str) -> Watched:
    """A watch whose hooks passed over a part of the kernel."""
    watched = copy.deepcopy(nested)
    (lowered,), (definition,) = watched["lowered"], watched["lowered"][0]["definitions"]
    if what == "scheduler_nodes":
        lowered["calls"][0]["scheduler_nodes"] = ["op0"]
    elif what == "stores":
        tied = definition["operations"]
        definition["operations"] = [one for one in tied if "tl.store(" not in definition["source"][one[0]]]
    else:
        definition["operations"] = []
    return watched


def test_a_reduction_that_is_nested_in_another_is_in_its_call(nested):
    (graph,) = as_capture(nested)["graphs"]
    (call,) = graph["calls"]
    assert call["scheduler_nodes"] == graph["groups"][0]["members"]
    assert graph["groups"][0]["kind"] == "FusedNestedReductions"
    # of what op2 has stored, op3 takes the value out of a register: its line loads nothing
    assert (call["bytes"], call["bytes_are"]) == (graph["groups"][0]["bytes"], "touched")
    assert [found["missing"] for found in graph["invariants"].values()] == [[]] * len(INVARIANTS)
    assert all(found["of"] for what, found in graph["invariants"].items() if what != "graphs")


@pytest.mark.parametrize("what", [what for what in INVARIANTS if what not in ("graphs", "device")])
def test_where_something_was_passed_over_that_is_said_first_and_nothing_is_claimed(nested, what, tmp_path):
    made, nested_capture = as_capture(without(nested, what)), as_capture(nested)
    (graph,) = made["graphs"]
    (call,) = graph["calls"]
    warnings = [one for one in made["warnings"] if one["code"] == "unseen" and one["what"] == what]
    assert warnings == [
        {"code": "unseen", "graph": "0.forward", "what": what, "names": graph["invariants"][what]["missing"]}
    ]
    assert call["doubted"]
    assert (call["bytes"], call["bytes_are"]) == (graph["groups"][0]["bytes"], "counted")
    for language in ("en", "es"):
        told, (said,) = annotate(made, language), [Wording(language).warning(one) for one in warnings]
        assert said in told.split("```")[0]
        assert "## 1." not in told
    assert not [claim for claim in CLAIMS if claim in annotate(made)]
    assert all(claim in annotate(nested_capture) for claim in (CLAIMS[0], *CLAIMS[2:4]))
    page = render_explorer(made, tmp_path / "explorer.html").read_text()
    assert f'<p class="head-note">{escape(Wording("en").warning(warnings[0]))}</p>' in page
    assert not {"kernels", "refused", "never_written"} & {one.name for one in questions(made)}
    untold = {one["title"] for one in tour([nested_capture])} - {one["title"] for one in tour([made])}
    assert untold >= {"A result that is never written", "The scheduler fuses"}


@pytest.mark.parametrize("version", ["2.13", "2.15"])
def test_of_branches_whose_call_has_a_name_that_is_not_known_it_is_said_that_nothing_is(version):
    """The class of a `torch.cond` is Conditional up to 2.13 and Switch since."""
    watched = read_watched(path_of("conditional", "cpu", version))
    (graph,) = as_capture(watched)["graphs"]
    assert graph["invariants"]["graphs"] == {"of": 2, "missing": []}
    for node in watched["lowered"][0]["scheduler_nodes"]:
        node["kind"] = {"Conditional": "Chosen", "Switch": "Chosen"}.get(node["kind"], node["kind"])
    made = as_capture(watched)
    (warning,) = [one for one in made["warnings"] if one["code"] == "unseen"]
    assert (warning["what"], set(warning["names"])) == ("graphs", {"true_graph_0", "false_graph_0"})
    assert {call.get("within", "").endswith("_graph_0") for call in made["graphs"][0]["calls"] if call.get("doubted")}


def test_a_torch_that_nobody_tried_is_named_with_what_held(nested):
    watched = copy.deepcopy(nested)
    watched["warnings"].append({"code": "untried_torch", "minor": "2.99"})
    (warning,) = as_capture(watched)["warnings"]
    assert warning == {"code": "untried_torch", "minor": "2.99", "held": [*INVARIANTS], "failed": []}
    assert Wording("en").warning(warning) in annotate(as_capture(watched))
    assert not [claim for claim in CLAIMS[:1] if claim not in annotate(as_capture(watched))]


def test_a_refusal_that_another_fusion_overtook_is_no_answer_to_why_two_loops_are_apart(nested):
    made = as_capture(nested)
    (graph,) = made["graphs"]
    refused = [one for one in graph["decisions"] if not one["taken"]]
    assert refused
    assert all(one["joined"] for one in refused)  # they are one kernel
    assert not {"kernels", "refused"} & {one.name for one in questions(made)}
    assert all(Wording("en").fusion_of(one).endswith("into one kernel all the same.") for one in refused)


def test_of_a_frame_in_which_dynamo_stopped_at_once_the_reason_is_told(nested):
    """As torch 2.15 tells of an LSTM: the frame is compiled, of no graph, with a break and no failure."""
    watched = copy.deepcopy(nested)
    compiled = {**watched["compiles"][0], "id": "0/0", "failure": None, "graphs": []}
    stop = {
        "reason": "Unsupported function call (delayed)", "explanation": "Dynamo does not support RNN, GRU, or LSTM.",
        "hints": [], "compile": "0/0", "stack": [], "skipped": False, "after": None, "before": None,
    }  # fmt: skip
    watched |= {"compiles": [compiled], "graph_breaks": [stop], "dynamo": [], "joint": [], "lowered": []}
    made = as_capture(watched)
    assert made["compiles"][0]["failure"] == "Dynamo does not support RNN, GRU, or LSTM."
    assert "Unsupported function call (delayed). Dynamo does not support RNN, GRU, or LSTM." in annotate(made)


def test_code_for_the_cpu_under_the_heading_of_a_simulated_gpu_is_said_first_and_told_of_nothing():
    """As where a region was traced on the CPU: its kernel is C++, and its memory the CPU's."""
    watched = read_watched(path_of("changed_and_read", "cpu", NEWEST))
    watched["target"] = "simulated"
    made = as_capture(watched)
    [graph] = made["graphs"]
    [warning] = [one for one in made["warnings"] if one["code"] == "unseen"]
    assert warning["what"] == "device"
    kernels = {kernel["name"] for kernel in graph["kernels"]}
    assert kernels
    assert kernels < {*warning["names"]}  # and what the wrapper allocates on the CPU
    assert "empty_strided_cpu(" in watched["lowered"][0]["code"]
    assert all(call["doubted"] for call in graph["calls"] if call["kernel"] in kernels)
    assert Wording("en").warning(warning) in annotate(made).split("```")[0]
    assert "## 1." not in annotate(made)
    # and for the CPU nothing is wrong with it
    watched["target"] = "cpu"
    assert not as_capture(watched)["warnings"]


def test_a_region_is_written_for_the_simulated_gpu_and_so_is_what_comes_after_it():
    [graph] = captured_anew("repeated_block", "simulated", CASES).capture["graphs"]
    assert {call["within"] for call in graph["calls"] if not call["extern"] and "within" in call}
    assert [call for call in graph["calls"] if not call["extern"] and "within" not in call]
    assert graph["invariants"]["device"]["of"] > len(graph["kernels"])  # and memory
    assert graph["invariants"]["device"]["missing"] == []
    assert {kernel["language"] for kernel in graph["kernels"]} == {"python"}
