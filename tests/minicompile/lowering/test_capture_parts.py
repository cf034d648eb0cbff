"""The parts of the capture that need no compiler: tags, marks, line maps, fates, reasons, models, plain files."""

import ast
from pathlib import Path

import pytest
import torch
from annotation_models import load
from torch import nn
from zoo_models import captured

from minicompile.explain.plain_files import TEXTS, interesting_kernel, text_of
from minicompile.explain.wording import Wording
from minicompile.exported import write_exported
from minicompile.lowering.capture import code_digest
from minicompile.lowering.coverage import coverage
from minicompile.lowering.fusion_reasons import KINSHIPS, reason, reason_codes
from minicompile.lowering.outcomes import fate
from minicompile.lowering.panes.printed_text import definition_lines
from minicompile.lowering.panes.triton_assembly import mlir_lines, ptx_lines, sass_lines
from minicompile.lowering.record import shown_path
from minicompile.models import BUILT_IN, build, minigpt
from minicompile.watching.calls import split_marks
from minicompile.watching.choosing.heuristics import KernelTimes
from minicompile.watching.dynamo.stacks import user_frames
from minicompile.watching.line_hooks import Operation, split_tags
from minicompile.watching.machine.triton import TritonKernels
from minicompile.watching.output_code import triton_sources
from minilab import LabError
from minilab.pages.translations import LANGUAGES
from minimodel.checkpoint import save_checkpoint
from minimodel.numpy_minigpt import MiniGPTConfig, NumpyMiniGPT

SMALL = MiniGPTConfig(vocab_size=16, block_size=16, n_layer=1, n_head=2, n_embd=16)


def test_tags_come_off_and_their_lines_are_counted_from_the_first_that_is_not_blank():
    tagged = "\n\nfor (x) {\n    auto tmp0 = in[x]; /*@op:op1:load:77*/\n}\n    tmp1 = exp(tmp0) # @op:op2:exp:78\n"
    clean, operations = split_tags(tagged)
    assert clean == "\n\nfor (x) {\n    auto tmp0 = in[x];\n}\n    tmp1 = exp(tmp0)\n"
    assert operations == [(1, Operation("op1", "load", 77)), (3, Operation("op2", "exp", 78))]


def test_only_a_tag_at_the_end_of_a_line_comes_off_with_the_blanks_before_it():
    tagged = "a = b; /* c */ /*@op:op1:mul:7*/\nx = '@op:op1:add:7' + y\n#define Z \t# @op:op2:exp:8  \n"
    clean, operations = split_tags(tagged)
    assert clean == "a = b; /* c */\nx = '@op:op1:add:7' + y\n#define Z  \n"
    assert operations == [(0, Operation("op1", "mul", 7)), (2, Operation("op2", "exp", 8))]


def test_the_digest_of_code_is_the_same_wherever_it_was_made():
    codes = [
        f"# AOT ID: ['{n}_inference']\n# kernel path: {folder}/a.py\n# Original path: {folder}/b.py:9\nx = 1 / 2\n"
        for n, folder in enumerate(("/tmp/one", "/home/two/deep"))
    ]
    assert code_digest(codes[0]) == code_digest(codes[1])
    assert code_digest(codes[0]) != code_digest(codes[0].replace("1 / 2", "2 / 2"))


def test_a_mark_is_taken_out_and_stands_for_the_call_after_it():
    code = "\n".join(
        [
            "def call(args):",
            "    # [Provenance debug handles] triton_a:1",
            "    # Topologically Sorted Source Nodes: [x]",
            "    raw_stream0 = get_raw_stream(0)",
            "    triton_a.run(buf0, 4, stream=raw_stream0)",
            "    # [Provenance debug handles] extern_kernels.mm:2",
            "    extern_kernels.mm(buf0, arg0_1, out=buf1)",
            "    # [Provenance debug handles] triton_a:3",
            "    triton_a.run(buf1, 4, stream=raw_stream0)",
        ]
    )
    clean, calls = split_marks(code)
    lines = clean.split("\n")
    assert "Provenance" not in clean
    assert [(call["handle"], lines[call["line"] - 1].strip()) for call in calls] == [
        (1, "triton_a.run(buf0, 4, stream=raw_stream0)"),
        (2, "extern_kernels.mm(buf0, arg0_1, out=buf1)"),
        (3, "triton_a.run(buf1, 4, stream=raw_stream0)"),
    ]


