"""The record of a graph is made from what one compile left, which stays as it was."""

import copy

import pytest
import torch
from captured import FAST
from torch import nn
from torch.nn import functional
from zoo_models import NEWEST, path_of

from minicompile.capturing import capture
from minicompile.lowering.graph_record import BuiltGraph
from minicompile.lowering.outcomes import own_aten_nodes
from minicompile.lowering.panes.panes import Panes
from minicompile.lowering.panes.triton_assembly import with_assembly
from minicompile.lowering.record import Record
from minicompile.watching.watched import read_watched


@pytest.fixture(scope="module")
def seen():
    return read_watched(path_of("attention_written_out", "cpu", NEWEST))


def test_building_a_graph_leaves_the_compiles_data_as_it_was(seen):
    before = copy.deepcopy(seen["lowered"])
    built = BuiltGraph(seen["lowered"][0])
    assert seen["lowered"] == before
    assert {"aten_nodes", "lines"} <= built.graph["scheduler_nodes"][0].keys()


def test_what_is_built_twice_is_the_same(seen):
    first, second = Record(seen), Record(seen)
    assert first.graphs == second.graphs
    assert first.panes.panes == second.panes.panes
    assert first.panes.links() == second.panes.links()


def test_an_aten_node_belongs_to_the_loops_that_compute_it(seen):
    lowered = seen["lowered"][0]
    own = own_aten_nodes(lowered)
    assert own.keys() == {node["name"] for node in lowered["scheduler_nodes"]}
    made = {producer: name for name, producers in own.items() for producer in producers}
    assert {"bmm", "amax", "sum_1", "div"} <= made.keys()
    assert len({made["bmm"], made["amax"], made["sum_1"]}) == 3


def test_the_assembly_is_added_to_a_copy():
    kernel = {"name": "triton_0", "first": 2, "last": 3, "assembly": None}
    graph = {"id": "0.forward", "panes": {"code": "code.0.forward"}, "kernels": [kernel], "calls": []}
    texts = {"ttir": "module {\n}", "ttgir": "gpu {\n}", "llir": "define void @k() {\n}", "ptx": "ret;", "sass": None}
    facts = {"architecture": "sm_90", "configuration": {"num_warps": 4}, "candidates": 2}
    facts |= {"shared_bytes": 0, "registers": 16, "stack_bytes": 0}
    before = copy.deepcopy(graph)
    panes = Panes()
    made = with_assembly(graph, {"triton_0": {**facts, **texts}}, panes)
    assert graph == before
    assert made["kernels"][0]["assembly"]["configuration"] == {"num_warps": 4}
    kinds = ["ttir", "ttgir", "llir", "ptx"]
    assert [pane["title"] for pane in panes.panes] == [{"code": kind, "kernel": "triton_0"} for kind in kinds]
    assert [pane["lines"][0] for pane in panes.panes] == ["module {", "gpu {", "define void @k() {", "ret;"]
    shown = made["kernels"][0]["assembly"]["panes"]
    assert [shown[kind] for kind in kinds] == [pane["id"] for pane in panes.panes]
    assert shown["sass"] is None


def test_a_graph_that_dynamo_gave_up_lies_between_no_others():
    compiles = [{"id": "0/1", "graphs": [2]}, {"id": "1/1", "graphs": [3, 4]}]
    breaks = [{"reason": "item", "after": 2, "before": 3}, {"reason": "print", "after": 3, "before": None}]
    record = Record.__new__(Record)
    record.watched = {"lowered": [{"index": 2}, {"index": 4}], "compiles": compiles, "graph_breaks": breaks}
    record._settle()
    assert [made["graphs"] for made in record._compiles] == [[2], [4]]
    assert [(one["after"], one["before"]) for one in record._breaks] == [(2, 4), (4, None)]
    assert compiles[1]["graphs"] == [3, 4]


def test_a_conversion_of_what_is_behind_a_mask_belongs_to_what_is_masked():
    class Padded(nn.Module):
        def forward(self, x):
            return functional.pad(functional.dropout(x, 0.25), (0, 3))

    made = capture(Padded(), (torch.randn(7, 5, 5, dtype=torch.bfloat16),), target="cpu", options=FAST)
    assert made["warnings"] == []
    [loop] = [node for node in made["graphs"][0]["scheduler_nodes"] if "constant_pad_nd" in node["aten_nodes"]]
    stored = next(number for number, one in enumerate(loop["operations"]) if one["operation"] == "store")
    conversion = loop["operations"][stored - 1]
    assert (conversion["operation"], conversion["producer"]) == ("to_dtype", "constant_pad_nd")
