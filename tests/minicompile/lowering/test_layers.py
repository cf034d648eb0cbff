"""Which layer of the model an ATen node was made in."""

from minicompile.lowering.layers import layer_stack, with_layers

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