def test_nodes_of_a_printed_graph_are_found_where_they_are_defined():
    lines = [
        "class GraphModule(torch.nn.Module):",
        '    def forward(self, arg0_1: "f32[2][1]", arg1_1: "f32[2][1]"):',
        "        # File: a.py:3 in forward, code: return x + y",
        '        add: "f32[2][1]" = torch.ops.aten.add.Tensor(arg0_1, arg1_1);  arg0_1 = None',
        "        pair = torch.ops.aten.var_mean(add)",
        "        return (add,)",
    ]
    assert definition_lines(lines) == {"arg0_1": 2, "arg1_1": 2, "add": 4, "pair": 5, "output": 6}


def test_an_operator_that_changes_its_operand_in_place_is_defined_on_the_line_that_says_so():
    lines = [
        '    def forward(self, x: "f32[4]", y: "f32[4]"):',
        '        x += y;  iadd: "f32[4][1]" = x;  y = None',
        "        x[(0, slice(None, 4, None))] = 7;  setitem = x;  setitem = None",
        '        gone: "f32[4]" = iadd * 2;  iadd = None',
        "        return (x,)",
    ]
    found = definition_lines(lines)
    assert (found["iadd"], found["setitem"], found["gone"]) == (2, 3, 4)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"name": "v", "target": "aten.permute.default", "is_view": True}, "view"),
        ({"name": "kept", "target": "aten.permute.default", "is_view": True}, "inlined"),
        ({"name": "v", "target": "operator.getitem", "is_view": False}, "view"),
        ({"name": "library", "target": "aten.mm.default", "is_view": False}, "extern call"),
        ({"name": "written", "target": "aten.add.Tensor", "is_view": False}, "materialised"),
        ({"name": "gone", "target": "aten.exp.default", "is_view": False}, "fused away"),
        ({"name": "constant", "target": "aten.full.default", "is_view": False}, "folded"),
        ({"name": "copied", "target": "aten.copy_.default", "is_view": False}, "materialised"),
        ({"name": "kept", "target": "aten.full.default", "is_view": False}, "inlined"),
        ({"name": "copied", "target": "aten.permute.default", "is_view": True}, "materialised"),
        ({"name": "unstored", "target": "aten.add.Tensor", "is_view": False}, "fused away"),
        ({"name": "allocated", "target": "aten.empty.memory_format", "is_view": False}, "materialised"),
        ({"name": "dropped", "target": "aten.index_put.default", "is_view": False}, "folded"),
        ({"name": "template", "target": "flex_attention", "is_view": False}, "materialised"),
        ({"name": "tiles", "target": "aten.mm.default", "is_view": False}, "fused away"),
    ],
)
def test_what_became_of_a_node(node, expected):
    made = {"written", "library", "unstored", "allocated", "gone"}
    in_memory = {name: {"name": name, "removed": False} for name in made - {"gone"}}
    producers = {"kept", "written", "copied", "unstored"}
    removed = {name: {"name": name, "removed": True} for name in ("gone", "dropped")}
    templates = {"template": True, "tiles": False}
    stored = {"copied", "written"}
    assert fate(node, {**in_memory, **removed}, {"library"}, producers, stored, made, templates) == expected


def decided(*reasons: str, taken: bool = False) -> dict:
    return {"first": ["op0"], "second": ["op1"], "taken": taken, "reasons": list(reasons)}


