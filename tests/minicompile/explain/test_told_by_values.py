"""Each kind of sentence that was false of a model nobody had seen, told right by values, or by notes as notes."""

import json
import re
from types import SimpleNamespace

import pytest
from tied import ELEMENTS, buffers, call, refused, ties, with_ties
from zoo_models import captured
from zoo_proofs import schema

from minicompile.explain.annotation import facts
from minicompile.explain.annotation.annotate import annotate
from minicompile.explain.annotation.choice import views_of
from minicompile.explain.annotation.headline import in_order
from minicompile.explain.capture_diff import diff_compiles
from minicompile.explain.capture_diff_text import described
from minicompile.explain.explorer.payload import payload
from minicompile.explain.explorer.questions import questions
from minicompile.explain.summary import summary
from minicompile.lowering.captured import Capture
from minilab.config.check import check_schema

NOTES = "By Inductor's notes:"


def page(capture: Capture, kernel: str, language: str = "en") -> str:
    return annotate(capture, language, kernel=kernel).split("## The kernel, line by line")[0]


def head(text: str) -> str:
    """The sentence under a page's title and notes, about the kernel as a whole."""
    return next(line for line in text.splitlines() if line.startswith(("This ", NOTES)))


@pytest.fixture(scope="module")
def biased() -> Capture:
    """A convolution whose bias Inductor's kernel adds to what the library left."""
    pad = call("triton_poi_fused_constant_pad_nd_0", 163, lines={28: ("constant_pad_nd", None)},
               stores={"buf0": (["constant_pad_nd"], None)}, reads=["arg0_1"])  # fmt: skip
    library = call("extern_kernels.convolution", 167, kind="library", stores={"buf1": (["convolution"], "other")})
    named = {27: "convolution", 29: "mul", 31: "mul_1", 32: "erf", 34: "add", 35: "mul_2", 36: "add_1"}
    rest = call(
        "triton_poi_fused_add_constant_pad_nd_convolution_gelu_1",
        174,
        lines={line: (name, None) for line, name in named.items()},
        stores={"buf2": (["add_1"], None)},
        reads=["buf2", "arg2_1", "arg0_1"],
        in_place=[["buf2", "buf1"]],
    )
    held = buffers(arg0_1=["arg0_1"], arg1_1=["arg1_1"], arg2_1=["arg2_1"], buf0=["constant_pad_nd"], buf1=[],
                   buf2=["add_1"], returned=["buf2"], taken_over={"buf2": "buf1"})  # fmt: skip
    places = {"buffer": ["constant_pad_nd", "add_1"], "line": ["convolution", "mul", "mul_1", "erf", "add", "mul_2"]}
    return with_ties("conv_1d", "simulated", ties([pad, library, rest], held, **places))


@pytest.fixture(scope="module")
def scattered() -> Capture:
    """Memory that one kernel prepares, a library's scatter that changes it, and a kernel that reads it."""
    fill = call("triton_poi_fused_abs_scatter_reduce_zeros_0", 173, lines={23: ("full_default", None)},
                stores={"buf0": (["full_default"], None)})  # fmt: skip
    absolute = call("triton_poi_fused_abs_1", 179, lines={24: ("abs_1", None)}, stores={"buf1": (["abs_1"], None)},
                    reads=["arg1_1"])  # fmt: skip
    library = call("aten.scatter_reduce_", 183, kind="library", stores={"buf0": (["scatter_reduce"], None)})
    last = refused("triton_poi_fused_add_2", 189, "time")
    held = buffers(arg0_1=["arg0_1"], arg1_1=["arg1_1"], buf0=["scatter_reduce"], buf1=["abs_1"], buf3=[])
    places = {"buffer": ["full_default", "abs_1"], "library": ["scatter_reduce"], "nowhere": ["add"]}
    return with_ties("scatter_maximum", "simulated", ties([fill, absolute, library, last], held, **places))


