"""What ties say of a graph, call by call, and what stays told by notes."""

import copy

import pytest
import torch
from tied import buffers, call, refused, ties, with_ties
from zoo_models import NEWEST, captured, path_of

from minicompile.explain.annotation.annotate import annotate
from minicompile.lowering.by_values import computed, is_verified
from minicompile.lowering.capture import as_capture
from minicompile.watching.model import watch_model
from minicompile.watching.watched import read_watched

FILL = "triton_poi_fused__unsafe_index_put_div_expand_mul_new_zeros_0"


def told_by_notes(capture: dict) -> dict:
    """A capture without what ties left in it."""
    made = copy.deepcopy(capture)
    for graph in made["graphs"]:
        graph.pop("verified", None)
        for one in graph["calls"]:
            one.pop("values", None)
    return made


def test_a_graph_that_could_not_be_run_is_told_by_notes_and_says_why():
    found = {**ties([], {}), "refused": {"code": "no_device", "detail": "no GPU"}}
    capture = with_ties("index_add", "simulated", found)
    notes = captured("index_add", "simulated").capture
    assert told_by_notes(capture)["graphs"] == notes["graphs"]
    text = annotate(capture)
    assert "None of its kernels could be run to verify it" in text
    assert "This kernel could not be verified (its device is not here)" in text


@pytest.mark.parametrize("code", ["exotic", None])
def test_a_refusal_that_has_no_words_is_told_as_one(code):
    fill = refused("triton_poi_fused_new_zeros_0", 145, code)
    capture = with_ties("index_add", "simulated", ties([fill], buffers(buf0=[])))
    first, second = capture["graphs"][0]["calls"]
    assert {first["values"]["status"], second["values"]["status"]} == {"refused"}
    assert second["values"]["code"] == "missing"
    text = annotate(capture, kernel=first["kernel"])
    assert ("(it could not be run)" if code else "(no run of it was found)") in text
    assert capture["graphs"][0]["verified"]["kernels"] == [0, 2]


def test_calls_without_a_line_are_taken_in_turn_where_there_are_as_many():
    graph = captured("group_norm_train", "simulated").capture["graphs"][1]
    calls = [one for one in graph["calls"] if one["kernel"] == FILL]
    assert len(calls) == 4
    found = [call(FILL, None) if place != 2 else refused(FILL, None, "time") for place in range(4)]
    for given, states in ((found, ["verified", "verified", "refused", "verified"]), (found[:3], ["refused"] * 4)):
        capture = with_ties("group_norm_train", "simulated", None, ties(given, {}))
        lines = sorted((one["line"], one["values"]["status"]) for one in capture["graphs"][1]["calls"]
                       if one["kernel"] == FILL)  # fmt: skip
        assert [status for _, status in lines] == states


def test_kernels_of_a_branch_and_of_a_loops_body_are_verified_as_all_others():
    """Each computes nodes of the graph that it stands in, and what it is given is that graph's own too."""

    def model(x, z, start):
        def body(place, value):
            return place + 1, (value.sin() + z).tanh()

        _, made = torch._higher_order_ops.while_loop(lambda place, _: place < 3, body, (start, x))
        return torch.cond(made.sum() > 0, lambda one: one.exp() * 2, lambda one: one.cos() - 2, (made,))

    inputs = torch.randn(5, 8), torch.randn(8), torch.tensor(0)
    watched = watch_model(model, inputs, target="simulated", name="m", machine_code=False, verify=True)
    (graph,) = as_capture(watched)["graphs"]
    inner = {one["within"]: one for one in graph["calls"] if "within" in one and not one["extern"]}
    assert all(is_verified(one) for one in graph["calls"] if not one["extern"])
    for name, wanted in (("true_graph_0", {"exp", "mul"}), ("false_graph_0", {"cos", "sub"})):
        assert {*computed(inner[name])} == {f"{name}.{one}" for one in wanted}
    loop = [one for one in graph["calls"] if one.get("within") == "while_loop_body_graph_0"]
    names = [name for one in loop for name in computed(one)]
    assert {*names} == {f"while_loop_body_graph_0.{one}" for one in ("sin", "add", "add_1", "tanh")}
    (own,) = [one for one in graph["calls"] if "within" not in one and not one["extern"]]
    assert {*computed(own)} == {"sum_1", "gt"}  # the loop's result is what it reads
    loads = [node for one in loop for line in one["values"]["lines"] for node in line["nodes"][:1] if ".arg" in node]
    assert loads
    assert {node.partition(".")[0] for node in loads} == {"while_loop_body_graph_0"}