def test_a_known_reason_has_its_code_and_an_unknown_one_is_quoted():
    assert reason(decided("node1 is extern but not a triton kernel"), {}, set()) == {"code": "library"}
    assert reason(decided("the moon is full"), {}, set()) == {"code": "own_words", "reason": "the moon is full"}
    assert reason(decided(), {}, set()) == {"code": "ungiven"}
    assert reason(decided(taken=True), {}, set()) == {"code": "taken"}
    # the last reason is the one that decided
    given = ["memory deps did not match", "numel/rnumel mismatch (reduce) (2, 4)"]
    assert reason(decided(*given), {}, set()) == {"code": "reductions_differ"}
    far = "Nodes are too far away. Fusing them may increase peak memory."
    assert reason(decided(far), {}, set()) == {"code": "far_apart"}


def loop(reads: dict[str, str], writes: list[str], *, template: bool = False, user_triton: bool = False) -> dict:
    """A scheduler node that computes, by the buffers that it reads, each at an index, and those that it writes."""
    return {
        "template": template,
        "user_triton": user_triton,
        "operations": [{}],
        "reads": [{"buffer": buffer, "index": index, "sizes": [4]} for buffer, index in reads.items()],
        "writes": [{"buffer": buffer, "index": "c0", "sizes": [4]} for buffer in writes],
    }


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (loop({"buf0": "p1", "x": "p0"}, ["buf1"]), {"code": "handed", "buffers": ["buf0"]}),
        (loop({"buf0": "*"}, ["buf1"]), {"code": "nothing_shared"}),  # what has only to be waited for
        (loop({"x": "p1"}, ["buf1"]), {"code": "read_by_both", "buffers": ["x"]}),
        (loop({"y": "p0"}, ["buf1"]), {"code": "nothing_shared"}),
    ],
)
def test_where_inductor_finds_no_shared_data_the_buffers_that_both_touch_are_named(second, expected):
    nodes = {"op0": loop({"x": "p0"}, ["buf0"]), "op1": second}
    swapped = {"op0": second, "op1": nodes["op0"]}
    given = decided("no shared data due to indexing mismatch")
    assert reason(given, nodes, set()) == reason(given, swapped, set()) == expected
    assert reason(decided("device mismatch (a vs b)"), nodes, set()) == {"code": "devices"}


@pytest.mark.parametrize(("read", "code"), [("buf0", "other_order"), ("buf2", "between")])
def test_what_a_third_changes_in_place_is_not_read_as_the_first_wrote_it(read, code):
    nodes = {"op0": loop({"x": "p0"}, ["buf0"]), "op1": loop({read: "p0"}, ["buf1"])}
    assert reason(decided("memory deps did not match"), nodes, set()) == {"code": code}


def test_for_a_kernels_elements_its_first_node_counts_even_before_a_template():
    nodes = {
        "before": loop({"x": "p0"}, ["buf0"]),
        "template": loop({"buf0": "p0"}, ["buf1"], template=True),
        "after": loop({"buf1": "p0"}, ["buf2"]),
    }
    given = {
        "taken": False,
        "reasons": ["numel/rnumel mismatch (non-reduce) (3072, 4608), (1, 1)"],
        "second": ["after"],
    }
    assert reason({**given, "first": ["before", "template"]}, nodes, set()) == {"code": "prologue_counted"}
    assert reason({**given, "first": ["template", "after"]}, nodes, set()) == {"code": "elements_differ"}
    assert reason({**given, "first": ["before"]}, nodes, set()) == {"code": "elements_differ"}


@pytest.mark.parametrize("words", ["node1 is extern but not a triton kernel", "node2 is extern or nop"])
def test_a_triton_kernel_of_the_users_is_no_librarys_call(words):
    nodes = {"op0": loop({"x": "p0"}, ["buf0"], user_triton=True), "op1": loop({"buf0": "p0"}, ["buf1"])}
    assert reason(decided(words), nodes, set()) == {"code": "user_kernel"}
    assert reason(decided(words), {**nodes, "op0": nodes["op1"]}, set()) == {"code": "library"}


