"""Models that Dynamo cuts, compiles again or leaves alone, and graphs within graphs: all of it is in the capture."""

import pytest
import torch
import zoo_models
from captured import Links
from declared_faults import fault
from torch import nn

from minicompile.capturing import capture
from minicompile.explain.summary import summary_html
from minilab.config.check import check_schema, read_schema

SCHEMA = read_schema("schemas/capture.schema.yaml")


def made_of(model, *args, **settings) -> dict:
    made = capture(model, args, target="simulated", **settings)
    check_schema(made, SCHEMA, "the capture")
    return made


@pytest.fixture(scope="module")
def cut():
    return zoo_models.captured("graph_break", "simulated").capture


def test_a_graph_break_lies_between_its_graphs_on_its_line(cut):
    (one,) = cut["graph_breaks"]
    assert (one["after"], one["before"], one["skipped"], one["count"]) == (0, 1, False, 1)
    assert one["reason"].startswith("Unsupported Tensor.item() call")
    assert one["explanation"].startswith("Dynamo does not support tracing `Tensor.item()`")
    frame = one["stack"][-1]
    source = next(pane for pane in cut["panes"] if pane["id"] == frame["pane"])
    assert source["lines"][frame["line"] - 1].strip() == "if x.sum().item() > 1e9:"
    below = Links(cut).down[frame["pane"], frame["line"]]
    ends = {place: Links(cut).lines[place].strip() for place in below if place[0].startswith("dynamo")}
    # what the line computes before it stops is in the first graph, too
    assert {(pane, text.split("(")[0].split()[0]) for (pane, _), text in ends.items()} == {
        ("dynamo.0", "sum_1:"),
        ("dynamo.0", "return"),
        ("dynamo.1", "def"),
    }


def test_what_is_left_of_a_function_is_a_compile_of_its_own(cut):
    assert [(one["function"].rpartition(".")[2], one["graphs"]) for one in cut["compiles"]] == [
        ("forward", [0]),
        (f"torch_dynamo_resume_in_forward_at_{cut['graph_breaks'][0]['stack'][-1]['line']}", [1]),
    ]


def note(x):
    print(float(x.mean()))
    return x


