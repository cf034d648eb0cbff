"""The annotation says what the capture holds, all of it true, and falls silent where the capture does."""

import copy
import json
import re
from math import prod

import pytest
from annotation_models import CAPTURED, load, make

from minicompile.explain.annotation.annotate import annotate
from minilab.config import check_schema, read_schema

ALL = [(name, target) for name, targets in CAPTURED.items() for target in targets]
WITH_KERNEL = [(name, target) for name, target in ALL if name != "matmul"]
COMPUTED = ("materialised", "fused away", "inlined")
HANDED_OVER = {  # what eager PyTorch hands from one call to another, read off the models' source
    "rms_norm_silu": ["pow_1", "mean", "add", "rsqrt", "mul", "mul_1"],
    "chain": ["sin", "add", "tanh"],
    "in_place": ["add"],
    "scatter": ["exp"],
}
IN_MEMORY = {"copy_", "full_default"}  # stored by a loop, though no buffer is exactly their result
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?![\w.]*\w)")
CITED = re.compile(r"\(?\blines? [\d, ]+\)?")


def prose(text: str) -> str:
    """What stands before the kernel's lines."""
    return text.split("## The kernel, line by line")[0]


def section(text: str, number: int) -> str:
    return re.search(rf"^## {number}\. .*?(?=^## )", text, re.M | re.S)[0]


def graph_of(capture: dict) -> dict:
    return capture["graphs"][0]


def node(capture: dict, name: str) -> dict:
    return next(one for one in graph_of(capture)["nodes"] if one["name"] == name)


def buffer(capture: dict, name: str) -> dict:
    return next(one for one in graph_of(capture)["buffers"] if one["name"] == name)


@pytest.fixture
def softmax() -> dict:
    return load("tiny_head", "cpu")


@pytest.mark.parametrize(("name", "target"), ALL)
def test_the_fixtures_are_captures(name, target):
    check_schema(load(name, target), read_schema("schemas/capture.schema.yaml"), f"{name}_{target}")


@pytest.mark.parametrize(("name", "target"), WITH_KERNEL)
def test_all_five_questions_are_answered_and_every_line_is_there(name, target):
    capture = load(name, target)
    text = annotate(capture)
    for number in range(1, 6):
        assert len(section(text, number).splitlines()) > 2
    kernel = next(one for one in graph_of(capture)["kernels"] if f"# `{one['name']}`, explained" in text)
    code = next(pane["lines"] for pane in capture["panes"] if pane["id"] == graph_of(capture)["panes"]["code"])
    shown = re.search(r"^```(?:cpp|python)\n(.*)^```$", text, re.M | re.S)[1].splitlines()
    comment = re.compile(r"\s*(?://|#) \d+: ")
    lines = [re.sub(r"  (?://|#) \d+(?:: .*)?$", "", line) for line in shown if not comment.match(line)]
    assert lines == code[kernel["first"] - 1 : kernel["last"]]
    commented = {int(number) for number in re.findall(r"(?://|#) (\d+)(?:: |$)", "\n".join(shown), re.M)}
    assert {n for n in range(kernel["first"], kernel["last"] + 1) if code[n - 1].strip()} <= commented


def follows(capture: dict) -> set[int]:
    """Counts, sums and products of the capture's numbers that a sentence may hold, worked out apart from the code."""
    allowed = {1, 2}
    for graph in capture["graphs"]:
        nodes, removed = graph["nodes"], {one["name"] for one in graph["buffers"] if one["removed"]}
        scratch = {"fused away"} if "local_buffer" in json.dumps(capture) else set()
        for one in graph["scheduler_nodes"]:
            allowed |= {prod(lengths) for lengths in one["loop_sizes"] or []}
        for call in graph["calls"]:
            members = [one for one in graph["scheduler_nodes"] if one["name"] in call["scheduler_nodes"]]
            inside = set(call["aten_nodes"]) | {o["producer"] for one in members for o in one["operations"]}
            computed = [one for one in nodes if one["name"] in inside and one["fate"] in COMPUTED]
            parts = [one for one in nodes if one["target"] == "operator.getitem" and set(one["inputs"]) & inside]
            gone = [one for one in computed if one["fate"] != "materialised" and one["bytes"]]
            gone = [one for one in gone if one["name"] not in IN_MEMORY]
            gone += [one for one in parts if one["buffer"] is None or one["buffer"] in removed]
            readers = {one["name"]: sum(one["name"] in other["inputs"] for other in computed) for one in gone}
            allowed |= {len(computed), len(call["groups"]), sum(one["bytes"] for one in gone)}
            allowed.add(sum(one["bytes"] * (1 + readers[one["name"]]) for one in gone if one["fate"] not in scratch))
    return allowed


