"""The annotation's parts: which kernel is chosen, pointer arithmetic, patterns, comments."""

import copy
import re

import pytest
from annotation_models import load
from hypothesis import given
from hypothesis import strategies as st
from zoo_models import captured

from minicompile.explain.annotation import facts
from minicompile.explain.annotation.annotate import annotate
from minicompile.explain.annotation.choice import most_interesting, returns_softmax, views_of
from minicompile.explain.annotation.headline import headline, in_order, named_whole, operation_of, passes_on
from minicompile.explain.annotation.lines import commented
from minicompile.explain.annotation.patterns import SECTIONS, _patterns, meaning, not_as_named, said
from minicompile.explain.annotation.pointers import plain
from minilab.pages.translations import Translations

UNTIED = Translations("minicompile.explain", "annotation")("lines.operation")


@pytest.mark.parametrize(
    ("name", "target", "whole", "axes", "alone"),
    [
        ("tiny_head", "cpu", "softmax", (1,), True),
        ("tiny_head", "simulated", "softmax", (1,), True),
        ("cross_entropy", "cpu", "log_softmax", (1,), False),
        ("layer_norm", "cpu", "layer_norm", (1,), False),
        ("rms_norm_silu", "simulated", "rms_norm", (1,), False),
    ],
)
def test_what_is_computed_is_recognised_by_its_structure(name, target, whole, axes, alone):
    found = named_whole(most_interesting(load(name, target)))
    assert (found.name, found.axes, found.alone) == (whole, axes, alone)


@pytest.mark.parametrize(("name", "target"), [("chain", "cpu"), ("negate", "cpu"), ("wide_softmax", "simulated")])
def test_what_is_no_known_computation_or_only_part_of_one_has_no_name(name, target):
    for view in views_of(load(name, target)):
        assert named_whole(view) is None


def node(capture: dict, name: str) -> dict:
    return next(one for one in capture["graphs"][0]["nodes"] if one["name"] == name)


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("sub", ["addmm", "addmm"]),  # no maximum is subtracted
        ("amax", ["arg2_1"]),  # the maximum of something else
        ("sum_1", ["sub"]),  # what is summed is no exponential
        ("div", ["sub", "sum_1"]),  # what is divided is none
        ("div", ["sum_1", "exp"]),  # upside down
    ],
)
def test_a_graph_that_differs_in_one_operand_is_no_softmax(name, inputs):
    capture = load("tiny_head", "cpu")
    node(capture, name)["inputs"] = inputs
    view = most_interesting(capture)
    assert named_whole(view) is None
    assert not returns_softmax(view)
    assert "softmax over" not in headline(view).what


def test_a_maximum_and_a_sum_along_different_axes_are_no_softmax():
    capture = load("tiny_head", "cpu")
    aten = next(pane for pane in capture["panes"] if pane["kind"] == "aten")
    line = node(capture, "amax")["line"] - 1
    aten["lines"][line] = aten["lines"][line].replace("[-1]", "[0]")
    assert named_whole(most_interesting(capture)) is None


@pytest.mark.parametrize("name", ["amax", "sum_1"])
def test_what_is_spread_along_another_axis_than_it_was_reduced_is_no_softmax(name):
    capture = load("tiny_head", "cpu")
    node(capture, name)["size"] = [1, 600]
    assert named_whole(most_interesting(capture)) is None


def test_axes_are_those_of_what_is_reduced_and_not_of_what_it_is_a_view_of():
    capture = load("tiny_head", "cpu")
    node(capture, "addmm").update(fate="view", inputs=["arg2_1"])
    whole = named_whole(most_interesting(capture))
    assert (whole.fed_by, whole.size) == ("addmm", (2, 600))
    assert "This is softmax over the last axis of 2x600:" in annotate(capture)


def test_layer_norms_axes_are_the_last_ones():
    capture = load("layer_norm", "cpu")
    aten = next(pane for pane in capture["panes"] if pane["kind"] == "aten")
    line = node(capture, "var_mean")["line"] - 1
    aten["lines"][line] = aten["lines"][line].replace("[1]", "[0]", 1)
    for name in ("getitem", "getitem_1", "rsqrt"):
        node(capture, name)["size"] = [1, 256]
    view = most_interesting(capture)
    assert (named_whole(view).name, named_whole(view).axes) == ("standardise", (0,))
    assert (
        "the subtraction of the mean and the division by the standard deviation over axis 0 of 32x256"
        in headline(view).what
    )


