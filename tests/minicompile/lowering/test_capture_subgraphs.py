"""Nodes of graphs within a graph, a branch or a score, are tied to the source, to Dynamo's graph and to the code."""

import re
from unittest import mock

import pytest
import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import flex_attention
from zoo_models import captured

from minicompile.capturing import capture
from minicompile.explain.annotation.annotate import annotate
from minicompile.explain.capture_diff import diff_compiles
from minicompile.explain.explorer import render_explorer
from minicompile.explain.summary import summary_html
from minicompile.lowering.inner_graphs import bytes_moved, called
from minilab.config.check import check_schema, read_schema

DEFINED = re.compile(r"\s+\w+: .* = torch\.ops\.aten\.(?!permute|reshape)")


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.layer(x).sin(), lambda x: x.cos(), (x,)).sum()


class Loop(nn.Module):
    def forward(self, count, x):
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x.sin() * 2), (count, x))


class Scored(nn.Module):
    def forward(self, q):
        return flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score + 0.1 * (i - j))


MODELS = {
    "branches": (Branches(), (torch.ones(3, 4),), True),
    "loop": (Loop(), (torch.tensor(0), torch.ones(4)), False),
    "score": (Scored(), (torch.ones(1, 2, 128, 16),), False),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_line_of_an_inner_graph_is_tied_upwards_and_to_the_code(name, caplog):
    model, inputs, train = MODELS[name]
    with mock.patch("minicompile.lowering.capture.with_assembly", lambda graph, *_: graph):
        made = capture(model, inputs, target="simulated", train=train)
    texts = {pane["id"]: pane["lines"] for pane in made["panes"]}
    found = 0
    for graph in made["graphs"]:
        aten, code = graph["panes"]["aten"], graph["panes"]["code"]
        lines = texts[aten]
        inner = next(number for number, text in enumerate(lines) if number and "class " in text)
        defined = {number for number, text in enumerate(lines, 1) if number > inner and DEFINED.match(text)}
        above = {
            pane: {
                line
                for link in made["links"]
                if (link["from"], link["to"]) == (pane, aten)
                for _, line in link["pairs"]
            }
            for pane in ("source.0", "dynamo.0")
        }
        below = {
            line for link in made["links"] if (link["from"], link["to"]) == (aten, code) for line, _ in link["pairs"]
        }
        assert not [lines[number - 1] for number in defined - above["source.0"]]
        assert not [lines[number - 1] for number in defined - above["dynamo.0"]]
        assert not [lines[number - 1] for number in defined - below]
        found += len(defined)
    assert found >= 3
    assert made["warnings"] == []
    assert not [record for record in caplog.records if "debug_str" in record.getMessage()]


def test_flexible_attention_is_trained_on_the_simulated_target_though_a_cpu_has_no_backward_of_it():
    graphs = captured("flexible_attention_train", "simulated").capture["graphs"]
    assert [graph["direction"] for graph in graphs] == ["forward", "backward"]
    fates = {node["target"]: node["fate"] for graph in graphs for node in graph["nodes"]}
    assert fates["flex_attention"] == fates["flex_attention_backward"] == "materialised"


def of_target(model, inputs, target="simulated", **settings):
    with mock.patch("minicompile.lowering.capture.with_assembly", lambda graph, *_: graph):
        made = capture(model, inputs, target=target, **settings)
    check_schema(made, read_schema("schemas/capture.schema.yaml"), "the capture")
    return made


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))


class Region(Block):
    @torch.compiler.nested_compile_region
    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))


def stack(kind):
    return nn.Sequential(*(kind() for _ in range(3))).eval(), (torch.randn(4, 8),)