@pytest.mark.parametrize(("name", "target"), ALL)
def test_every_number_is_the_captures_or_follows_from_it(name, target):
    capture = load(name, target)
    known = {int(number) for number in re.findall(r"\d+", json.dumps(capture))} | follows(capture)
    handed = sum(node(capture, one)["bytes"] for one in HANDED_OVER.get(name, []))
    known |= {handed, 2 * handed}
    text = re.sub(r"^## \d\.", "", prose(annotate(capture)), flags=re.M)
    said = {int(number.replace(",", "")) for number in NUMBER.findall(CITED.sub("", text)) if number.strip(",")}
    assert said <= known
    assert len(said) > 1


@pytest.mark.parametrize(("name", "target"), WITH_KERNEL)
def test_cited_lines_hold_what_they_are_cited_for(name, target):
    capture = load(name, target)
    code = next(pane["lines"] for pane in capture["panes"] if pane["id"] == graph_of(capture)["panes"]["code"])
    cited = re.findall(r"`(\w+) \+ ([^`]+)` on lines? ([\d, ]+\d)", annotate(capture))
    assert cited
    for pointer, expression, lines in cited:
        for line in map(int, lines.split(", ")):
            text = re.sub(r"static_cast<int64_t>|(?<=\d)L\b|[()]", "", code[line - 1])
            assert re.search(rf"{pointer}(?: \+ |\[|, ){re.escape(re.sub(r'[()]', '', expression))}", text)


def test_tiny_head_on_the_cpu(softmax):
    text = annotate(softmax)
    assert "5 operations are in this one kernel" in section(text, 1)
    assert "`buf0`, the result of `aten.addmm.default` (`addmm`) (4,800 bytes): `in_ptr0 + x1 + 600*x0`" in section(
        text, 2
    )
    assert "`out_ptr2 + x1 + 600*x0`" in section(text, 3)
    assert "The graph returns it." in section(text, 3)
    assert "The largest value of 600 values, 2 times: `max`" in section(text, 4)
    assert "The sum of 600 values, 2 times: `sum`" in section(text, 4)
    assert "OpenMP deals the iterations" in section(text, 4)
    assert "horizontal reduction" in section(text, 4)
    assert "Together they have 9,600 bytes" in section(text, 5)
    assert "`exp`, which goes through the kernel's own scratch memory" in section(text, 5)
    assert "vouches for no byte saved" in section(text, 5)  # eager's softmax is one kernel too
    assert "imulated" not in text


def test_simulated_target_is_named_and_what_triton_writes_is_said():
    text = annotate(load("tiny_head", "simulated"))
    assert "**Simulated target.**" in text
    assert "`triton_helpers.max2` takes the maximum" in section(text, 4)
    assert "`tl.sum` adds up" in section(text, 4)
    assert "No line updates maximum and sum together" in section(text, 4)
    assert "which has taken over the memory of `buf0`" in section(text, 2)
    assert "OpenMP" not in text


def test_online_softmax_is_said_where_it_is_written():
    text = section(annotate(load("wide_softmax", "simulated")), 4)
    assert "maximum and sum are brought up to date together" in text
    assert "No line updates maximum and sum together" not in text


def test_layer_norm_reduces_by_plain_sums_and_claims_no_welford_update():
    assert "Welford" not in annotate(load("layer_norm", "cpu"))
    simulated = section(annotate(load("layer_norm", "simulated")), 4)
    assert "No line uses Welford's update" in simulated
    assert "in one pass" not in simulated


def test_cross_entropy_is_about_its_log_softmax():
    text = annotate(load("cross_entropy", "cpu"))
    assert "aten.amax.default" in section(text, 4)
    assert "holds a softmax's reduction" in text or "the only one" in text