class Noisy(nn.Module):
    """Stops on the one line of `note`, for two reasons, from two layers, each of which is a frame of its own then."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        x = note(self.one(x)).relu()
        return note(self.two(x)).relu()


@fault("one line breaks the graph, reached in several ways", "Dynamo stopped here ... times.", "The ways are below it.")
def test_a_place_that_breaks_the_graph_is_told_once_with_the_ways_to_it_and_graphs_that_there_are(says):
    made = made_of(Noisy(), torch.ones(2, 4))
    (place,) = made["graph_breaks"]
    ways = place["ways"]
    assert {(way["stack"][-1]["function"], way["stack"][-1]["line"]) for way in ways} == {
        ("note", note.__code__.co_firstlineno + 1)
    }
    assert {
        way["stack"][0]["line"] - Noisy.forward.__code__.co_firstlineno for way in ways if len(way["stack"]) > 1
    } == {
        1,
        2,
    }
    assert place["count"] == sum(way["count"] for way in ways) > len({str(way["stack"]) for way in ways}) == 3
    assert len({way["reason"] for way in ways}) == 2
    # before 2.15 Dynamo traces graphs without an operation between two prints, of which nothing is lowered
    shown = {graph["index"] for graph in made["graphs"]}
    assert len(shown) <= len([pane for pane in made["panes"] if pane["kind"] == "dynamo"])
    named = {way[side] for way in ways for side in ("after", "before")} | {
        n for c in made["compiles"] for n in c["graphs"]
    }
    assert named - {None} == shown
    page = summary_html(made)
    assert page.count(says.replace("...", str(place["count"]))) == 1
    assert page.count("<p><b>") == 2  # the reasons; the ways are folded below
    assert page.count("<li>") == 1 + len(ways)


def test_why_dynamo_leaves_a_module_alone_is_told():
    made = made_of(nn.LSTM(4, 4), torch.ones(3, 2, 4))
    assert made["graphs"] == []
    (compiled,), (one,) = made["compiles"], made["graph_breaks"]
    # before 2.15 Dynamo gives the frame up; since then it breaks the graph at the call, and there is none
    assert compiled["failure"] == (one["reason"] if one["skipped"] else one["explanation"])
    assert "RNN, GRU, or LSTM" in compiled["failure"]
    assert compiled["graphs"] == []
    assert "Dynamo does not support RNN, GRU, or LSTM." in one["explanation"]


def test_recompiles_are_told_with_their_guards():
    function = torch.sin

    def twice(x, y):
        return nested(x) + nested(y).sum()

    @torch.compiler.disable(recursive=False)
    def nested(x):
        return inner(x)

    def inner(x):
        return function(x) * 2

    made = made_of(twice, torch.ones(3), torch.ones(3, 3))
    again = [one for one in made["compiles"] if one["recompile"]]
    assert [one["function"].rpartition(".")[2] for one in again] == ["inner"]
    assert "rank mismatch. expected 1, actual 2" in again[0]["reason"]
    assert made["recompiles"] == [again[0]["reason"]]


def test_sizes_are_symbols_where_asked_for():
    made = made_of(lambda x: (x * 2).sum(1), torch.ones(4, 8), dynamic=True)
    sizes = [node["size"] for graph in made["graphs"] for node in graph["nodes"] if node["target"] == "aten.mul.Tensor"]
    assert [[type(length) for length in size] for size in sizes] == [[str, str]]


def test_branches_are_tied_to_their_kernels_and_sources():
    made = zoo_models.captured("conditional", "simulated").capture
    inside = {"true_graph_0.sin", "true_graph_0.add", "false_graph_0.cos", "false_graph_0.mul"}
    (graph,) = made["graphs"]
    nodes = {node["name"]: node for node in graph["nodes"]}
    assert inside <= nodes.keys()
    links = Links(made)
    for name in inside:
        place = graph["panes"]["aten"], nodes[name]["line"]
        assert f"{name.partition('.')[2]}: " in links.lines[place]
        assert any(pane == graph["panes"]["code"] for pane, _ in links.reached(*place, links.down)), name
        assert any(pane.startswith("source") for pane, _ in links.reached(*place, links.up)), name


def test_a_list_of_tensors_is_worked_on_in_one_kernel():
    made = zoo_models.captured("foreach", "simulated").capture
    (kernel,) = made["graphs"][0]["kernels"]
    assert kernel["granularity"] == "operation"
    computed = {name for call in made["graphs"][0]["calls"] for name in call["aten_nodes"]}
    targets = {node["target"] for node in made["graphs"][0]["nodes"] if node["name"] in computed}
    assert {"aten._foreach_mul.Scalar", "aten._foreach_add.List"} <= targets


def test_of_a_combination_in_several_kernels_each_has_only_what_it_computes():
    (graph,) = zoo_models.captured("combined_kernels", "simulated").capture["graphs"]
    assert len(graph["kernels"]) > 1
    computed = [set(call["scheduler_nodes"]) for call in graph["calls"]]
    assert all(computed)
    assert sum(map(len, computed)) == len(set.union(*computed)) == len(graph["scheduler_nodes"])
    written = [set(call["scheduler_nodes"]) for call in graph["calls"] if not call["extern"]]
    assert [set(kernel["scheduler_nodes"]) for kernel in graph["kernels"]] == written


class Hops(nn.Module):
    def forward(self, x):
        for hop in range(2):
            (rows,) = torch.where(x[:, hop] > 0)
            x = x.index_add(0, rows, x[rows])
        return x


def test_where_a_frame_is_given_up_the_stack_begins_at_the_users_code_and_not_at_the_captures():
    made = made_of(Hops(), torch.ones(3, 4))
    (one,) = made["graph_breaks"]
    assert made["graphs"] == []
    assert one["skipped"]
    assert [frame["function"] for frame in one["stack"]] == ["forward"]
    (pane,) = [pane for pane in made["panes"] if pane["kind"] == "source"]
    assert "torch.where" in pane["lines"][one["stack"][0]["line"] - 1]


@pytest.mark.parametrize("target", zoo_models.TARGETS)
def test_what_a_pattern_made_for_the_backward_pass_comes_from_the_lines_of_what_it_replaced(target):
    made = zoo_models.captured("classifier_train", target).capture
    (forward,) = [graph for graph in made["graphs"] if graph["direction"] == "forward"]
    (node,) = [node for node in forward["nodes"] if node["target"] == "aten.eq.Tensor"]
    assert {one["name"] for one in forward["nodes"] if node["name"] in one["inputs"]} == {"output"}
    lines = Links(made).reached(forward["panes"]["aten"], node["line"], Links(made).up)
    texts = {pane["id"]: pane["lines"] for pane in made["panes"] if pane["kind"] == "source"}
    assert any("F.cross_entropy" in texts[pane][line - 1] for pane, line in lines if pane in texts)