@pytest.mark.parametrize(
    ("name", "call", "given", "other"),
    [("layer_norm", "var_mean", "correction = 0", "correction = 1"), ("rms_norm_silu", "pow_1", ", 2)", ", 4)")],
)
def test_a_norm_divides_by_the_root_of_a_mean_of_squares_and_not_of_a_samples_variance(name, call, given, other):
    capture = load(name, "simulated")
    aten = next(pane for pane in capture["panes"] if pane["kind"] == "aten")
    line = node(capture, call)["line"] - 1
    assert given in aten["lines"][line]
    assert named_whole(most_interesting(capture)) is not None
    aten["lines"][line] = aten["lines"][line].replace(given, other)
    assert named_whole(most_interesting(capture)) is None


def test_a_conversion_is_told_before_what_takes_its_result():
    capture = load("tiny_head", "cpu")
    node(capture, "sub").update(target="prims.convert_element_type.default", inputs=["amax"])
    view = most_interesting(capture)
    vars(view).update(operations={}, fused=view.fused[::-1])
    told = [one["name"] for one in in_order(view)]
    assert told.index("sub") < told.index("exp")


@pytest.fixture(scope="module")
def cut_off():
    return captured("cut_off", "simulated").capture


def test_what_is_cut_off_on_the_way_is_told_and_a_norm_is_of_what_is_left(cut_off):
    wholes = [(view, named_whole(view)) for view in views_of(cut_off)]
    assert {whole.name for _, whole in wholes} == {"layer_norm", "softmax", "rms_norm"}
    for view, whole in wholes:
        assert operation_of(view.nodes[whole.fed_by]) == "convert_element_type"
        assert not whole.alone
        assert "convert to another dtype" in headline(view).what


@pytest.mark.parametrize(
    ("dtype", "passed_on"),
    [
        ("float16", True),
        ("bfloat16", True),
        ("float64", True),
        ("int64", False),
        ("bool", False),
        ("float8_e5m2", False),
    ],
)
def test_a_conversion_of_floats_computes_where_it_does_more_than_round(cut_off, dtype, passed_on):
    capture = copy.deepcopy(cut_off)
    node(capture, "convert_element_type")["dtype"] = dtype
    view = next(view for view in views_of(capture) if named_whole(view).name == "layer_norm")
    assert passes_on(view, view.nodes["convert_element_type"]) == named_whole(view).alone == passed_on


@pytest.mark.parametrize(
    ("before", "after", "fed_by"),
    [
        ("float16", "float32", "arg0_1"),
        ("float32", "float64", "arg0_1"),
        ("uint8", "int32", "arg0_1"),
        ("float32", "float16", "convert_element_type"),
        ("float16", "bfloat16", "convert_element_type"),
        ("int32", "uint8", "convert_element_type"),
        ("int32", "bool", "convert_element_type"),
        ("int8", "uint8", "convert_element_type"),
    ],
)
def test_a_norm_is_of_what_was_converted_where_each_number_stays_what_it_was(cut_off, before, after, fed_by):
    capture = copy.deepcopy(cut_off)
    node(capture, "arg0_1")["dtype"] = before
    for name in ("convert_element_type", "convert_element_type_1"):
        node(capture, name)["dtype"] = after
    view = next(view for view in views_of(capture) if named_whole(view).name == "layer_norm")
    assert named_whole(view).fed_by == fed_by


def test_a_norm_is_not_of_what_only_has_the_same_bits(cut_off):
    capture = copy.deepcopy(cut_off)
    node(capture, "convert_element_type").update(target="aten.view.dtype", fate="view")
    view = next(view for view in views_of(capture) if named_whole(view).name == "layer_norm")
    assert named_whole(view).fed_by != "arg0_1"


def test_a_softmax_is_returned_where_the_graph_returns_it_and_not_where_it_returns_something_else():
    capture = load("tiny_head", "cpu")
    assert returns_softmax(most_interesting(capture))
    node(capture, "output")["inputs"] = ["sum_1"]
    assert not returns_softmax(most_interesting(capture))
    assert not returns_softmax(most_interesting(load("cross_entropy", "cpu")))  # which returns the loss
    assert not returns_softmax(most_interesting(load("layer_norm", "cpu")))