def test_what_is_read_after_a_change_in_place_has_the_name_that_it_then_has():
    [graph] = captured("changed_and_read", "cpu").capture["graphs"]
    nodes = {node["name"]: {read["buffer"] for read in node["reads"]} for node in graph["scheduler_nodes"]}
    assert nodes["op0"] == {"arg0_1"}
    assert all("buf1" in nodes[name] for name in ("op2", "op5", "op6"))  # buf0 as op1 changed it
    reasons = {(*one["first"], *one["second"]): one["reason"]["code"] for one in graph["decisions"]}
    assert reasons["op0", "op5", "op6"] == "between"
    assert reasons["op1", "op5"] == "handed"


def test_a_fusion_names_the_buffers_that_it_took_out_of_memory():
    nodes = {"op0": loop({"x": "p0"}, ["buf0", "buf2"]), "op1": loop({"buf0": "p0", "buf2": "p0"}, ["buf1"])}
    assert reason(decided(taken=True), nodes, {"buf0", "buf1"}) == {"code": "taken_removed", "buffers": ["buf0"]}
    assert reason(decided(taken=True), nodes, {"buf1"}) == {"code": "taken"}


def test_blocks_that_do_not_fit_a_reductions_rows_are_no_blocks_that_two_kernels_divide_differently():
    [refused] = [
        decision["reason"]
        for graph in captured("turned_mean", "simulated").capture["graphs"]
        for decision in graph["decisions"]
        if decision["reasons"][-1:] == ["invalid tiling for reduction"]
    ]
    assert refused == {"code": "blocks_and_rows"}
    assert reason(decided("tiling mismatch ((8, 512), (128, 32), (128, 32))"), {}, set()) == {"code": "tiling"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_code_of_a_fusion_has_a_sentence_of_its_own(language):
    wording = Wording(language)
    codes = [{"code": code} for code in dict.fromkeys(code for _, code in reason_codes())]
    named = ("taken_removed", *KINSHIPS, "waits", "changes_later", "renamed")
    codes += [{"code": code} for code in ("taken", "ungiven", "unmatched", "prologue_counted")]
    codes += [{"code": code, "buffers": ["buf7"]} for code in named]
    said = [wording.fusion(coded) for coded in [*codes, {"code": "own_words", "reason": "because"}]]
    assert len(set(said)) == len(said)
    assert sum("buf7" in one for one in said) == len(named)


def reasons_in(source: str) -> list[str]:
    """What a module of Inductor's gives a `WhyNoFuse` as reasons; a value put into one is X."""
    found = []
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call) or not call.args:
            continue
        made = isinstance(call.func, ast.Call) and getattr(call.func.func, "id", None) == "WhyNoFuse"
        if made or getattr(call.func, "id", None) == "why":
            (given,) = call.args[:1]
            parts = given.values if isinstance(given, ast.JoinedStr) else [given]
            found.append("".join(part.value if isinstance(part, ast.Constant) else "X" for part in parts))
    return found


def test_every_reason_of_the_installed_torch_has_a_code():
    inductor = Path(torch.__file__).parent / "_inductor"
    texts = [(inductor / name).read_text() for name in ("scheduler.py", "choices.py", "codegen/simd.py")]
    given = [words for text in texts for words in reasons_in(text)]
    assert len(given) > 40
    codes = {words: reason(decided(words), {}, set())["code"] for words in given}
    assert [words for words, code in codes.items() if code == "own_words"] == []
    assert not [words for words in given if "X" in words]