def test_what_is_in_a_region_is_for_the_target_and_counts_as_often_as_it_is_called():
    plain, made = (of_target(*stack(kind)) for kind in (Block, Region))
    (graph,), (whole,) = made["graphs"], plain["graphs"]
    assert {kernel["language"] for kernel in graph["kernels"]} == {"python"}
    assert len(graph["calls"]) == 4
    assert [call["runs"] for call in graph["calls"]] == [
        {"times": 3, "branch": False, "loop": False, "turned": False}
    ] * 4
    assert called(graph) == called(whole) == {"kernels": 6, "libraries": 6}
    assert bytes_moved(graph) == bytes_moved(whole) == sum(call["bytes"] for call in whole["calls"])
    assert {node["name"] for node in graph["nodes"] if node["fate"] == "inner graph"} == {
        site["node"] for site in graph["subgraph_calls"]
    }
    (compared,) = diff_compiles(plain, made)["graphs"]
    counted = [
        {key: side[key] for key in ("kernel_calls", "library_calls", "bytes")} for side in compared["totals"].values()
    ]
    assert counted[0] == counted[1]
    text = annotate(made)
    assert "Counted as often as they run, no other calls" in text
    assert "It stands in a region that is called 3 times." in text
    page = summary_html(made)
    assert "calls of kernels 6, of libraries 6" in page
    assert "The region repeated_subgraph0 is called 3 times" in page


class Counting(nn.Module):
    """A loop that turns five times, and one that may turn otherwise than it seems to."""

    def __init__(self, step):
        super().__init__()
        self.step = step

    def forward(self, x):
        start = torch.zeros([], dtype=torch.int64)
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + self.step, (x @ x).sin()), (start, x))[1]


@pytest.mark.parametrize(("step", "turns", "tests"), [(1, 5, 6), (2, 1, 1)])
def test_a_loop_that_counts_to_a_number_by_ones_counts_as_often_as_it_turns(step, turns, tests):
    made = of_target(Counting(step), (torch.ones(8, 8),))
    (graph,) = made["graphs"]
    body = [call["runs"]["times"] for call in graph["calls"] if "body" in call.get("within", "")]
    (tested,) = [call["runs"]["times"] for call in graph["calls"] if "cond" in call.get("within", "")]
    assert (set(body), tested) == ({turns}, tests)
    assert called(graph)["libraries"] == turns  # the product
    (site,) = graph["subgraph_calls"]
    assert site["turns"] == (5 if step == 1 else None)
    said = "turns 5 times, and is counted so often" if step == 1 else "one turn is counted"
    assert said in summary_html(made)


class Sided(nn.Module):
    """A branch with a product and one without, a loop that calls a region twice, and a region without a branch."""

    @torch.compiler.nested_compile_region
    def part(self, x):
        return (x @ x).relu()

    def forward(self, count, x):
        _, x = while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, self.part(self.part(x))), (count, x))
        return torch.cond(x.sum() > 0, lambda x: x.cos(), lambda x: (x @ x).sin(), (x,))


def test_of_branches_one_counts_and_of_a_loop_one_turn(tmp_path):
    made = of_target(Sided(), (torch.tensor(0), torch.ones(8, 8)))
    (graph,) = made["graphs"]
    # the loop's test and its body's addition, twice a product and a relu; a sum; the branch with a product
    assert called(graph) == {"kernels": 6, "libraries": 3}
    of_kernel = {call["kernel"]: call for call in graph["calls"]}
    in_part = next(call for name, call in of_kernel.items() if name.endswith("_relu_0") or "relu" in name)
    assert in_part["runs"] == {"times": 2, "branch": False, "loop": True, "turned": False}
    sides = {
        side: [call for call in graph["calls"] if call.get("within") == f"{side}_graph_0"] for side in ("true", "false")
    }
    assert {call["runs"]["branch"] for calls in sides.values() for call in calls} == {True}
    less = [call["bytes"] for call in sides["true"]]
    everything = sum(call["bytes"] * call.get("runs", {"times": 1})["times"] for call in graph["calls"])
    assert bytes_moved(graph) == everything - sum(less)
    page = summary_html(made, "es")
    assert "De las ramas true_graph_0, false_graph_0 se ejecuta una; se cuenta false_graph_0" in page
    assert "Del bucle while_loop se cuenta una vuelta" in page
    assert "runs 2 times in each turn" in annotate(made, kernel=in_part["kernel"])
    render_explorer(made, tmp_path / "page.html")