def test_a_softmax_that_is_returned_in_another_dtype_is_returned():
    capture = load("tiny_head", "cpu")
    (view,) = views_of(capture)
    view.nodes["div"]["fate"] = "inlined"
    half = {**view.nodes["div"], "name": "half", "inputs": ["div"], "fate": "materialised"}
    half["target"] = "prims.convert_element_type.default"
    capture["graphs"][0]["nodes"].insert(-1, half)
    node(capture, "output")["inputs"] = ["half"]
    for one in view.scheduler_nodes:
        one["operations"] += [{**one["operations"][0], "producer": "half", "emitted": True}]
    assert returns_softmax(most_interesting(capture))


def with_twin(capture: dict, **changes) -> dict:
    """The capture with a second call of its generated kernel, changed."""
    calls = capture["graphs"][0]["calls"]
    call = next(call for call in calls if not call["extern"])
    calls.append({**copy.deepcopy(call), "id": "twin", **changes})
    return capture


def test_of_two_softmax_kernels_the_one_that_moves_more_is_chosen():
    capture = load("tiny_head", "cpu")
    assert most_interesting(with_twin(capture, bytes=10**6)).call["id"] == "twin"
    assert most_interesting(with_twin(load("tiny_head", "cpu"), bytes=1)).call["id"] != "twin"


def test_a_softmax_goes_before_a_kernel_that_moves_more_if_the_graph_returns_it():
    capture = with_twin(load("tiny_head", "cpu"), bytes=10**9, scheduler_nodes=["op2"], aten_nodes=["sub", "exp"])
    assert most_interesting(capture).call["id"] != "twin"
    assert "It holds a softmax that the graph returns" in annotate(capture)
    node(capture, "output")["inputs"] = ["sum_1"]
    assert most_interesting(capture).call["id"] == "twin"
    assert "No other call of a kernel of Inductor's moves more bytes." in annotate(capture)


@pytest.mark.parametrize("less", [{"bytes_are": "at_most"}, {"bytes": None, "bytes_are": None}])
@pytest.mark.parametrize("softmax", [True, False])
def test_that_none_moves_more_is_said_of_bytes_that_are_known_alone(less, softmax):
    said = ["It holds a softmax that the graph returns; of the calls that do, none moves more bytes.",
            "No other call of a kernel of Inductor's moves more bytes."]  # fmt: skip
    capture = with_twin(load("tiny_head", "cpu"), bytes=1)
    if not softmax:
        node(capture, "output")["inputs"] = ["sum_1"]
    assert [sentence in annotate(capture) for sentence in said] == [softmax, not softmax]
    most_interesting(capture).call.update(less)
    text = annotate(capture)
    assert not any(sentence in text for sentence in said)
    assert "the largest known bound of the bytes that a call moves." in text
    for call in capture["graphs"][0]["calls"]:
        call.update(bytes=None, bytes_are=None)
    assert "not known before" in annotate(capture)


def test_where_no_graph_was_compiled_the_lines_at_which_dynamo_stopped_are_told():
    capture = load("tiny_head", "cpu")
    source = capture["panes"][0]
    stack = [{"file": "model.py", "line": 1, "function": "forward", "pane": source["id"]}]
    capture |= {"graphs": [], "graph_breaks": [{"reason": "Dynamic shape operator", "stack": stack}]}
    assert f"- Dynamo stopped at model.py:1, `{source['lines'][0].strip()}`: Dynamic shape operator.\n" in annotate(
        capture
    )
    capture["graph_breaks"] = [{"reason": "Unsupported", "explanation": "Dynamo does not\nsupport it.", "stack": []}]
    assert "- Dynamo stopped: Unsupported. Dynamo does not support it.\n" in annotate(capture)
    capture["graph_breaks"] = [{"reason": "Unsupported.", "stack": []}]
    assert "- Dynamo stopped: Unsupported.\n" in annotate(capture)
    assert "- Dynamo se detuvo: Unsupported.\n" in annotate(capture, "es")


def test_without_a_softmax_the_kernel_that_moves_most_is_chosen_and_the_first_of_equals():
    less = {"scheduler_nodes": [], "aten_nodes": ["sin"]}
    assert most_interesting(with_twin(load("chain", "cpu"), bytes=10**9, **less)).call["id"] == "twin"
    assert most_interesting(with_twin(load("chain", "cpu"), bytes=None, **less)).call["id"] != "twin"
    assert most_interesting(with_twin(load("chain", "cpu"))).call["id"] != "twin"


