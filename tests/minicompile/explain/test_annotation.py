"""The annotation says what the capture holds, all of it true, and falls silent where the capture does."""

import copy
import json
import re
from math import prod

import pytest
from annotation_models import CAPTURED, load, make
from chosen import tuned

from minicompile.explain.annotation.annotate import annotate, with_notes
from minilab import LabError
from minilab.config.check import check_schema, read_schema

ALL = [(name, target) for name, targets in CAPTURED.items() for target in targets]
WITH_KERNEL = [(name, target) for name, target in ALL if name != "matmul"]
COMPUTED = ("materialised", "fused away", "inlined")
HANDED_OVER = {  # what eager PyTorch hands from one call to another, read off the models' source
    "rms_norm_silu": ["pow_1", "mean", "add", "rsqrt", "mul", "mul_1"],
    "chain": ["sin", "add", "tanh"],
    "in_place": ["add"],
    "scatter": ["exp"],
}
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
        copied = {one["inputs"][1] for one in nodes if one["target"] == "aten.copy_.default"}
        for one in graph["scheduler_nodes"]:
            allowed |= {prod(lengths) for lengths in one["loop_sizes"] or []}
        for call in graph["calls"]:
            members = [one for one in graph["scheduler_nodes"] if one["name"] in call["scheduler_nodes"]]
            inside = set(call["aten_nodes"]) | {o["producer"] for one in members for o in one["operations"]}
            computed = [one for one in nodes if one["name"] in inside and one["fate"] in COMPUTED]
            whole = {one["name"] for one in computed}
            parts = [one for one in nodes if one["target"] == "operator.getitem" and set(one["inputs"]) & whole]
            gone = [one for one in computed if one["fate"] != "materialised" and one["bytes"]]
            gone = [one for one in gone if one["name"] not in copied]
            gone += [one for one in parts if one["buffer"] in (None, *removed)]
            allowed |= {len(computed), len(call["groups"]), sum(one["bytes"] for one in gone)}
    return allowed


def printed_bytes(text: str) -> dict[str, int]:
    """Bytes of each tensor of a printed ATen graph, by its type there: `f32[2, 600][600, 1]`."""
    found = {}
    for name, dtype, size, stride in re.findall(r'(\w+): "([a-z]+\d+)\[([\d, ]*)\]\[([\d, ]*)\]"', text):
        axes = zip(re.findall(r"\d+", size), re.findall(r"\d+", stride), strict=True)
        found[name] = int(re.sub(r"\D", "", dtype)) // 8 * prod(int(length) for length, step in axes if int(step))
    return found


def printed_apart(capture: dict, operations: list[str]) -> int:
    """Bytes that operations move one by one, every operand and every result once, read off the printed ATen graph."""
    text = "\n".join(next(pane["lines"] for pane in capture["panes"] if pane["kind"] == "aten"))
    size, total = printed_bytes(text), 0
    for name in operations:
        target, given = re.search(rf"^\s*{name}\b.* = ([\w.]+)\((.*?)\)(?:;|$)", text, re.M).groups()
        operands = [one for one in dict.fromkeys(re.findall(r"\w+", given)) if one in size]
        operands = operands[1:] if target.endswith("copy_.default") else operands
        parts = re.findall(rf"^\s*(\w+): .* = {name}\[\d\]", text, re.M)
        total += sum(size[one] for one in (*operands, *(parts or [name])))
    return total


def explained(capture: dict, text: str) -> tuple[dict, list[str]]:
    """The call that an annotation is about, and the operations in its first section's table."""
    line = int(re.search(r"It is called on line (\d+)", text)[1])
    call = next(call for call in graph_of(capture)["calls"] if call["line"] == line)
    return call, re.findall(r"^\| `[^`]+` \| `(\w+)` \|", section(text, 1), re.M)


@pytest.mark.parametrize(("name", "target"), ALL)
def test_every_number_is_the_captures_or_follows_from_it(name, target):
    capture = load(name, target)
    whole = annotate(capture)
    known = {int(number) for number in re.findall(r"\d+", json.dumps(capture))} | follows(capture)
    known.add(sum(node(capture, one)["bytes"] for one in HANDED_OVER.get(name, [])))
    if name != "matmul":
        call, operations = explained(capture, whole)
        known |= {apart := printed_apart(capture, operations), apart - call["bytes"]}
    text = re.sub(r"^## \d\.", "", prose(whole), flags=re.M)
    said = {int(number.replace(",", "")) for number in NUMBER.findall(CITED.sub("", text)) if number.strip(",")}
    assert said <= known
    assert len(said) > 1


@pytest.mark.parametrize(("name", "target"), WITH_KERNEL)
def test_what_the_operations_would_move_one_by_one_is_told_where_it_is_known_and_more(name, target):
    capture = load(name, target)
    text = annotate(capture)
    call, operations = explained(capture, text)
    said = re.search(r"Were each of the (\d+) operations .* move ([\d,]+) bytes: ([\d,]+) more", section(text, 5))
    apart = printed_apart(capture, operations)
    if call["bytes_are"] == "touched" and apart > call["bytes"]:
        assert [int(one.replace(",", "")) for one in said.groups()] == [len(operations), apart, apart - call["bytes"]]
    else:
        assert said is None