def test_what_a_foreach_operation_leaves_in_its_lists_is_in_memory():
    """Inductor's notes know no buffer of the results of an operation that changes several tensors in place."""

    def model(a, b, x):
        torch._foreach_lerp_([a, b], [x.tanh(), x.tanh() * 2], 0.2)
        return a + 1

    inputs = [torch.randn(8, 6) for _ in range(3)]
    watched = watch_model(model, inputs, target="simulated", name="m", machine_code=False, verify=True)
    (graph,) = as_capture(watched)["graphs"]
    whole = next(one["name"] for one in graph["nodes"] if "_foreach_" in one["target"] and "_." in one["target"])
    results = [one for one in graph["nodes"] if one["inputs"][:1] == [whole] and "getitem" in one["target"]]
    assert len(results) == 2
    stored = {node for call in graph["calls"] for one in call["values"]["stores"] for node in one["nodes"]}
    assert {one["name"] for one in results} <= stored
    assert all(one["buffer"] and one["by"] == "values" for one in results)


def test_memory_that_another_call_wrote_since_holds_what_that_left():
    first = call("triton_poi_fused_new_zeros_0", 145, stores={"buf0": (["full_default"], None)})
    second = call("triton_poi_fused_exp_index_add_new_zeros_1", 152, reads=["buf0", "arg0_1"],
                  stores={"buf0": (["index_put"], None)})  # fmt: skip
    held = buffers(arg0_1=["arg0_1"], buf0=["index_put"], returned=["buf0"])
    capture = with_ties("index_add", "simulated", ties([first, second], held, buffer=["full_default", "index_put"]))
    one, other = capture["graphs"][0]["calls"]
    assert other["values"]["reads"] == [
        {"buffer": "buf0", "nodes": ["full_default"], "part": None, "returned": True},
        {"buffer": "arg0_1", "nodes": ["arg0_1"], "part": None, "returned": False},
    ]
    assert (one["values"]["computes"], other["values"]["computes"]) == (["full_default"], ["index_put"])
    # what is overwritten is not what the graph returns
    assert [each["values"]["stores"][0]["returned"] for each in (one, other)] == [False, True]
    librarys = ties([first, {**second, "writes": []}], held, buffer=["full_default", "index_put"])
    one = with_ties("index_add", "simulated", librarys)["graphs"][0]["calls"][0]
    assert one["values"]["stores"][0]["returned"] is False
    taken_over = {**second, "reads": ["buf0"], "in_place": [["buf7", "arg0_1"]], "stores": []}
    third = call("triton_poi_fused_exp_index_add_new_zeros_1", 152, reads=["arg0_1"])
    capture = with_ties("index_add", "simulated", ties([first, {**taken_over, "line": 1}, third], held))
    assert capture["graphs"][0]["calls"][1]["values"]["reads"][0]["nodes"] == []


def test_what_a_call_computes_is_by_values_where_it_was_run_and_by_notes_elsewhere():
    fill = call("triton_poi_fused_new_zeros_0", 145, lines={23: ("full_default", None)})
    capture = with_ties("index_add", "simulated", ties([fill], buffers(buf0=[])))
    first, second = capture["graphs"][0]["calls"]
    assert (is_verified(first), computed(first)) == (True, ["full_default"])
    assert (is_verified(second), computed(second)) == (False, second["aten_nodes"])
    [link] = [
        one for one in capture["links"]
        if one["kind"] == "operation" and one["from"].startswith("aten") and one["to"].startswith("code")
    ]  # fmt: skip
    node = next(one for one in capture["graphs"][0]["nodes"] if one["name"] == "full_default")
    kernel = next(one for one in capture["graphs"][0]["kernels"] if one["name"] == first["kernel"])
    assert [node["line"], kernel["first"] + 22] in link["pairs"]


def test_a_view_is_told_as_what_it_is_a_view_of_and_a_piece_of_it_as_a_part():
    name, target = "unfolded", "simulated"
    graph = captured(name, target).capture["graphs"][0]
    one = graph["calls"][0]
    views = [node for node in graph["nodes"] if node["fate"] == "view"]
    capture = with_ties(name, target, ties([call(one["kernel"], one["line"])], {}, buffer=[v["name"] for v in views]))
    fates = {node["name"]: node["fate"] for node in capture["graphs"][0]["nodes"]}
    assert {fates[node["name"]] for node in views} == {"view"}
    assert views