@pytest.mark.parametrize(("name", "target"), [("rms_norm_silu", "cpu"), ("rms_norm_silu", "simulated")])
def test_what_eager_hands_over_is_counted_as_saved(name, target):
    text = section(annotate(load(name, target)), 5)
    assert "98,688 bytes, written once and read at least once: at least 197,376 bytes" in text
    assert ("In exchange the kernel writes" in text) == (target == "cpu")  # the GPU's kernel keeps the sum in registers


def test_what_a_copy_writes_into_the_input_is_not_called_absent():
    text = annotate(load("in_place", "cpu"))
    assert "written to memory as `copy_`" in section(text, 1)
    assert "| `aten.mul.Tensor` |" not in section(text, 5)
    assert "| `aten.add.Tensor` | `add` | 64 | 256 |" in section(text, 5)


def test_what_a_scatter_then_adds_to_is_not_called_absent():
    text = annotate(load("scatter", "cpu"))
    assert "| `aten.full.default` |" not in section(text, 5)
    assert "| `aten.exp.default` |" in section(text, 5)
    assert "An atomic addition" in section(text, 4)
    assert re.search(r"`out_ptr0 \+ tmp\d+` on line", section(text, 3))


@pytest.mark.parametrize("target", ["cpu", "simulated"])
def test_an_elementwise_chain_has_no_reduction(target):
    text = annotate(load("chain", target))
    assert "None: no scheduler node in this kernel is a reduction." in section(text, 4)
    assert "4 operations are in this one kernel" in text
    for word in ("softmax", "maximum", "horizontal", "Welford", "reduces"):
        assert word not in text


def test_nothing_was_fused_in_a_bare_matrix_product():
    text = annotate(load("matmul", "cpu"))
    assert "nothing was fused here" in text.lower()
    assert "| `extern_kernels.mm` |" in text
    assert "```" not in text


def test_nothing_was_fused_in_a_kernel_of_one_operation():
    text = annotate(load("negate", "cpu"))
    assert "Nothing was fused here: the kernel computes one ATen operation alone." in text
    assert "no byte is saved" in section(text, 5)


def test_notes_are_placed_as_they_stand(softmax):
    notes = "# Mine\n\n\n\n- why 600?"
    text = annotate(softmax, notes)
    assert text.endswith(notes + "\n")
    assert "## Notes" not in annotate(softmax)


# What changes in the capture changes in the text.


def test_without_reductions_none_is_said(softmax):
    for one in graph_of(softmax)["scheduler_nodes"]:
        one["is_reduction"] = False
    text = annotate(softmax)
    assert "None: no scheduler node" in section(text, 4)
    assert "largest value" not in text


def test_an_unknown_reduction_is_named_and_not_explained(softmax):
    for one in graph_of(softmax)["scheduler_nodes"]:
        one["reduction_type"] = "median" if one["is_reduction"] else None
    assert "- A reduction of 600 values, 2 times: `median`" in section(annotate(softmax), 4)


def test_a_materialised_result_is_not_called_absent(softmax):
    node(softmax, "exp")["fate"] = "materialised"
    buffer(softmax, "buf2")["removed"] = False
    text = section(annotate(softmax), 5)
    assert "| `aten.exp.default` |" not in text
    assert "Together they have 4,800 bytes" in text


def test_a_result_whose_view_is_in_memory_is_not_called_absent(softmax):
    view = copy.deepcopy(node(softmax, "sub"))
    view |= {"name": "sub_view", "target": "aten.view.default", "inputs": ["sub"], "fate": "view", "buffer": "buf4"}
    graph_of(softmax)["nodes"].insert(-1, view)
    assert "| `aten.sub.Tensor` |" not in section(annotate(softmax), 5)
    assert "written to memory as `sub_view`" in section(annotate(softmax), 1)


def test_all_in_memory_saves_nothing(softmax):
    for one in graph_of(softmax)["nodes"]:
        if one["fate"] in ("inlined", "fused away"):
            one |= {"fate": "materialised", "buffer": "buf4"}
    assert "so no byte is saved" in section(annotate(softmax), 5)