def test_a_users_own_kernel_is_chosen_where_there_is_no_other():
    capture = with_twin(load("chain", "cpu"), bytes=10**9, scheduler_nodes=["theirs"])
    nodes = capture["graphs"][0]["scheduler_nodes"]
    nodes.append({**copy.deepcopy(nodes[0]), "name": "theirs", "user_triton": True})
    assert most_interesting(capture).call["id"] != "twin"
    capture["graphs"][0]["calls"] = capture["graphs"][0]["calls"][-1:]
    assert most_interesting(capture).call["id"] == "twin"


def test_a_library_alone_leaves_nothing_to_choose():
    assert most_interesting(load("matmul", "cpu")) is None


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("static_cast<int64_t>(x1 + 600L*x0)", "x1 + 600*x0"),
        ("(r0_1 + 600*x0)", "r0_1 + 600*x0"),
        ("(x0)", "x0"),
        ("static_cast<int64_t>(0L)", "0"),
        ("static_cast<int64_t>(tmp13[x0_inner] + 600L*x0)", "tmp13[x0_inner] + 600*x0"),
        ("(x0 + 1)*(x1 + 2)", "(x0 + 1)*(x1 + 2)"),
    ],
)
def test_pointer_arithmetic_is_shown_plainly(written, meant):
    assert plain(written) == meant


terms = st.tuples(st.sampled_from(["x0", "x1", "r0_1"]), st.integers(1, 10**6)).map(lambda term: f"{term[1]}*{term[0]}")


@given(st.lists(terms, min_size=1, max_size=4).map(" + ".join))
def test_casts_and_suffixes_change_no_index(index):
    written = "static_cast<int64_t>(" + re.sub(r"(\d+)\*", r"\1L*", index) + ")"
    assert plain(written) == index


SAMPLES = [  # of what the fixtures' kernels do not hold, as torch/_inductor/codegen writes it
    ("cpp", "expressions", "tmp_acc0_vec = welford_combine(tmp_acc0_vec, tmp3, &wrecps0);", "Welford's update"),
    ("cpp", "expressions", "tmp_acc0 = welford_combine(tmp_acc0, welford_vec_reduce_all(tmp_acc0_vec));", "join"),
    ("cpp", "expressions", "tmp_acc0_vec = cascade_sum_combine(tmp0, &scascade_helper0);", "cascade sum"),
    (
        "cpp",
        "expressions",
        "at::vec::VecMask<float,1> tmp_acc0_vec = at::vec::VecMask<float,1>::from(0);",
        "truth values",
    ),
    (
        "cpp",
        "expressions",
        "at::vec::Vectorized<float> tmp_acc0_vec = at::vec::Vectorized<float>(0);",
        "lanes of float",
    ),
    ("cpp", "expressions", "atomic_add(&out_ptr0[static_cast<int64_t>(x0)], tmp1);", "atomic addition"),
    ("python", "expressions", "tmp3_mean_next = triton_helpers.welford_reduce(", "Welford's update"),
    ("python", "expressions", "tmp3, tmp4, tmp5 = triton_helpers.welford(", "Welford statistics"),
    ("python", "expressions", "tl.atomic_add(out_ptr0 + (tmp4), tmp6, xmask, sem='relaxed')", "atomic addition"),
    # of 2.15: a maximum that passes over NaN, and an online softmax with one accumulator a row
    ("python", "expressions", "tmp4 = triton_helpers.fmax2(tmp3, 1)[:, None].to(tl.float32)", "passes over a NaN"),
    (
        "python",
        "expressions",
        "_a, _b = triton_helpers.online_softmax_reduce_scalar_combine(",
        "all that the loop keeps",
    ),
    ("python", "expressions", "tmp3, tmp4 = triton_helpers.online_softmax_reduce(", "the block's maxima and sums"),
    ("python", "structure", "_tmp2_max = tl.full([XBLOCK], float('-inf'), tl.float32)", "for each row"),
    ("python", "structure", "_tmp2 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)", "for each place"),
    ("python", "structure", "nested_R0_LOCAL_REDUCTION_SIZE: tl.constexpr = 32", "length of a group"),
]


@pytest.mark.parametrize(("language", "section", "line", "words"), SAMPLES)
def test_lines_are_recognised(language, section, line, words):
    assert words in said(line, section, language)