@pytest.mark.parametrize(("name", "target"), WITH_KERNEL)
def test_the_sizes_of_what_is_not_stored_add_up(name, target):
    text = section(annotate(load(name, target)), 5)
    rows = [int(number.replace(",", "")) for number in re.findall(r"\| ([\d,]+) \| [^|]+ \|$", text, re.M)]
    total = re.search(r"Together they have ([\d,]+) bytes", text)
    assert (int(total[1].replace(",", "")) if total else 0) == sum(rows)


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
    assert "This is softmax over the last axis of 2x600: maximum, subtract, exponential, sum, divide." in text
    assert "5 operations are in this one kernel" in section(text, 1)
    read = "`buf0`, by Inductor's notes the result of `aten.addmm.default` (`addmm`) (4,800 bytes)"
    assert f"{read}: `in_ptr0 + x1 + 600*x0`" in section(text, 2)
    assert "`out_ptr2 + x1 + 600*x0`" in section(text, 3)
    assert "The graph returns it." in section(text, 3)
    assert "The largest value of 600 values, 2 times: `max`" in section(text, 4)
    assert "The sum of 600 values, 2 times: `sum`" in section(text, 4)
    assert "OpenMP deals the iterations" in section(text, 4)
    assert "horizontal reduction" in section(text, 4)
    assert "Together they have 9,600 bytes" in section(text, 5)
    assert "`exp` goes through the kernel's own scratch memory, as section 3 shows" in section(text, 5)
    assert "loads reach 4,816 bytes of memory and its stores 4,816, each address counted once" in section(text, 5)
    assert "they would move 38,432 bytes: 28,800 more than this kernel" in section(text, 5)
    assert "Eager PyTorch" not in text  # whose softmax is one call too
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
    capture = load("wide_softmax", "simulated")
    reducing = next(one["name"] for one in graph_of(capture)["kernels"] if one["name"].startswith("triton_red_"))
    text = annotate(capture, kernel=reducing)
    assert "maximum and sum are brought up to date together" in section(text, 4)
    assert "No line updates maximum and sum together" not in text
    assert "in one pass" in text.split("## 1.")[0]


def test_a_softmax_in_several_kernels_is_claimed_of_none_and_the_one_that_moves_most_is_explained():
    capture = load("wide_softmax", "simulated")
    text = annotate(capture)
    call, _ = explained(capture, text)
    assert call["bytes"] == max(one["bytes"] for one in graph_of(capture)["calls"])
    assert "No other call of a kernel of Inductor's moves more bytes." in text
    assert "This kernel computes, in this order: subtract, exponential, divide." in text
    assert "maximum and sum are brought up to date" not in text


def test_a_kernel_can_be_asked_for_by_its_name_or_its_calls_id():
    capture = load("wide_softmax", "simulated")
    for call in graph_of(capture)["calls"]:
        text = annotate(capture, kernel=call["kernel"])
        assert text.startswith(f"# `{call['kernel']}`, explained")
        assert "It was asked for by name." in text
        assert annotate(capture, kernel=call["id"]) == text


@pytest.mark.parametrize(("name", "target"), [("wide_softmax", "simulated"), ("matmul", "cpu")])
def test_a_kernel_that_is_not_there_is_refused_and_those_that_are_there_are_named(name, target):
    capture = load(name, target)
    with pytest.raises(LabError, match=f"The capture of {name} has no kernel 'nope'; it has ") as refused:
        annotate(capture, kernel="nope")
    names = [one["name"] for one in graph_of(capture)["kernels"]]
    assert str(refused.value).endswith(f"it has {', '.join(names) or 'none that Inductor wrote'}.")


def test_layer_norm_reduces_by_plain_sums_and_claims_no_welford_update():
    assert "Welford" not in annotate(load("layer_norm", "cpu"))
    simulated = section(annotate(load("layer_norm", "simulated")), 4)
    assert "No line uses Welford's update" in simulated
    assert "in one pass" not in simulated


def test_cross_entropy_is_about_its_log_softmax():
    text = annotate(load("cross_entropy", "cpu"))
    assert "aten.amax.default" in section(text, 4)
    assert "This kernel computes log-softmax over the last axis of 8x600, and more:" in text
    assert "It is the only one that is not a library's." in text


@pytest.mark.parametrize("name", ["cross_entropy", "scatter"])
def test_where_an_index_comes_out_of_memory_the_bytes_are_a_bound(name):
    capture = load(name, "cpu")
    (call,) = (one for one in graph_of(capture)["calls"] if not one["extern"])
    text = section(annotate(capture), 5)
    assert f"at most {call['read_bytes']:,} bytes of memory and its stores at most {call['written_bytes']:,}" in text
    assert ": it moves" not in text
    assert "Were each of" not in text