@pytest.fixture(scope="module")
def added() -> Capture:
    """A scatter that a kernel does by atomic additions, into memory that another has prepared."""
    fill = call("triton_poi_fused_new_zeros_0", 145, lines={23: ("full_default", None)},
                stores={"buf0": (["full_default"], None)})  # fmt: skip
    atomic = call(
        "triton_poi_fused_exp_index_add_new_zeros_1",
        152,
        lines={32: ("exp", None)},
        stores={"buf0": (["index_put"], None)},
        reads=["arg1_1", "arg0_1"],
    )
    held = buffers(arg0_1=["arg0_1"], arg1_1=["arg1_1"], buf0=["index_put"], returned=["buf0"])
    places = {"buffer": ["full_default", "index_put"], "line": ["exp"]}
    return with_ties("index_add", "simulated", ties([fill, atomic], held, **places))


def test_what_a_library_begins_and_a_kernel_finishes_is_told_of_both(biased):
    text = page(biased, "triton_poi_fused_add_constant_pad_nd_convolution_gelu_1")
    assert head(text).startswith("This kernel computes, in this order: the rest of `convolution`, multiply (2 times)")
    assert "7 operations are in this one kernel" in text
    [row] = [line for line in text.splitlines() if line.startswith("| `aten.convolution.default`")][:1]
    assert row.endswith("| begun by a library's kernel and finished here |")
    assert "computed by a library's kernel" not in text
    assert "- `buf1`, a part of the result of `aten.convolution.default` (`convolution`)" in text
    assert NOTES not in text.replace("by Inductor's notes for", "")


def test_a_kernel_that_prepares_memory_stores_what_it_stores_and_computes_no_scatter(scattered, added):
    for capture, kernel in (
        (scattered, "triton_poi_fused_abs_scatter_reduce_zeros_0"),
        (added, "triton_poi_fused_new_zeros_0"),
    ):
        text = page(capture, kernel)
        assert head(text) == "This kernel computes, in this order: fill with one value."
        assert "no ATen operation's result" not in text
        assert "| written to memory |" in text
        assert "- `buf0`, the result of `aten.full.default` (`full_default`)" in text
    assert "`index_put`" not in page(added, "triton_poi_fused_new_zeros_0")
    text = page(added, "triton_poi_fused_exp_index_add_new_zeros_1")
    assert head(text) == "This kernel computes, in this order: exponential, `index_put_`."
    assert "- `buf1`, the result of `aten.index_put_.default` (`index_put`)" in text
    assert "The graph returns it." in text


def test_memory_that_a_library_changes_afterwards_is_no_result_of_the_kernel_that_prepares_it():
    """A number in the text is no node's value by itself; then what the memory has in the end is the library's."""
    fill = call("triton_poi_fused_abs_scatter_reduce_zeros_0", 173)
    library = call("aten.scatter_reduce_.two", 183, kind="library", stores={"buf0": (["scatter_reduce"], None)})
    held = buffers(arg0_1=["arg0_1"], arg1_1=["arg1_1"], buf0=["scatter_reduce"], returned=["buf0"])
    capture = with_ties("scatter_maximum", "simulated", ties([fill, library], held, library=["scatter_reduce"]))
    text = page(capture, "triton_poi_fused_abs_scatter_reduce_zeros_0")
    written = next(line for line in text.splitlines() if line.startswith("- `buf0`"))
    assert written.startswith("- `buf0`, filled with one value (")
    assert "returns it" not in written


def test_memory_of_which_a_part_is_read_again_is_named_after_all_that_the_kernel_left_there():
    nodes = {"sum": {"name": "sum", "fate": "materialised", "inputs": [], "size": ["6"]},
             "diagonal": {"name": "diagonal", "fate": "view", "inputs": ["sum"], "size": ["6"]},
             "cos": {"name": "cos", "fate": "inlined", "inputs": [], "size": ["6"]}}  # fmt: skip
    left = {"buffer": "buf0", "nodes": ["sum"], "part": "unrounded", "returned": True}
    entry = {"given": "buf0", "content": "buf0", "element": "6*p0", "places": [{"lines": [9]}]}
    for seen, told in (("diagonal", "sum"), ("sum", "sum"), ("cos", "cos")):
        values = {"reads": [], "stores": [left], "lines": [{"line": 9, "nodes": [seen], "part": None}]}
        found = facts._read(SimpleNamespace(values=values, written={"buf0"}, nodes=nodes, buffers={}), entry)
        assert found["nodes"] == [told]
        assert not found["returned"]


