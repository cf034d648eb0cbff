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