@pytest.mark.parametrize("language", ["cpp", "python"])
@pytest.mark.parametrize("section", SECTIONS)
def test_lines_of_no_kernel_are_not_recognised(section, language):
    for line in ("", "x", "softmax", "welford", "the sum of max", "int y = 3;"):
        assert said(line, section, language) is None


@pytest.mark.parametrize("language", ["cpp", "python"])
@pytest.mark.parametrize("section", SECTIONS)
def test_every_sentence_can_be_filled_in(section, language):
    sentences = Translations("minicompile.explain", "kernel_lines").under(section)
    for pattern, key in _patterns(section, language):
        names = set(re.findall(r"\{(\w+)\}", sentences[key.removeprefix(f"{section}.")]))
        assert names <= set(pattern.groupindex)


def test_a_name_that_the_text_keeps_is_not_contradicted():
    plain_sums = [(1, "tmp7 = tl.sum(tmp6, 1)[:, None]")]
    assert "Welford" in not_as_named("welford_reduce", plain_sums)
    assert not_as_named("welford_reduce", [*plain_sums, (2, "a, b, c = triton_helpers.welford(")]) is None
    assert not_as_named("welford_reduce", []) is None
    assert not_as_named("sum", plain_sums) is None
    assert meaning("max") == "the largest value"
    assert meaning("median") is None


@pytest.mark.parametrize("section", SECTIONS)
def test_every_sentence_has_its_pattern(section):
    keys = {
        key.removeprefix(f"{section}.") for language in ("cpp", "python") for _, key in _patterns(section, language)
    }
    assert keys == set(Translations("minicompile.explain", "kernel_lines").under(section))


def test_a_loops_end_is_named():
    text = "\n".join(commented(most_interesting(load("tiny_head", "cpu"))))
    assert re.search(r"\}  // \d+: ends the loop over x0", text)
    assert text.count("ends the loop over x1") == text.count("for(int64_t x1=")


def test_no_line_of_the_fixtures_kernels_is_left_unexplained():
    for name in ("tiny_head", "layer_norm", "chain", "cross_entropy"):
        for target in ("cpu", "simulated"):
            text = "\n".join(commented(most_interesting(load(name, target))))
            assert UNTIED not in text, (name, target)


def test_a_line_is_called_structure_where_nothing_is_known():
    capture = load("tiny_head", "cpu")
    capture["links"] = []
    pane = next(pane for pane in capture["panes"] if pane["kind"] == "code")
    view = most_interesting(capture)
    pane["lines"][view.kernel["first"] + 5] = "        something_new();"
    assert UNTIED in "\n".join(commented(view))


@pytest.mark.parametrize(("language", "words"), [("en", "in this order: copy (5 times)."), ("es", "copiar (5 veces).")])
def test_copies_are_told_where_a_kernel_does_nothing_else(language, words):
    capture = load("tiny_head", "cpu")
    assert "copy" not in headline(most_interesting(capture)).what
    for name in ("amax", "sub", "exp", "sum_1", "div"):
        node(capture, name)["target"] = "aten.clone.default"
    assert words in headline(most_interesting(capture, language)).what


def test_what_a_binary_search_goes_through_is_told_as_read_without_an_index():
    capture = captured("buckets", "simulated").capture
    view = most_interesting(capture)
    [searched] = [entry for entry in facts.reads(view)["input"] if entry["element"] is None]
    assert view.parameters[searched["pointer"]] == searched["buffer"] == "arg1_1"
    for language, words in (("en", "a binary search reads it"), ("es", "lo lee una búsqueda binaria")):
        text = annotate(capture, language=language)
        assert words in text
        assert "`None`" not in text


def test_a_kernel_that_copies_an_input_for_a_library_is_explained():
    capture = captured("stem_train", "cpu").capture
    view = next(view for view in views_of(capture) if any(
        one.producer and view.nodes[one.producer]["op"] == "placeholder"
        for operations in view.operations.values() for one in operations))  # fmt: skip
    assert "primals_" in "\n".join(commented(view))


def told(name: str, target: str) -> list[dict]:
    """What is said of every access of every kernel."""
    ways = [
        part for view in views_of(captured(name, target).capture) for part in (facts.reads(view), facts.writes(view))
    ]
    return [entry for way in ways for part in way.values() for entry in part]