def test_steps_are_told_in_the_order_of_the_loop_that_needs_them_first():
    """The largest is found of what `relu` gives, in a loop before the one whose line `relu` was found in."""
    nodes = {name: {"name": name, "inputs": inputs, "fate": "inlined"} for name, inputs in (
        ("relu", []), ("amax", ["relu"]), ("exp", ["amax", "relu"]), ("log", ["exp"]), ("pow", []))}  # fmt: skip
    lines = [{"line": line, "nodes": [name]} for name, line in (("amax", 3), ("exp", 4), ("log", 5), ("pow", 7))]
    values = {"computes": ["amax", "exp", "log", "pow"], "lines": [*lines, {"line": 9, "nodes": ["relu"]}]}
    view = SimpleNamespace(
        fused=[*nodes.values()], nodes=nodes, code=[""] * 9, operations={}, values=values | {"again": ["relu"]},
        graph={"panes": {"aten": "a"}}, pane=lambda _name: "",
    )  # fmt: skip
    assert [one["name"] for one in in_order(view)] == ["relu", "amax", "exp", "log", "pow"]


def test_what_could_not_be_run_is_told_by_notes_and_the_head_counts_it(scattered):
    assert "What is told of 2 of 3 calls of kernels is verified by values, with 3 sets of inputs" in annotate(scattered)
    text = page(scattered, "triton_poi_fused_add_2")
    assert head(text) == f"{NOTES} This kernel computes, in this order: add."
    assert "This kernel could not be verified (it took too long to run)" in text
    assert f"{NOTES} Nothing was fused here: the kernel computes one ATen operation alone." in text
    assert "- `buf3`, by Inductor's notes the result of `aten.add.Tensor` (`add`)" in text
    sampled = page(scattered, "triton_poi_fused_abs_1")
    assert f"verified by its values: {2 * ELEMENTS} of them were compared, with 3 sets of inputs." in sampled


def test_spanish_says_the_same(scattered, biased):
    text = page(scattered, "triton_poi_fused_add_2", "es")
    assert "Según las notas de Inductor: Este kernel calcula, en este orden: sumar." in text
    assert "No se pudo comprobar" not in text
    assert "Este kernel no se pudo comprobar (tardaba demasiado en ejecutarse)" in text
    other = page(biased, "triton_poi_fused_add_constant_pad_nd_convolution_gelu_1", "es")
    assert "el resto de `convolution`" in other
    assert "Según las notas" not in other


def test_lines_are_what_their_values_are(biased):
    text = annotate(biased, kernel="triton_poi_fused_add_constant_pad_nd_convolution_gelu_1")
    comments = dict(re.findall(r"^ *# \d+: (.*)\n *(tmp\d+) = ", text, re.M)[::-1])
    by_name = {name: comment for comment, name in comments.items()}
    assert by_name["tmp2"].startswith("aten.convolution.default (convolution), conv_1d.py:")
    assert by_name["tmp7"].startswith("aten.erf.default (erf), conv_1d.py:")
    assert not by_name["tmp3"].startswith("aten.")  # a constant
    assert "reads arg2_1[" in by_name["tmp1"]


def test_nothing_that_was_not_run_is_told_as_if_it_was(biased):
    capture = captured("conv_1d", "simulated").capture
    text = annotate(capture)
    assert "Nothing of this compile was run to verify it" in text
    assert head(text).startswith(NOTES)
    assert {"noted": True}.items() <= next(
        node for node in payload([capture], [None])["captures"][0]["graphs"][0]["nodes"] if node["name"] == "erf"
    ).items()
    packed = payload([biased], [None])["captures"][0]["graphs"][0]
    assert not next(node for node in packed["nodes"] if node["name"] == "erf")["noted"]
    said = "What is told of its 2 kernels' calls is verified by values, with 3 sets of inputs; where it is not,"
    assert packed["inner"] == [f"{said} it says so."]
    code = next(pane["lines"] for pane in biased["panes"] if pane["kind"] == "code")
    named = {nodes[0]: code[line - 1] for line, nodes in packed["line_values"].items()}
    assert "libdevice.erf(tmp6)" in named["erf"]
    assert "tmp0 + tmp1" in named["convolution"]
    assert [one["verified"] for one in packed["calls"] if not one["extern"]] == [True, True]
    assert summary(biased)["verified"] == packed["inner"]


