"""What became of a result that no single loop stores. That stored ones are in memory, the zoo's proofs show."""

import pytest
from zoo_models import captured

from minicompile.lowering.outcomes import fates

COPIED = {"buffer": "buf0", "index": "c0 + 4*c1", "sizes": [4, 3]}


def fates_of(graph) -> dict[str, str]:
    return {node["name"]: node["fate"] for node in graph["nodes"]}


def target_fates(graph, target: str) -> set[str]:
    return {node["fate"] for node in graph["nodes"] if node["target"] == target}


def test_a_concatenation_that_no_memory_is_allocated_for_is_not():
    [graph] = captured("rotary", "simulated").capture["graphs"]
    assert not any(node["kind"] == "ConcatKernel" for node in graph["scheduler_nodes"])
    assert target_fates(graph, "aten.cat.default") == {"inlined"}


def test_a_library_that_changes_memory_in_place_makes_the_result_and_not_its_views():
    graph = captured("experts_train", "cpu").capture["graphs"][1]
    call = next(node for node in graph["scheduler_nodes"] if node["kind"] == "ScatterFallback")
    assert call["aten_nodes"] == ["scatter_add"]
    became = fates_of(graph)
    assert became["scatter_add"] == "extern call"
    assert became["full_default"] == "folded"
    assert target_fates(graph, "aten.unsqueeze.default") == target_fates(graph, "aten.expand.default") == {"view"}


@pytest.mark.parametrize("target", ["cpu", "simulated"])
def test_a_librarys_call_that_makes_no_buffer_is_a_call_and_makes_the_result(target):
    [graph] = captured("segment_maximum", target).capture["graphs"]
    [call] = [call for call in graph["calls"] if call["extern"]]
    assert (call["kernel"], call["aten_nodes"]) == ("aten.scatter_reduce_.two", ["scatter_reduce"])
    became = fates_of(graph)
    assert (became["scatter_reduce"], became["mul"]) == ("extern call", "materialised")


@pytest.mark.parametrize("target", ["cpu", "simulated"])
def test_what_reads_a_value_at_indices_of_its_own_is_in_memory_and_the_value_is_not(target):
    [graph] = captured("flipped", target).capture["graphs"]
    became = fates_of(graph)
    in_order = {"mul": "gather", "exp": "index", "relu": "rev", "add": "index_1", "cos": "rev_1"}
    changed = {"abs_1": "rev_2", "pow_1": "rev_3"}  # for a scatter, and copied into an input
    for value, reader in {**in_order, **changed}.items():
        assert (became[value], became[reader]) == ("inlined", "materialised")
        assert reader in {buffer["node"] for buffer in graph["buffers"]}
    assert became["scatter"] == "materialised"
    assert not any(graph["coverage"]["missing"].values())


def test_what_is_copied_for_a_librarys_layout_is_what_the_library_is_handed():
    [graph] = captured("flipped", "cpu").capture["graphs"]
    became = fates_of(graph)
    call = next(node for node in graph["nodes"] if "attention" in node["target"])
    [flip] = [node for node in graph["nodes"] if node["inputs"] == ["exp_1"]]
    assert became[call["name"]] == "extern call"
    assert (became["exp_1"], became[flip["name"]]) == ("inlined", "materialised")
    assert flip["name"] in {buffer["node"] for buffer in graph["buffers"]}


@pytest.mark.parametrize("target", ["cpu", "simulated"])
def test_a_scatter_over_a_copy_leaves_what_it_copied_to_its_maker(target):
    [graph] = captured("scatter_rows", target).capture["graphs"]
    assert (fates_of(graph)["mul"], fates_of(graph)["scatter"]) == ("materialised", "materialised")
    held = {buffer["name"]: buffer["node"] for buffer in graph["buffers"]}
    [over] = [node for node in graph["scheduler_nodes"] if node["computes"] == "Scatter"]
    [base] = [one["buffer"] for one in over["reads"] if one["index"] == "*"]
    assert (held[base], held[over["buffers"][0]]) == ("mul", "scatter")


@pytest.mark.parametrize("target", ["cpu", "simulated"])
def test_what_a_scatter_changes_is_the_results_of_its_maker_also_where_the_scatter_adds_the_same(target):
    [graph] = captured("added_to_itself", target).capture["graphs"]
    became = fates_of(graph)
    assert (became["mul"], became["neg"], became["index_put"]) == ("materialised", "inlined", "materialised")


@pytest.mark.parametrize(("target", "scatter"), [("cpu", "extern call"), ("simulated", "materialised")])
def test_what_a_library_adds_to_is_the_result_of_its_maker(target, scatter):
    [graph] = captured("scatter_added", target).capture["graphs"]
    became = fates_of(graph)
    assert (became["mul"], became["cos"], became["rev"]) == ("materialised", "inlined", "materialised")
    assert target_fates(graph, "aten.scatter_add.default") == {scatter}