def test_reasons_of_torches_that_are_not_installed_have_codes():
    """Those of 2.14 and 2.15 that 2.13 does not give."""
    given = [
        "incompatible reduction contracts",
        "template fusion does not preserve strict reduction ordering",
        "reduction fusion does not preserve strict sum ordering",
        "epilogue is not a unary read of the output buffer",
        "epilogue's read and write indices differ",
        "nested reduction append planning failed",
        "nested reduction append producer placement mismatch",
        "staged fusion dependency proof failed",
        "a consumer depends on another producer sub-node",
        "sub-parent epilogue planning failed",
        "consumer is not wholly in the sub-parent epilogue",
        "invalid sub-parent epilogue fusion",
        "staged reduction plan would be lost",
    ]
    assert [words for words in given if reason(decided(words), {}, set())["code"] == "own_words"] == []


TTIR = """#loc = loc("/tmp/x/k.py":17:1)
#loc1 = loc(unknown)
#loc2 = loc("/site/helpers.py":5:2)
#loc3 = loc("/tmp/x/k.py":37:12)
#loc4 = loc("tmp6"(#loc3))
#loc5 = loc(callsite(#loc2 at #loc4))
module {
  tt.func public @k(%x: !tt.ptr<f32> loc("x"(#loc))) {
    %c = arith.constant 600 : i32 loc(#loc1)
    %m = arith.maxf %a, %b : f32 loc(#loc5)
  } loc(#loc)
} loc(#loc)"""


def test_ttir_is_shown_without_locations_and_a_helper_counts_as_the_line_that_calls_it():
    lines = mlir_lines(TTIR, "k.py")
    assert ("    %m = arith.maxf %a, %b : f32", 37) in lines
    assert ("    %c = arith.constant 600 : i32", None) in lines
    assert not any("loc" in line for line, _ in lines)


PTX = """.visible .entry k(
	.param .u64 p
)
{
	.reg .b32 %r<4>;
	.loc	1 17 0 // k.py:17:0
	ld.param.b64 %rd3, [p];
	.loc	1 37 12 // k.py:37:12
	.loc	2 182 12, function_name $L__info, inlined_at 1 37 12 // helpers.py:182:12
	.loc	2 169 12, function_name $L__info, inlined_at 2 182 12 // helpers.py:169:12
	max.f32 %f1, %f2, %f3;
}
	.file	1 "/tmp/x/k.py"
	.file	2 "/site/helpers.py"
	.section	.debug_abbrev
.b8 1"""


def test_ptx_is_shown_without_directives_and_inlined_places_are_followed_to_the_kernel():
    lines = ptx_lines(PTX, "k.py")
    assert ("\tmax.f32 %f1, %f2, %f3;", 37) in lines
    assert ("\tld.param.b64 %rd3, [p];", 17) in lines
    assert lines[-1] == ("}", None)


SASS = """\t.section .text.k
\t//## File "/tmp/x/k.py", line 17
        /*0000*/                   LDC R1, c[0x0][0x28] ;
\t//## File "/site/helpers.py", line 182 inlined at "/tmp/x/k.py", line 37
\t//## File "/tmp/x/k.py", line 37
        /*0010*/                   FSETP.GT.AND P1, PT, R9, R0, PT ;
.L_x_1:"""


def test_instructions_carry_the_line_of_the_kernel():
    assert sass_lines(SASS, "k.py") == [
        ("/*0000*/                   LDC R1, c[0x0][0x28] ;", 17),
        ("/*0010*/                   FSETP.GT.AND P1, PT, R9, R0, PT ;", 37),
        (".L_x_1:", None),
    ]