def test_questions_and_their_answers_say_where_they_are_from(biased):
    found = {one.name: one.answer for one in questions(biased)}
    noted = {one.name: one.answer for one in questions(captured("conv_1d", "simulated").capture)}
    assert found["never_written"].startswith("No kernel stores its")
    assert noted["never_written"].startswith(f"{NOTES} No kernel stores its")


@pytest.mark.parametrize("model", ["biased", "scattered", "added"])
def test_a_verified_capture_keeps_to_its_schema_and_is_told_in_both_languages(model, request):
    capture = request.getfixturevalue(model)
    check_schema(json.loads(json.dumps(capture)), schema(), model)
    for view in views_of(capture):
        for language in ("en", "es"):
            assert annotate(capture, language, kernel=view.call["id"]).startswith("# ")


def test_views_of_what_a_kernel_does_not_read_are_not_told_of_it(added):
    for view in views_of(added):
        names = {node["name"] for node in view.fused}
        given = {name for node in view.fused for name in node["inputs"]} | names
        assert all({node["name"]} <= given or node["fate"] == "view" for node in view.views)
    capture = captured("batch_norm_train", "simulated").capture
    for view in views_of(capture):
        if facts.fused(view).what.startswith("Nothing was fused here: the kernel computes no ATen operation"):
            assert not view.views


def rows(text: str) -> dict[str, str]:
    """What the first table of a page says became of each node's result."""
    table = text.partition("what became of the result |")[2].partition("\n\n")[0]
    if not table:
        return {}
    return {row.split("|")[2].strip(" `"): row.split("|")[-2].strip() for row in table.strip().splitlines()[1:]}


def of_one_call(name: str, kernel: str, at: int, held: dict, found: dict, **where: list[str]) -> Capture:
    """A model of one kernel's call alone, with ties for it; other calls could not be run."""
    capture = captured(name, "simulated").capture
    [graph] = capture["graphs"]
    others = [refused(one["kernel"], one["line"], "time") for one in graph["calls"] if one["line"] != at]
    return with_ties(name, "simulated", ties([call(kernel, at, **found), *others], held, **where))


def test_what_was_copied_into_an_input_is_in_memory_whoever_the_store_was_written_for():
    kernel = "triton_poi_fused_copy_sigmoid_slice_0"
    assert rows(page(captured("input_slices", "simulated").capture, kernel))["copy__default"].startswith("part of its")
    found = {"lines": {26: ("sigmoid", None)}, "stores": {"arg1_1": (["copy__default"], None)}, "reads": ["arg0_1"]}
    held = buffers(arg0_1=["arg0_1"], arg1_1=["copy__default"])
    capture = of_one_call("input_slices", kernel, 155, held, found, buffer=["copy__default"], line=["sigmoid"])
    text = page(capture, kernel)
    # a call that was not run may store it
    assert rows(text) == {
        "sigmoid": f"{NOTES} part of its consumers' loops; it never was a buffer",
        "copy__default": "written to memory",
    }
    assert head(text) == "This kernel computes, in this order: `sigmoid`, copy into an input."
    intermediates = text.partition("No kernel stores these results as a whole:")[2]
    assert "`sigmoid`" in intermediates
    assert "`copy__default`" not in intermediates


def test_results_of_a_foreach_operation_are_told_one_by_one():
    kernel = "triton_for_fused_0"
    lines = {30: "getitem", 32: "getitem_3", 44: "getitem_1", 46: "getitem_4", 58: "getitem_2", 60: "getitem_5"}
    stored = {"buf0": "getitem_3", "buf1": "getitem_4", "buf2": "getitem_5"}
    found = {
        "lines": {line: (name, None) for line, name in lines.items()},
        "stores": {buffer: ([name], None) for buffer, name in stored.items()},
        "reads": ["arg0_1", "arg1_1", "arg2_1"],
    }
    held = buffers(**{buffer: [name] for buffer, name in stored.items()}, returned=[*stored])
    places = {"buffer": [*stored.values()], "line": ["getitem", "getitem_1", "getitem_2"]}
    text = page(of_one_call("foreach", kernel, 138, held, found, **places), kernel)
    assert head(text) == "This kernel computes, in this order: `_foreach_mul`, `_foreach_add`."
    assert rows(text)["_foreach_add"] == "; ".join(f"`{name}` written to memory" for name in stored.values())
    gone = text.partition("No kernel stores these results as a whole:")[2].partition("Together")[0]
    assert [name for name in ("getitem", *stored.values()) if f"`{name}`" in gone] == ["getitem"]
    assert text.count("The graph returns it.") == 3