def test_an_index_that_inductor_counts_to_no_loop_is_tied_to_the_loops_of_its_readers():
    [graph] = captured("window_mask", "simulated").capture["graphs"]
    assert not any(graph["coverage"]["missing"].values())


@pytest.mark.parametrize("target", ["cpu", "simulated"])
def test_each_of_several_results_is_where_it_lies(target):
    """The variances of which only the sum is returned, and those of the norms, are stored by no kernel."""
    [graph] = captured("small_variance", target).capture["graphs"]
    whole = {node["name"]: node["fate"] for node in graph["nodes"] if node["target"].startswith("aten.var_mean")}
    assert [*whole.values()] == ["materialised", "inlined", "inlined", "inlined"]
    of = {buffer["node"]: buffer["name"] for buffer in graph["buffers"] if buffer["node"] in places(graph)}
    assert {name: buffer for name, buffer in places(graph).items() if buffer} == of
    assert sorted(of) == ["getitem", "getitem_1", "getitem_3", "getitem_5", "getitem_7"]
    assert all(buffer["node"] for buffer in graph["buffers"] if not buffer["input"])


def places(graph) -> dict[str, str | None]:
    return {node["name"]: node["buffer"] for node in graph["nodes"] if node["target"] == "operator.getitem"}


def test_several_results_of_which_fusion_removed_one_were_buffers():
    """A mean that Welford's algorithm yields, of which the variance is a quotient, no buffer."""
    [graph] = captured("variance", "simulated").capture["graphs"]
    assert target_fates(graph, "aten.var_mean.correction") == {"fused away"}
    [mean] = [buffer for buffer in places(graph).values() if buffer]
    assert [buffer["removed"] for buffer in graph["buffers"] if buffer["name"] == mean] == [True]


def lowered(read: dict) -> dict:
    """A sum whose buffer fusion removed, and a loop that copies what it reads of it into another buffer."""
    sizes = {"buf0": [12], "buf1": [12]}
    return {
        "parts": {},
        "aten": {
            "nodes": [
                {"name": name, "target": f"aten.{name}.default", "op": "call_function", "size": size, "is_view": False,
                 "inputs": [],
                 "symbolic": False} for name, size in (("sum", [12]), ("cat", [48]))
            ]
        },
        "buffers": [
            {"name": name, "node": node, "size": sizes[name], "removed": node == "sum"}
            for name, node in (("buf0", "sum"), ("buf1", None))
        ],
        "scheduler_nodes": [
            {
                "name": "op1", "kind": "ComputedBuffer", "extern": None, "user_triton": False, "template": False,
                "buffers": ["buf1"],
                "computes": "Pointwise", "origin_node": None, "changes": [], "reads": [read],
                "operations": [
                    {"operation": "load", "producer": "cat", "stores": None, "copies": None, "buffer": "buf0"},
                    {"operation": "store", "producer": "cat", "stores": "cat", "copies": "cat",
                     "buffer": "buf1"},
                ],
            },
            {"name": "op0", "kind": "ComputedBuffer", "extern": None, "user_triton": False, "template": False,
             "buffers": ["buf0"], "computes": "Reduction", "origin_node": "sum", "changes": [], "reads": [],
             "operations": []},
        ],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "materialised"),
        ({"index": "c0", "sizes": [12]}, "materialised"),
        ({"index": "3*c0 + c1"}, "materialised"),
        ({"index": "2*c0 + 4*c1"}, "fused away"),  # elements twice
        ({"index": "c0"}, "fused away"),  # a row, repeated
        ({"index": "(c0//2)", "sizes": [12]}, "fused away"),
        ({"index": "c0", "sizes": [6]}, "fused away"),  # a part
    ],
)
def test_a_copy_counts_where_it_is_of_every_element(changed, expected):
    assert fates(lowered({**COPIED, **changed}), {}, lambda *_: True)["sum"] == expected


def test_a_copy_that_no_kernel_stores_counts_for_nothing():
    assert fates(lowered(COPIED), {}, lambda *_: False)["sum"] == "fused away"


@pytest.mark.parametrize("target", ["cpu", "simulated"])
def test_a_template_hands_on_what_no_kernel_is_given_memory_for_and_stores_the_rest(target):
    [graph] = captured("products_in_templates", target).capture["graphs"]
    expected = {"bmm": "fused away", "relu": "inlined", "mul": "materialised", "bmm_1": "materialised"}
    assert expected.items() <= fates_of(graph).items()
    given = {value for call in graph["calls"] for _, value in call["arguments"]}
    own = [buffer for buffer in graph["buffers"] if not buffer["input"]]
    assert {buffer["name"] for buffer in own if buffer["removed"]} == {buffer["name"] for buffer in own} - given