def test_a_watch_without_ties_is_what_it_was():
    watched = read_watched(path_of("index_add", "simulated", NEWEST))
    assert "ties" not in watched["lowered"][0]
    [graph] = as_capture(watched)["graphs"]
    assert "verified" not in graph
    assert not any("values" in one for one in graph["calls"])
    assert not any("by" in one for one in (*graph["nodes"], *graph["buffers"]))


@pytest.mark.parametrize("spoilt", [{"calls": [{"kernel": "a"}]}, {"nodes": None}, {"buffers": {"buf0": {}}}])
def test_ties_that_cannot_be_read_leave_the_graph_to_notes(spoilt):
    fill = call("triton_poi_fused_new_zeros_0", 145, lines={23: ("full_default", None)})
    found = {**ties([fill], buffers(buf0=["full_default"])), **spoilt}
    capture = with_ties("index_add", "simulated", found)
    assert capture["graphs"][0]["verified"] == {"inputs": 0, "refused": "unreadable", "kernels": [0, 2]}
    assert told_by_notes(capture)["graphs"] == captured("index_add", "simulated").capture["graphs"]
    assert "(what was found of it cannot be read)" in annotate(capture)


def test_what_a_library_computes_stays_its_own_where_a_kernel_copies_it():
    inputs = torch.randn(2, 4, 6), torch.randn(2, 6, 3), torch.randn(4, 5)
    watched = watch_model(
        lambda a, b, w: (a @ b).transpose(1, 2).reshape(6, 4) @ w, inputs, target="simulated", name="m",
        machine_code=False, verify=True,
    )  # fmt: skip
    [graph] = as_capture(watched)["graphs"]
    fates = {node["name"]: node["fate"] for node in graph["nodes"]}
    assert {name: fate for name, fate in fates.items() if name.startswith(("bmm", "clone", "mm"))} == {
        "bmm": "extern call", "clone": "materialised", "mm": "extern call"
    }  # fmt: skip


def test_what_may_be_equal_by_chance_is_tied_where_it_is_meant():
    """`erf` is on line 32 of the kernel's text, and `mul` on line 29; a constant on line 34 may equal either."""
    kernel = "triton_poi_fused_add_constant_pad_nd_convolution_gelu_1"
    given = {"lines": {29: ("mul", None), 34: ("erf", None)}, "stores": {"buf2": (["erf"], None)}}
    told = {}
    for few in (False, True):
        one = call(kernel, 174, **given, reads=["buf1", "arg2_1", "arg0_1"])
        found = ties([one], buffers(buf2=["erf"]), line=["mul", "erf"])
        found["nodes"] = {name: {**node, "few": few} for name, node in found["nodes"].items()}
        graph = with_ties("conv_1d", "simulated", found)["graphs"][0]
        [values] = [each["values"] for each in graph["calls"] if each["kernel"] == kernel]
        told[few] = values["computes"], values["stores"][0]["nodes"]
    assert told == {False: (["mul", "erf"], ["erf"]), True: (["mul"], [])}


def test_a_line_is_no_node_that_has_its_values_by_chance():
    """On these inputs no label is left out, so that `where` has the labels and `where_1` what `neg` has."""
    kernel = "triton_per_fused__log_softmax_nll_loss_forward_1"
    lines = {  # by line of the kernel's text: what it does, and which nodes have its values
        32: ["where"],  # loads the labels, `primals_4`
        36: ["ne"],
        42: ["where"],
        46: ["sub_1", "where_1"],  # subtracts
        47: ["neg", "where_1"],  # negates
        49: ["neg", "where_1"],  # chooses
        50: ["neg", "where_1"],  # hands that on to a sum
        54: ["ne", "neg"],  # divides
        48: ["sum_2"],  # a zero, `full_default_1`
    }
    one = call(kernel, 225, lines={number: (names[0], None) for number, names in lines.items()}, reads=["buf0"])
    for line in one["lines"]:
        line["nodes"] = lines[line["line"]]
    graph = with_ties("cross_entropy_train", "simulated", ties([one], buffers(buf0=["addmm"]), line=[]), None)[
        "graphs"
    ][0]
    [first] = [each["first"] for each in graph["kernels"] if each["name"] == kernel]
    [values] = [each["values"] for each in graph["calls"] if each["kernel"] == kernel]
    told = {line["line"] - first + 1: line["nodes"] for line in values["lines"]}
    assert told == {36: ["ne"], 42: ["where"], 46: ["sub_1"], 47: ["neg"], 49: ["where_1"], 50: ["where_1"]}
    assert values["computes"] == ["ne", "where", "sub_1", "neg", "where_1"]