def test_a_compute_node_without_a_line_counts_as_missing():
    graph = {
        "panes": {"aten": "a", "code": "c"},
        "calls": [{"id": "0", "kernel": "k", "extern": False, "line": 9, "aten_nodes": ["exp", "lost"]}],
        "kernels": [{"name": "k", "granularity": "operation", "lines": 4, "lines_tied": 1}],
        "nodes": [
            {"name": "exp", "fate": "inlined", "line": 1, "inputs": [], "size": [4], "buffer": None},
            {"name": "lost", "fate": "inlined", "line": 2, "inputs": ["exp"], "size": [4], "buffer": "buf0"},
        ],
        "scheduler_nodes": [
            {
                "name": "op0",
                "aten_nodes": ["exp", "lost"],
                "operations": [{"name": "exp", "producer": "exp", "buffer": None, "emitted": True}],
                "buffers": ["buf0"],
            }
        ],
        "buffers": [],
    }
    links = [
        {"from": "a", "to": "c", "kind": "operation", "pairs": [[1, 5]]},
        {"from": "a", "to": "c", "kind": "call", "pairs": [[1, 9], [2, 9]]},
    ]
    assert coverage(graph, links)["missing"]["compute_nodes"] == ["lost"]
    graph["kernels"][0]["granularity"] = "kernel"  # then the call is as near as it gets
    assert coverage(graph, links)["missing"]["compute_nodes"] == []


def test_what_was_made_for_a_buffer_that_inductor_dropped_needs_no_line():
    def node(name: str, fate: str, inputs: list, buffer: str | None = None, size: tuple = (4,)) -> dict:
        return {"name": name, "fate": fate, "line": 1, "inputs": inputs, "size": list(size), "buffer": buffer}

    nodes = [
        node("full", "folded", []),
        node("used", "folded", []),
        node("view", "view", ["full"]),
        node("put", "folded", ["view"], "buf3"),
        node("token", "folded", [], None, (0,)),
        node("attention", "extern call", ["put", "used", "token"], "buf4"),
    ]
    made = {"name": "op4", "aten_nodes": ["attention"], "operations": [], "buffers": ["buf4"]}
    graph = {
        "panes": {"aten": "a", "code": "c"}, "calls": [], "kernels": [], "nodes": nodes, "scheduler_nodes": [made],
        "buffers": [],
    }  # fmt: skip
    assert coverage(graph, [])["missing"]["compute_nodes"] == ["attention", "used"]


@pytest.mark.parametrize(
    ("changed", "called", "missing"),
    [
        ({}, [[1, 9]], []),
        ({}, [], ["pow"]),  # of no known kernel
        ({"operation": "pow", "buffer": None}, [[1, 9]], ["pow"]),  # it computes, and has no line
        ({"operation": "load", "buffer": "x"}, [[1, 9]], ["pow"]),  # it reads memory, and has no line
    ],
)
def test_what_only_hands_on_its_operand_needs_no_line(changed, called, missing):
    """A first power whose buffer fusion removed: all that it ever was is a store that no kernel has."""
    node = {"name": "pow", "target": "aten.pow.Tensor_Scalar", "fate": "fused away", "line": 1, "inputs": ["sum"],
            "size": [4], "buffer": "buf0"}  # fmt: skip
    store = {"name": "store", "operation": "store", "producer": "pow", "buffer": "buf0", "emitted": False}
    graph = {
        "panes": {"aten": "a", "code": "c"}, "calls": [], "kernels": [], "nodes": [node],
        "scheduler_nodes": [
            {"name": "op0", "aten_nodes": ["pow"], "operations": [{**store, **changed}], "buffers": ["buf0"]}
        ],
        "buffers": [{"name": "buf0", "removed": True}, {"name": "x", "removed": False}],
    }  # fmt: skip
    links = [{"from": "a", "to": "c", "kind": "call", "pairs": called}]
    assert coverage(graph, links)["missing"]["compute_nodes"] == missing


def test_the_users_own_frames_count_and_torchs_modules_where_there_are_none():
    linear = "/v/lib/python3.11/site-packages/torch/nn/modules/linear.py"
    torchs = f'  File "{linear}", line 134, in forward\n    return F.linear()\n'
    own = '  File "/home/me/mlp.py", line 7, in forward\n    return self.fc(x)\n'
    assert user_frames(own + torchs) == [("/home/me/mlp.py", 7)]
    assert [line for _, line in user_frames(torchs)] == [134]
    assert shown_path(linear) == "torch/nn/modules/linear.py"
    assert user_frames(None) == []