def test_what_a_kernel_has_of_several_results_is_a_part():
    kernel = "triton_for_fused_0"
    found = {"lines": {30: ("getitem", None), 32: ("getitem_3", None)}, "stores": {"buf0": (["getitem_3"], None)}}
    text = page(of_one_call("foreach", kernel, 138, buffers(buf0=["getitem_3"]), found, buffer=["getitem_3"]), kernel)
    assert head(text) == "This kernel computes at least a part of `_foreach_mul`, `_foreach_add`."
    assert "No line of the kernel has all that an ATen operation results in:" in text
    assert rows(text) == {}


def test_what_was_found_in_no_line_is_told_by_notes_beside_what_was_found():
    kernel = "triton_per_fused_abs_add_gather_sort_0"
    found = {"lines": {34: ("abs_1", None), 42: ("gather", None), 44: ("add", None)},
             "stores": {"buf2": (["add"], None)}, "reads": ["arg1_1", "arg0_1"]}  # fmt: skip
    capture = of_one_call("arg_sorted", kernel, 128, buffers(buf2=["add"], returned=["buf2"]), found)
    text = page(capture, kernel)
    assert head(text) == "This kernel computes, among others and in this order: absolute value, gather, add."
    assert "In this kernel 3 operations were found:" in text
    assert f"{NOTES} It also computes `sort`, whose values were found in no line." in text
    assert "sort" not in rows(text)
    # what a scan or a sort is for is told by notes, and not against what was found
    assert "A sort: op1." in text
    notes = page(captured("arg_sorted", "simulated").capture, kernel)
    assert "A sort: op1, by Inductor's notes for `aten.sort.stable`" in notes


def test_a_part_and_a_value_that_is_rounded_later_are_told_as_what_they_are():
    kernel = "triton_per_fused_abs_add_gather_sort_0"
    found = {"lines": {34: ("abs_1", "partial"), 42: ("gather", "before_cast"), 44: ("add", None)},
             "stores": {"buf2": (["add"], "partial")}, "reads": ["arg1_1", "arg0_1"]}  # fmt: skip
    capture = of_one_call("arg_sorted", kernel, 128, buffers(buf2=[]), found)
    text = annotate(capture, kernel=kernel)
    assert head(text) == "This kernel computes, among others and in this order: gather, add."
    assert "It computes parts of `aten.abs.default` (`abs_1`), of which others make the whole." in text
    assert "The kernel also writes what is no ATen operation's result: `buf2`" in text
    assert "- `buf2`, parts of which others make the result of `aten.add.Tensor` (`add`)" in text
    assert re.search(r"# \d+: aten\.gather\.default \(gather\), arg_sorted\.py:\d+, not yet rounded", text)
    assert re.search(r"# \d+: a part of aten\.abs\.default \(abs_1\)", text)
    assert "Were each of the" not in text


def test_an_order_is_that_of_the_lines():
    kernel = "triton_poi_fused_add_constant_pad_nd_convolution_gelu_1"
    lines = {29: "mul", 31: "mul_1", 32: "erf", 34: "add", 35: "mul_2", 36: "add_1"}
    found = {"lines": {line: (name, None) for line, name in lines.items()}, "stores": {"buf2": (["add_1"], None)}}
    found |= {"again": ["erf"], "reads": ["buf1", "arg2_1", "arg0_1"]}
    capture = of_one_call("conv_1d", kernel, 174, buffers(buf2=["add_1"]), found, line=["mul"])
    text = page(capture, kernel)
    assert head(text).startswith("This kernel computes, in this order: multiply (2 times), `erf`, add, multiply, add.")
    assert "convolution" not in rows(text)


