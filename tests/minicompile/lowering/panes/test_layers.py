"""Which layer of the model an ATen node was made in."""

import pytest

from minicompile.lowering.panes.layers import layer_stack, with_layers
from minicompile.lowering.record import Record

BLOCK, MIX = ["blocks.1", "Block"], ["blocks.1.mix", "Linear"]


def test_a_node_without_a_record_of_its_own_has_that_of_the_first_origin_that_has_one():
    assert layer_stack({"modules": [BLOCK]}, [{"modules": [BLOCK, MIX]}]) == [BLOCK]
    assert layer_stack({"modules": []}, [{"modules": []}, {"modules": [BLOCK, MIX]}]) == [BLOCK, MIX]
    assert layer_stack({"modules": []}, []) == []


def test_a_graph_names_the_innermost_layer_of_each_node_and_the_class_of_every_layer():
    graph = {"nodes": [{"name": "mm"}, {"name": "add"}, {"name": "arg"}]}
    made = with_layers(graph, {"mm": [BLOCK, MIX], "add": []})
    assert [node["layer"] for node in made["nodes"]] == ["blocks.1.mix", None, None]
    assert made["layers"] == dict([BLOCK, MIX])
    assert graph == {"nodes": [{"name": "mm"}, {"name": "add"}, {"name": "arg"}]}


@pytest.mark.parametrize(
    ("graph", "found"),
    [("joint", (["q"], ["permute"])), ("traced pattern", ([], []))],
)
def test_a_name_in_the_trace_of_a_pattern_is_no_node_of_the_model_that_is_called_so(graph, found):
    record = Record.__new__(Record)
    record.watched = {"dynamo": [{"identities": [["dynamo", ""]], "nodes": []}]}
    record._dynamo = [{"q": 1}]
    joint = {"at": {"permute": 3}, "origins": {"permute": ["q"]}, "by_sequence": {}, "identities": [["joint", ""]]}
    record._joint = {0: joint}
    node = {"name": "permute_default_12", "origins": [["permute", graph]], "sequence": None}
    assert record._origins(0, node) == found
