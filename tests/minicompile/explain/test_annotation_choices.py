"""What the annotation is told of the choices behind its kernel, and that the lines named hold it."""

from chosen import tuned

from minicompile.explain.annotation.choices import chosen
from minicompile.explain.annotation.view import KernelView


def view_of(capture: dict) -> KernelView:
    graph = capture["graphs"][0]
    return KernelView(capture, graph, next(call for call in graph["calls"] if not call["extern"]))


def test_a_triton_kernels_configurations_are_told_with_their_heuristic():
    capture = tuned("simulated")
    view = view_of(capture)
    (fact,) = [one for one in chosen(view) if one["code"].startswith("configuration_")]
    proposed = next(one for one in capture["choices"] if one["kind"] == "heuristic")["configurations"]
    assert fact["kernel"] == view.kernel["name"]
    assert fact["heuristic"] == "pointwise"
    assert fact["count"] == len(proposed)
    assert (fact["configuration"] is None) is (len(proposed) > 1)
    assert "simulated" in fact["code"] or "only_one" in fact["code"]


def test_a_templates_kernel_is_told_what_it_was_chosen_from():
    (fact,) = [one for one in chosen(view_of(tuned("cpu"))) if one["code"] == "algorithm_timed"]
    assert fact["name"].startswith("cpp_")
    assert fact["count"] == 2
    assert fact["margin"] > 0


def test_a_pattern_is_told_where_its_result_is_in_the_kernel_and_the_lines_named_hold_its_nodes():
    capture = tuned("cpu")
    lines = {pane["id"]: pane["lines"] for pane in capture["panes"]}
    (fact,) = [one for one in chosen(view_of(capture)) if one["code"] == "pattern"]
    for place in fact["evidence"]:
        pane, _, number = place.rpartition(":")
        assert any(name in lines[pane][int(number) - 1] for name in [*fact["before"], *fact["after"]])


def test_choices_about_other_kernels_are_left_out():
    capture = tuned("simulated")
    for choice in capture["choices"]:
        if choice["kind"] == "heuristic":
            choice["kernel"] = "another"
    assert not [one for one in chosen(view_of(capture)) if one["code"].startswith("configuration_")]