@pytest.mark.parametrize(
    ("model", "few", "lines", "left"),
    [
        # a mask in another width of its lanes is the comparison that it was, whatever it is cast for
        (
            "softmax",
            ["eq_tensor", "mul_tensor_3"],
            {36: ["eq_tensor"], 41: ["eq_tensor", "mul_tensor_3"], 43: ["mul_tensor_3"]},
            {36: ["eq_tensor"], 41: ["eq_tensor"], 43: ["mul_tensor_3"]},
        ),
        # one number in every lane is an element of much
        ("rms_norm", [], {45: ["rsqrt"], 46: ["rsqrt", "mul"]}, {45: ["rsqrt"]}),
        # an index that is held against its bounds is not what is looked up
        ("gather_columns", ["gather"], {18: ["gather"]}, {}),
    ],
)
def test_a_line_of_c_plus_plus_that_passes_a_value_on_is_what_the_value_was(model, few, lines, left):
    [kernel] = captured(model, "cpu").capture["graphs"][0]["kernels"]
    at = captured(model, "cpu").capture["graphs"][0]["calls"][0]["line"]
    one = call(kernel["name"], at, lines={number: (nodes[0], None) for number, nodes in lines.items()}, reads=[])
    for line in one["lines"]:
        line["nodes"] = lines[line["line"]]
        line["name"] = f"tmp{line['line']}"
        line["part"] = "slice" if model == "rms_norm" else None
    found = ties([one], buffers(), line=few)
    for name in few:
        found["nodes"][name]["few"] = True
    [values] = [each["values"] for each in with_ties(model, "cpu", found)["graphs"][0]["calls"]]
    assert {line["line"] - kernel["first"] + 1: line["nodes"] for line in values["lines"]} == left


def test_a_rounding_is_of_what_was_computed_and_of_no_equal_node():
    graphs = captured("bf16_layer_norm_train", "simulated").capture["graphs"]
    [kernel] = [one for one in graphs[0]["kernels"] if "to_copy_mean" in one["name"]]
    [at] = [one["line"] for one in graphs[0]["calls"] if one["kernel"] == kernel["name"]]
    one = call(kernel["name"], at, lines={45: ("add_1", None), 46: ("sub", None)}, reads=[])
    one["lines"][1]["nodes"] = ["sub", "add_1", "convert_element_type_1"]
    capture = with_ties("bf16_layer_norm_train", "simulated", ties([one], buffers()), None)
    [values] = [each["values"] for each in capture["graphs"][0]["calls"] if each["kernel"] == kernel["name"]]
    told = {line["line"] - kernel["first"] + 1: line["nodes"] for line in values["lines"]}
    assert told == {45: ["add_1"], 46: ["convert_element_type_1", "add_1"]}
    assert "sub" not in values["computes"]


def test_of_equal_nodes_a_cast_is_first_what_it_casts():
    """And not what was computed last, though that has the values as well."""
    graphs = captured("bf16_layer_norm_train", "simulated").capture["graphs"]
    [kernel] = [one for one in graphs[0]["kernels"] if "to_copy_mean" in one["name"]]
    [at] = [one["line"] for one in graphs[0]["calls"] if one["kernel"] == kernel["name"]]
    one = call(kernel["name"], at, lines={37: ("mean", None), 40: ("sub", None), 42: ("sub", None)}, reads=["buf9"])
    one["lines"][0]["nodes"], one["lines"][2]["nodes"] = ["mean", "sub"], ["sub", "mean"]
    capture = with_ties("bf16_layer_norm_train", "simulated", ties([one], buffers(buf9=["mean", "sub"])), None)
    [values] = [each["values"] for each in capture["graphs"][0]["calls"] if each["kernel"] == kernel["name"]]
    told = {line["line"] - kernel["first"] + 1: line["nodes"] for line in values["lines"]}
    assert told == {37: ["mean", "sub"], 40: ["sub"], 42: ["mean", "sub"]}


def test_what_a_line_loads_is_named_after_the_memory():
    kernel = "triton_per_fused__log_softmax_nll_loss_forward_1"
    one = call(kernel, 225, lines={33: ("sub_1", None)}, reads=["buf0"])
    one["lines"][0]["nodes"] = ["sub_tensor", "addmm"]
    graph = with_ties("cross_entropy_train", "simulated", ties([one], buffers(buf0=["addmm"]), line=[]), None)[
        "graphs"
    ][0]
    [values] = [each["values"] for each in graph["calls"] if each["kernel"] == kernel]
    assert values["lines"][0]["nodes"] == ["addmm", "sub_tensor"]
    assert not values["computes"]  # a difference with 0 is in no load