@pytest.mark.parametrize(
    ("name", "kernel", "told", "untold"),
    [
        # a maximum of all has no position; the bias of a convolution; memory for a scatter; a scan's own operation
        ("conv_3d", "triton_per_fused_convolution_mean_sigmoid_0", "the rest of `convolution`", "alone"),
        ("embedding_train", "triton_poi_fused_div_embedding_dense_backward_expand_mul_unsqueeze_0",
         "it only fills memory", "This kernel computes"),
        ("cumulative_product", "triton_per_fused_add_cumprod_cumsum_gt_sigmoid_0",
         "op0, by Inductor's notes for `aten.cumprod.default` (`cumprod`, cumulative_product.py:9).\n",
         "`sigmoid`, cum"),
        ("input_slices", "triton_poi_fused_copy_sigmoid_slice_0", "copy into an input", "another result"),
        ("flexible_attention", "triton_tem_fused__to_copy_flex_attention_ones_slice_sum_transpose_zeros_2",
         "and in it the functions that this is given: `sdpa_score0`, `sdpa_mask0`", "one ATen operation alone"),
        ("bag_of_rows", "triton_poi_fused__embedding_bag_arange_view_0", "ties the kernel to no ATen operation",
         "the rest of"),
        ("user_kernel", "add_one_0", "Inductor only calls it, for `triton_kernel_wrapper_mutation`.", "`sin`"),
    ],
)  # fmt: skip
def test_notes_are_not_told_where_the_code_refutes_them(name, kernel, told, untold):
    text = page(captured(name, "simulated").capture, kernel)
    assert told in text
    assert untold not in text


def changed(name: str, node: str, **fields: object) -> Capture:
    """A model's capture, a node of which is another."""
    capture = captured(name, "simulated").capture
    next(one for one in capture["graphs"][0]["nodes"] if one["name"] == node).update(fields)
    return capture


def test_a_maximum_has_a_position_where_it_is_asked_for():
    kernel = "triton_red_fused_abs_amax_mul_0"
    assert "absolute value, maximum, multiply" in page(changed("amax_all", "amax", target="aten.max.default"), kernel)
    without, capture = (changed("amax_all", "amax", target="aten.max.dim") for _ in range(2))
    assert "absolute value, maximum, multiply" in page(without, kernel)
    code = next(one for one in capture["panes"] if any(kernel in line for line in one["lines"]))
    assert any("triton_helpers.max2(" in line for line in code["lines"])
    code["lines"] = [line.replace("triton_helpers.max2(", "triton_helpers.max_with_index(") for line in code["lines"]]
    assert "maximum and its position, multiply" in page(capture, kernel)


def test_what_is_copied_into_no_input_is_not_said_to_be():
    kernel = "triton_poi_fused_add_copy__mul_0"
    assert "multiply, copy into an input." in page(captured("in_place", "simulated").capture, kernel)
    text = page(changed("in_place", "copy_", inputs=["add", "mul"]), kernel)
    assert "multiply, copy into a part of another result." in text


@pytest.mark.parametrize(("language", "said"), [("en", "told by Inductor's notes"), ("es", "las notas de Inductor")])
def test_a_comparison_says_what_it_is_told_by(biased, language, said):
    noted = captured("conv_1d", "simulated").capture
    assert said not in described(diff_compiles(biased, biased), language)
    assert said in described(diff_compiles(biased, noted), language)


def test_memory_in_which_is_looked_up_is_not_named_after_what_was_found_there():
    kernel = "triton_per_fused__log_softmax_nll_loss_forward_1"
    looked_up = call(kernel, 225, lines={44: ("gather", None)}, reads=["buf0"])
    found = ties([looked_up], buffers(buf0=[]), line=["gather"])
    told = page(with_ties("cross_entropy_train", "simulated", found, None), kernel)
    read = next(line for line in told.splitlines() if line.startswith("- `buf0`"))
    assert "by Inductor's notes the result of `aten.addmm.default` (`addmm`)" in read
    assert "gather" not in read


@pytest.mark.parametrize(("rows", "said"), [(10, "the result of"), (11, "in a part of it the result of")])
def test_memory_that_is_given_whole_has_what_is_smaller_in_a_part_of_it(rows, said):
    """`buf1` is rows of `buf0`, which is what the kernel is given and what the page names."""
    view = views_of(captured("index_add", "simulated").capture)[1]
    view.buffers["buf0"] = {**view.buffers["buf0"], "size": [rows, 4]}
    found = {"buffer": "buf0", "nodes": ["index_put"], "part": None, "returned": False}
    assert facts.what_is(view, "buf1", found).what.startswith(said)