@pytest.mark.parametrize(("name", "target"), [("rms_norm_silu", "cpu"), ("rms_norm_silu", "simulated")])
def test_what_eager_hands_over_is_told_with_its_bytes(name, target):
    text = section(annotate(load(name, target)), 5)
    assert "in memory there: `pow_1`, `mean`, `add`, `rsqrt`, `mul`, `mul_1`, 98,688 bytes." in text
    written = "The kernel also writes what is no ATen operation's result: `buf0` (128 bytes)." in text
    assert written == (target == "cpu")  # the GPU's kernel keeps the sum in registers


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
    assert "None: no scheduler node in this kernel is a reduction, a scan or a sort." in section(text, 4)
    assert "This kernel computes, in this order: `sin`, add, `tanh`, multiply." in text
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
    assert "Nothing: each result of this kernel's operations is stored as a whole." in section(text, 5)
    assert "Were each of" not in text


def test_notes_are_placed_as_they_stand(softmax):
    notes = "# Mine\n\n\n\n- why 600?"
    text = with_notes(annotate(softmax), notes)
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


def test_where_all_is_stored_nothing_is_called_absent(softmax):
    for one in graph_of(softmax)["nodes"]:
        if one["fate"] in ("inlined", "fused away"):
            one |= {"fate": "materialised", "buffer": "buf4"}
    text = section(annotate(softmax), 5)
    assert "Nothing: each result of this kernel's operations is stored as a whole." in text
    assert "Together they have" not in text


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
        call |= dict.fromkeys(("bytes", "read_bytes", "written_bytes", "bytes_are"))
    text = section(annotate(softmax), 5)
    assert not re.search(r"By Inductor's count|loads reach|Were each of", text)
    assert "Together they have 9,600 bytes" in text


def test_bytes_that_inductor_counted_are_said_to_be_its_count(softmax):
    for call in graph_of(softmax)["calls"]:
        call |= {"bytes": 1234, "read_bytes": None, "written_bytes": None, "bytes_are": "counted"}
    text = section(annotate(softmax), 5)
    assert "By Inductor's count the operands of the call have 1,234 bytes." in text
    assert not re.search("loads reach|Were each of", text)


def test_an_expanded_operand_counts_with_the_memory_that_it_has(softmax):
    node(softmax, "addmm")["stride"] = [0, 1]
    assert f"they would move {38432 - 2 * 2400:,} bytes" in section(annotate(softmax), 5)


def test_the_two_steps_of_a_split_reduction_are_told_apart(softmax):
    first, last = (one for one in graph_of(softmax)["scheduler_nodes"] if one["is_reduction"])
    read = [{**last["reads"][0], "buffer": first["buffers"][0]}]
    last.update(aten_nodes=first["aten_nodes"], reads=read, loop_sizes=[[], [2]])
    text = section(annotate(softmax), 4)
    assert "The largest value of at most 600 values, 2 times" in text
    assert f"What it yields is partial: {last['name']} reduces it further, in `cpp_fused__softmax_0` on line" in text
    assert "The sum of 2 partial results, once" in text
    assert f"{first['name']} found them, in `cpp_fused__softmax_0` on line" in text
    assert "resultados parciales" in annotate(softmax, language="es")


@pytest.mark.parametrize(("computes", "sentence"), [("Scan", "A scan, which keeps"), ("Sort", "A sort: op3, by")])
def test_a_scan_or_a_sort_is_told_apart_from_reductions(softmax, computes, sentence):
    node_3 = next(one for one in graph_of(softmax)["scheduler_nodes"] if one["name"] == "op3")
    node_3["computes"] = computes
    text = section(annotate(softmax), 4)
    assert f"- {sentence}" in text
    assert "op3, by Inductor's notes for `aten.sum.dim_IntList` (`sum_1`" in text
    assert "The sum of 600 values" not in text
    assert "The largest value of 600 values, 2 times: `max`" in text


def test_how_inductor_chose_is_told_where_the_capture_holds_a_choice():
    capture = tuned("simulated")
    assert "## How Inductor chose\n\n- Its blocks: the heuristic `pointwise` proposed" in annotate(capture)
    assert "## How Inductor chose" not in annotate({**capture, "choices": []})


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
    pane = next(pane for pane in capture["panes"] if pane["kind"] == "code")
    pane["lines"][graph_of(capture)["kernels"][0]["first"] + 5] = "        something_new();"
    text = annotate(capture)
    assert "only as a whole" in text
    assert re.search(
        r"tied to no operation, since the capture links this kernel as a whole\n +something_new\(\);", text
    )
    assert "computes; no operation is tied to this line" in text
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
    from minicompile.capturing import capture

    model, inputs = make("tiny_head")
    made = capture(model.eval(), inputs, name="tiny_head")
    text = annotate(made)
    assert "`aten.amax.default`" in section(text, 1)
    assert "`600*p0 + p1`" in section(text, 2)
    assert "Together they have 9,600 bytes" in section(text, 5)