def test_a_load_computes_a_look_up_and_no_arithmetic():
    kernel = "triton_per_fused__log_softmax_nll_loss_forward_1"
    one = call(kernel, 225, lines={33: ("sub_tensor", None)}, reads=["buf0"])
    graph = with_ties("cross_entropy_train", "simulated", ties([one], buffers(buf0=[]), line=[]), None)["graphs"][0]
    [values] = [each["values"] for each in graph["calls"] if each["kernel"] == kernel]
    assert not values["computes"]


def test_what_is_stored_before_it_is_rounded_was_written_to_memory():
    first = call("triton_poi_fused_exp_index_add_new_zeros_1", 152, stores={"buf0": (["index_put"], "unrounded")})
    capture = with_ties("index_add", "simulated", ties([first], buffers(buf0=["index_put"]), buffer=["index_put"]))
    [node] = [one for one in capture["graphs"][0]["nodes"] if one["name"] == "index_put"]
    assert (node["fate"], node.get("by")) == ("materialised", "values")


@pytest.mark.parametrize("taken", [True, False])
def test_memory_that_a_call_takes_over_holds_no_longer_what_the_graph_returns(taken):
    first = call("triton_poi_fused_new_zeros_0", 145, stores={"buf0": (["full_default"], None)})
    second = refused("triton_poi_fused_exp_index_add_new_zeros_1", 152, "time")
    second["in_place"] = [["buf7", "buf0"]] if taken else []
    held = buffers(buf0=["full_default"], returned=["buf0"])
    capture = with_ties("index_add", "simulated", ties([first, second], held, buffer=["full_default"]))
    [store] = capture["graphs"][0]["calls"][0]["values"]["stores"]
    assert store["returned"] is not taken


@pytest.mark.parametrize(
    ("of_second", "returned"),
    [
        ({"in_place": [["buf0", "buf0"]]}, False),  # under the same name
        ({"reads": ["buf7"], "status": "refused"}, False),  # under another, by a call that was not run
        ({"reads": ["buf7"]}, True),
        ({"reads": ["arg0_1"], "status": "refused"}, True),
    ],
)
def test_a_part_that_is_written_again_is_not_what_the_graph_returns(of_second, returned):
    first = call("triton_poi_fused_new_zeros_0", 145, stores={"buf0": (["full_default"], "repeated")})
    second = {**call("triton_poi_fused_exp_index_add_new_zeros_1", 152), **of_second}
    held = buffers(arg0_1=["arg0_1"], buf0=["full_default"], buf7=[], returned=["buf0"])
    held["buf7"]["allocation"] = held["buf0"]["allocation"]
    capture = with_ties("index_add", "simulated", ties([first, second], held, buffer=["full_default"]))
    [store] = capture["graphs"][0]["calls"][0]["values"]["stores"]
    assert store["returned"] is returned


@pytest.mark.parametrize(("few", "left"), [(True, [40]), (False, [38, 39, 40])])
def test_a_sum_of_few_kinds_of_values_is_tied_to_its_last_line_alone(few, left):
    kernel = "triton_per_fused__log_softmax_nll_loss_forward_1"
    one = call(kernel, 225, lines=dict.fromkeys((38, 39, 40), ("sum_2", None)), reads=["buf0"])
    found = ties([one], buffers(buf0=["addmm"]), line=["sum_2"])
    found["nodes"]["sum_2"]["few"] = few
    graph = with_ties("cross_entropy_train", "simulated", found, None)["graphs"][0]
    [first] = [each["first"] for each in graph["kernels"] if each["name"] == kernel]
    [values] = [each["values"] for each in graph["calls"] if each["kernel"] == kernel]
    assert [line["line"] - first + 1 for line in values["lines"]] == left


@pytest.mark.parametrize("part", ["unrounded", "repeated", "of a kind that came later"])
def test_a_part_that_has_no_words_loses_no_page(part):
    fill = call("triton_poi_fused_new_zeros_0", 145, lines={23: ("full_default", part)})
    fill |= {"stores": [{"buffer": "buf0", "nodes": ["full_default"], "part": part, "elements": 4, "line": None}]}
    capture = with_ties("index_add", "simulated", ties([fill], buffers(buf0=[])))
    for language in ("en", "es"):
        assert "full_default" in annotate(capture, kernel=capture["graphs"][0]["calls"][0]["id"], language=language)