def test_another_index_is_another_sentence(softmax):
    for one in graph_of(softmax)["scheduler_nodes"]:
        one["indexing"] = {name: index.replace("600", "77") for name, index in one["indexing"].items()}
    text = section(annotate(softmax), 2)
    assert "`77*p0 + p1`" in text
    assert "`600*p0 + p1`" not in text


def test_untied_lines_are_not_explained_as_reads_or_writes(softmax):
    softmax["links"] = [link for link in softmax["links"] if link["kind"] != "operation"]
    text = annotate(softmax)
    assert "ties no line of this kernel to a read" in section(text, 2)
    assert "ties no line of this kernel to a write" in section(text, 3)
    assert "aten.exp.default (exp)" not in text.split("line by line")[1]


def test_without_links_to_the_source_no_line_of_it_is_named(softmax):
    softmax["links"] = [link for link in softmax["links"] if link["kind"] != "source"]
    text = annotate(softmax)
    assert "annotation_models.py" not in text
    assert "no line of the user's" in text


def test_a_backend_without_openmp_is_not_said_to_have_it(softmax):
    pane = next(pane for pane in softmax["panes"] if pane["kind"] == "code")
    pane["lines"] = [line.replace("#pragma omp", "#pragma other") for line in pane["lines"]]
    assert "OpenMP" not in annotate(softmax)
    assert "structure: no operation is tied to this line" in annotate(softmax)


def test_unknown_bytes_are_left_out(softmax):
    for call in graph_of(softmax)["calls"]:
        call["bytes"] = None
    assert "By Inductor's count" not in annotate(softmax)


def test_registers_and_spills_are_the_captures():
    capture = load("chain", "simulated")
    kernel = graph_of(capture)["kernels"][0]
    kernel["assembly"] |= {"registers": 97, "shared_bytes": 4321, "stack_bytes": 8}
    text = annotate(capture)
    assert "97 registers a thread, 4,321 bytes of shared memory a block, 8 bytes of stack a thread" in text
    assert "nothing spills" not in text
    kernel["assembly"] = None
    assert "registers a thread" not in annotate(capture)


def test_a_refused_fusion_is_told_with_its_reason(softmax):
    refused = {"first": ["op4"], "second": ["op0"], "shared_buffers": [], "taken": False, "reasons": []}
    graph_of(softmax)["decisions"].append({**refused, "reason": {"code": "devices"}})
    assert "- op4 with op0: Not fused; they run on different devices." in section(annotate(softmax), 1)


def test_a_users_own_kernel_is_not_claimed_to_be_fused(softmax):
    for one in graph_of(softmax)["scheduler_nodes"]:
        one["user_triton"] = True
    text = annotate(softmax)
    assert "a Triton kernel of the user's own" in section(text, 1)
    assert "operations are in this one kernel" not in text


def test_a_kernel_that_is_linked_as_a_whole_is_said_to_be():
    capture = load("chain", "cpu")
    graph_of(capture)["kernels"][0]["granularity"] = "kernel"
    capture["links"] = [link for link in capture["links"] if link["kind"] != "operation"]
    text = annotate(capture)
    assert "only as a whole" in text
    assert "tied to no operation, since the capture links this kernel as a whole" in text
    assert "structure:" not in text


def test_calls_that_share_the_kernel_or_its_operations_are_told(softmax):
    assert "Other kernels have a part" not in annotate(softmax)
    assert "The same code serves" not in annotate(softmax)
    calls = graph_of(softmax)["calls"]
    calls.append({**copy.deepcopy(calls[-1]), "id": "twin", "line": 987, "bytes": 1, "aten_nodes": ["sub"]})
    text = annotate(softmax)
    assert "The same code serves 2 calls" in text
    assert "on line 987: `sub`." in section(text, 1)


def test_a_fresh_capture_is_annotated():
    from minicompile.lowering.capture import capture

    model, inputs = make("tiny_head")
    made = capture(model.eval(), inputs, name="tiny_head")
    text = annotate(made)
    assert "`aten.amax.default`" in section(text, 1)
    assert "`600*p0 + p1`" in section(text, 2)
    assert "Together they have 9,600 bytes" in section(text, 5)