@pytest.mark.parametrize("target", ["cpu", "simulated"])
def test_what_was_changed_in_place_is_told_by_what_changed_it_and_not_by_what_stood_there_before(target):
    changed = {node["buffers"][0]: node for graph in captured("changed_between", target).capture["graphs"]
               for node in graph["scheduler_nodes"] if node["changes"]}  # fmt: skip
    entries = [entry for entry in told("changed_between", target) if entry["content"] in changed]
    assert {"scatter", "scatter_1"} <= {name for entry in entries for name in changed[entry["content"]]["aten_nodes"]}
    assert any(entry["buffer"] != entry["content"] for entry in entries)
    for entry in entries:
        assert entry["buffer"] in (entry["content"], *changed[entry["content"]]["changes"])
        assert any(f"(`{name}`)" in entry["what"].what for name in changed[entry["content"]]["aten_nodes"])


@pytest.mark.parametrize("target", ["cpu", "simulated"])
def test_bits_taken_for_another_dtypes_cost_code_and_no_memory(target):
    capture = captured("bits_of_floats", target).capture
    nodes = {node["name"]: node for graph in capture["graphs"] for node in graph["nodes"]}
    bits = {name for name, node in nodes.items() if node["target"] == "aten.view.dtype"}
    assert {nodes[name]["fate"] for name in bits} == {"inlined"}
    for view in views_of(capture):
        assert not bits & {node["name"] for node in view.views}
        assert not bits & {one["name"] for one in facts.absent(view)["intermediates"]}
        lines = [text for number, text in view.lines for one in view.operations.get(number, []) if one.producer in bits]
        assert any("bitcast" in text or "bit_cast" in text for text in lines)


def test_memory_behind_a_tensor_descriptor_is_told_with_its_line_and_without_an_expression():
    entries = told("tensor_descriptors", "simulated")
    described = [entry for entry in entries if any(place["expression"] is None for place in entry["places"])]
    assert len(described) > 2
    assert all(entry["element"] and place["lines"] for entry in described for place in entry["places"])


@pytest.mark.parametrize(
    ("language", "words"), [("en", "is given nothing to read"), ("es", "no se le da nada que leer")]
)
def test_a_kernel_without_an_input_is_told_to_have_none(language, words):
    text = annotate(load("chain", "simulated"), language=language)
    assert words not in text
    capture = copy.deepcopy(load("chain", "simulated"))
    view = most_interesting(capture)
    pane = next(pane for pane in capture["panes"] if pane["id"] == view.graph["panes"]["code"])
    body = range(view.kernel["first"] - 1, view.kernel["last"])
    for number in body:  # its inputs are handed over by value
        pane["lines"][number] = re.sub(r"'in_ptr\d+': '\*", "'in_ptr': '", pane["lines"][number]).replace(
            "in_ptr", "given"
        )
    assert words in annotate(capture, language=language)


def test_a_pointer_for_both_ways_is_one_to_read_from(monkeypatch):
    monkeypatch.setattr(facts, "pointers", lambda view: ["in_out_ptr0"])
    assert facts.nothing_given(None) == {"reads": False, "writes": False}


def test_what_a_kernel_reads_of_its_own_change_in_place_is_its_own():
    changed = 0
    for view in views_of(captured("key_cache", "cpu").capture):
        found = facts.reads(view)
        changed += sum(entry["content"] != entry["buffer"] for entry in found["own"])
        assert not [entry for entry in found["input"] if entry["content"] in view.written]
    assert changed


@pytest.mark.parametrize("maximum", ["max2", "fmax2", "max2_strict"])
def test_a_softmax_in_one_block_is_not_online_whatever_its_maximum_is_called(maximum):
    lines = [(1, f"tmp4 = triton_helpers.{maximum}(tmp3, 1)[:, None]"), (2, "tmp9 = tl.sum(tmp8, 1)[:, None]")]
    assert "No line updates maximum and sum together" in not_as_named("online_softmax_reduce", lines)
    looped = [*lines, (3, "_a, _b = triton_helpers.online_softmax_reduce_scalar_combine(")]
    assert not_as_named("online_softmax_reduce", looped) is None


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("    _tmp9 = tl.where(r0_mask & xmask, tmp10, _tmp9)", "`_tmp9` changes where the mask is on"),
        ("    l_i = tl.where(l_i == 0.0, 1, l_i)", "`l_i` changes where the condition holds"),
    ],
)
def test_a_condition_of_the_kernels_own_is_not_called_the_mask(line, told):
    assert told in [said(line, section, "python") for section in SECTIONS]