def frame(file: str, line: int) -> str:
    return f'  File "{file}", line {line}, in f\n    x\n'


@pytest.mark.parametrize(
    ("inner", "found"),
    [
        (("{site}/transformers/models/llama/modeling_llama.py", "{site}/torch/nn/modules/linear.py"), [0]),
        (("{site}/torch/optim/optimizer.py", "{site}/torch/optim/adamw.py"), [1]),
        (("{site}/torch/nn/functional.py", "{site}/torch/_dynamo/polyfills/__init__.py"), [0]),
        (("/usr/lib/python3.11/contextlib.py", "/home/me/mine.py", "<eval_with_key>.3"), [1]),
        (("/tmp/ipykernel_7/1234.py", "<ipython-input-3-ab>", "{site}/torch/nn/functional.py"), [1, 0]),
    ],
)
def test_a_line_of_an_installed_package_is_a_source_and_of_torch_where_there_is_none_else(inner, found):
    files = [file.format(site="/v/lib/python3.11/site-packages") for file in inner]
    stack = "".join(frame(file, line) for line, file in enumerate(files))
    assert user_frames(stack) == [(files[line], line) for line in found]


MODEL = "from torch import nn, ones\ndef make():\n    return nn.Linear(2, 3), (ones(1, 2),)\n"


def test_a_users_model_is_made_by_its_factory(tmp_path):
    source = tmp_path / "mlp.py"
    source.write_text(MODEL)
    model = build("mine", entry={"source": str(source), "factory": "make"})
    assert model.name == "mine"
    assert model.module(*model.inputs).shape == (1, 3)


@pytest.mark.parametrize(
    ("text", "factory", "message"),
    [
        (None, "make", "does not exist; write the path"),
        (MODEL, "build", "has no function 'build'"),
        ("import nothing_of_this_name\n", "make", "needs the module nothing_of_this_name, which is neither"),
        ("def make():\n    return 3\n", "make", r"must return \(nn.Module, inputs\) or .* and returned int"),
    ],
)
def test_a_users_model_that_cannot_be_made_is_refused_in_one_sentence(tmp_path, text, factory, message):
    source = tmp_path / "mlp.py"
    if text is not None:
        source.write_text(text)
    with pytest.raises(LabError, match=message):
        build("mine", entry={"source": str(source), "factory": factory})


def test_models_of_the_lab_need_their_checkpoint_and_a_name_that_exists():
    with pytest.raises(LabError, match="give the path of one"):
        build("minigpt")
    with pytest.raises(LabError, match=f"no model is called 'gpt5'; there are {', '.join(BUILT_IN)}"):
        build("gpt5")


def test_minigpt_is_built_from_its_checkpoint_and_gives_probabilities_or_a_loss(checkpoint):
    model = minigpt(checkpoint, shape=(2, 8))
    assert torch.allclose(model.module(*model.inputs).sum(-1), torch.ones(2, 8))
    training = minigpt(checkpoint, "minigpt_train", shape=(2, 8))
    assert training.train
    assert training.module(*training.inputs).shape == ()
    with pytest.raises(LabError, match="asks for 99 tokens, but the model's block_size is 16"):
        minigpt(checkpoint, shape=(2, 99))


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, NumpyMiniGPT.initialise(SMALL, seed=3).arrays, SMALL)
    return path


def test_plain_files_of_two_directions_stand_under_their_titles():
    panes = [
        {"id": "aten.0.forward", "kind": "aten", "title": {"code": "aten"}, "lines": ["a", "b"]},
        {"id": "aten.0.backward", "kind": "aten", "title": {"code": "aten_backward"}, "lines": ["c"]},
        {"id": "code.0.forward", "kind": "code", "title": {"code": "code"}, "lines": ["import torch", "x = 1"]},
    ]
    aten = "# ATen graph as Inductor lowers it"
    assert text_of({"panes": panes}, "aten") == (
        f"{aten} (aten.0.forward)\na\nb\n\n\n{aten}, backward (aten.0.backward)\nc\n"
    )
    assert text_of({"panes": panes}, TEXTS["output_code"]) == "import torch\nx = 1\n"


def test_where_only_a_library_is_called_the_kernels_file_says_so():
    made = {"graphs": [{"calls": [{"extern": True}]}], "target": {"kind": "cpu"}}
    assert interesting_kernel(made).startswith("// torch.compile generated no kernel")


def test_an_exported_model_can_be_read_back(tmp_path):
    model = nn.Linear(2, 3)
    assert write_exported(model, (torch.ones(1, 2),), {}, tmp_path / "exported.pt2") is None
    program = torch.export.load(tmp_path / "exported.pt2")
    assert torch.equal(program.module()(torch.ones(1, 2)), model(torch.ones(1, 2)))


def test_a_model_that_cannot_be_exported_leaves_no_file_and_torchs_reason(tmp_path):
    class Looks(nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x

    path = tmp_path / "exported.pt2"
    path.write_text("of before")
    assert "Could not guard on data-dependent expression" in write_exported(Looks(), (torch.ones(2),), {}, path)
    assert not path.exists()


def test_of_two_kernels_of_one_name_the_one_with_its_text_tells_what_was_chosen():
    times = KernelTimes()
    slow, fast = ({"XBLOCK": size, "num_warps": 4, "num_stages": 1} for size in (64, 256))
    times._found = [("forward\n", [(slow, 2.0), (fast, 1.0)]), ("backward\n", [(slow, 1.0), (fast, 2.0)])]
    assert times.best("forward\n") == fast
    assert times.best("backward\n") == slow
    assert times.best("neither\n") is None


def test_a_kernel_is_compiled_in_the_configuration_that_was_chosen():
    capture = load("chain", "simulated")
    code = next(pane["lines"] for pane in capture["panes"] if pane["kind"] == "code")
    (kernel,) = triton_sources(code).values()
    sources = {"triton_0": kernel}
    with TritonKernels("simulated") as kernels:
        first = kernels.compiled(sources, lambda _text: None)["triton_0"]
        chosen = {**first.configuration, "XBLOCK": 2 * first.configuration["XBLOCK"]}
        made = kernels.compiled(sources, lambda _text: chosen)["triton_0"]
    assert (made.configuration, first.configuration != chosen) == (chosen, True)
    assert made.ttir != first.ttir


def test_a_call_without_nodes_or_without_a_line_is_untied():
    call = {"kernel": "k", "extern": False, "line": 9, "aten_nodes": ["exp"]}
    calls = [{**call, "id": "tied"}, {**call, "id": "no line", "line": None}, {**call, "id": "none", "aten_nodes": []}]
    graph = {"panes": {"aten": "a", "code": "c"}, "calls": calls, "kernels": [], "nodes": [], "scheduler_nodes": [],
             "buffers": []}  # fmt: skip
    found = coverage(graph, [])
    assert found["missing"]["kernel_calls"] == ["no line", "none"]
    assert found["kernel_calls"] == [1, 3]


def test_what_comes_from_a_file_that_leads_to_no_line_of_the_kernel_has_none():
    files = '.file 1 "/tmp/k.py"\n.file 2 "/site/helpers.py"\n'
    text = "\t.loc 1 17 4\n\tmov.u32 %r1, 1;\n\t.loc 2 5 1\n\tmov.u32 %r2, 2;"
    assert ptx_lines(files + text, "k.py") == [("\tmov.u32 %r1, 1;", 17), ("\tmov.u32 %r2, 2;", None)]
