"""The second reading finds each kind of false sentence that it can, in texts by hand, and holds the right ones."""

import json
import re
from collections import Counter

import pytest
from second.judge import Finding
from second.kept import keep, row, table
from second.sentences import sentences
from second.texts import GraphTexts
from second_reading import Reading, read_page

WRAPPER = """
class Runner:
    def call(self, args):
        arg0_1, arg1_1, arg2_1 = args
        buf0 = empty_strided_cuda((4, 8), (8, 1), torch.float32)
        first.run(arg0_1, buf0, 32, stream=raw_stream0)
        buf1 = extern_kernels.convolution(buf0, arg1_1, stride=(1,), bias=None)
        buf2 = buf1; del buf1  # reuse
        second.run(buf2, arg2_1, 32, stream=raw_stream0)
        buf3 = empty_strided_cuda((4, 8), (8, 1), torch.float32)
        filled.run(buf3, 32, stream=raw_stream0)
        third.run(buf0, arg1_1, arg1_1, 32, stream=raw_stream0)
        add_.run(arg0_1, buf3, 32, stream=raw_stream0)
        again.run(buf3, 32, stream=raw_stream0)
        return (buf2, buf3, )
"""
BODIES = {
    "first": (
        "in_ptr0, out_ptr0",
        "tmp0 = tl.load(in_ptr0 + (x0), xmask)",
        "tmp1 = tl_math.exp(tmp0)",
        "tmp2 = tl_math.cos(tmp1)",
        "tl.store(out_ptr0 + (x0), tmp2, xmask)",
    ),
    "second": (
        "in_out_ptr0, in_ptr0",
        "tmp0 = tl.load(in_out_ptr0 + (x0), xmask)",
        "tmp1 = tl.load(in_ptr0 + (x0), xmask)",
        "tmp2 = tmp0 + tmp1",
        "tl.store(in_out_ptr0 + (x0), tmp2, xmask)",
    ),
    "filled": ("out_ptr0", "tmp0 = tl.full([1], 0.0, tl.float32)", "tl.store(out_ptr0 + (x0), tmp0, xmask)"),
    "again": ("out_ptr0", "tmp0 = tl.full([1], 1.0, tl.float32)", "tl.store(out_ptr0 + (x0), tmp0, xmask)"),
    "third": (
        "in_ptr0, in_ptr1, out_ptr0",
        "tmp0 = tl.load(in_ptr0 + (x0 + 0), xmask)",
        "tmp1 = tl.load(in_ptr1 + (x0), xmask)",
        "tmp2 = tmp0 * tmp1",
        "xindex = xoffset + tl.arange(0, XBLOCK)",
        "tmp3 = triton_helpers.max2(tmp2, 1)",
        "tl.store(out_ptr0 + (x0), tmp3, xmask)",
    ),
    "add_": ("x_ptr, y_ptr", "tl.store(x_ptr + at, tl.load(x_ptr + at) + tl.load(y_ptr + at))"),
}
ATEN = """
class GraphModule(torch.nn.Module):
    def forward(self, arg0_1: "f32[4, 8][8, 1]", arg1_1: "f32[4, 8][8, 1]", arg2_1: "f32[8][1]"):
        exp: "f32[4, 8][8, 1]" = torch.ops.aten.exp.default(arg0_1)
        cos: "f32[4, 8][8, 1]" = torch.ops.aten.cos.default(exp);  exp = None
        convolution: "f32[4, 8][8, 1]" = torch.ops.aten.convolution.default(cos, arg1_1, arg2_1, [1])
        zeros: "f32[4, 8][8, 1]" = torch.ops.aten.full.default([4, 8], 0.0)
        scatter_add: "f32[4, 8][8, 1]" = torch.ops.aten.scatter_add.default(zeros, 0, arg1_1, cos)
        mul: "f32[4, 8][8, 1]" = torch.ops.aten.mul.Tensor(cos, arg1_1)
        clone: "f32[4, 8][8, 1]" = torch.ops.aten.clone.default(cos)
        max_1: "f32[][]" = torch.ops.aten.max.default(mul)
        amax: "f32[][]" = torch.ops.aten.amax.default(mul)
        view: "f32[32][1]" = torch.ops.aten.view.default(scatter_add, [32])
        view_1: "f32[32][1]" = torch.ops.aten.view.default(cos, [32])
        copy_: "f32[4, 8][8, 1]" = torch.ops.aten.copy_.default(arg1_1, mul)
        copy__1: "f32[4, 8][8, 1]" = torch.ops.aten.copy_.default(clone, mul)
        triton = torch.ops.higher_order.triton_kernel_wrapper_mutation(arg0_1)
        return (convolution,)
"""
SCHEDULED = """
op0: SchedulerNode(ComputedBuffer)
op0.writes = [MemoryDep('buf0', c0, {c0: 32})]
op0.unmet_dependencies = []
op0.met_dependencies = [MemoryDep('arg0_1', c0, {c0: 32})]
op0.min_input_distance = 0
op0.outputs = [
    buf0: ComputedBuffer
    buf0.layout = FixedLayout('cuda:0', torch.float32, size=[4, 8], stride=[8, 1])
]
op0.group.iteration = (32, 1)
op3: SchedulerNode(ComputedBuffer)
op3.writes = [MemoryDep('buf3', c0, {c0: 32})]
op3.unmet_dependencies = []
op3.met_dependencies = [MemoryDep('arg2_1', c0, {c0: 32})]
op3.min_input_distance = 0
op3.group.iteration = (32, 1)
op7: SchedulerNode(ComputedBuffer)
op7.writes = [MemoryDep('buf7', c0, {c0: 32})]
op7.unmet_dependencies = [MemoryDep('buf0', c0, {c0: 32})]
op7.met_dependencies = [MemoryDep('arg0_1', c0, {c0: 32})]
op7.min_input_distance = 0
op7.outputs = [
    buf7: ComputedBuffer
    buf7.layout = MutationLayout('cuda:0', torch.float32, size=[4, 8], stride=[8, 1])
    buf7.mutations = ['arg1_1']
]
op7.group.iteration = (32, 1)
"""
STEPS = "This kernel computes, in this order: "
FATE = " | written to memory |"


def _code() -> str:
    kernels = "".join(
        f"{name} = async_compile.triton('{name}', '''\n@triton.jit\ndef {name}({body[0]}, xnumel):\n"
        + "".join(f"    {line}\n" for line in body[1:])
        + "''', device_str='cuda')\n"
        for name, body in BODIES.items()
    )
    return kernels + WRAPPER


def _read(kernel: str, said: str, code: str = "") -> dict[str, Finding]:
    """What became of the sentences of a page about a kernel, by their texts."""
    code = code or _code()
    line = next(number for number, text in enumerate(code.split("\n"), 1) if text.strip().startswith(f"{kernel}.run("))
    lines = code.split("\n")
    said = re.sub(r"@(.*?)@", lambda text: str(1 + next(n for n, one in enumerate(lines) if text[1] in one)), said)
    page = f"# `{kernel}`, explained\n\nIt is called on line {line} of the forward graph's generated code.\n\n{said}\n"
    return {one.sentence.text: one for one in read_page(page, GraphTexts(code, ATEN, SCHEDULED, SCHEDULED))}


def _row(target: str, name: str, became: str = "written to memory", size: str = "4x8 float32") -> str:
    return f"| `{target}` | `{name}` | {size} | m.py:1 `f(x)` | {became} |"


LIBRARY = "computed by a library's kernel"
INLINED, FREE = "part of its consumers' loops; it never was a buffer", "op0 with op7: Not fused. "
CHANGED = "`in_out_ptr0 + x0` on line @tmp0 = tl.load(in_out_ptr0@"
STORED = "`out_ptr0 + x0` on line @out_ptr0 + (x0), tmp2@"
FILLED = "`out_ptr0 + x0` on line @tl.store(out_ptr0 + (x0), tmp0, xmask)@"
GIVEN = "`in_ptr0 + x0` on line @in_ptr0 + (x0 + 0)@"
COS, EXP = _row("aten.cos.default", "cos"), _row("aten.exp.default", "exp", INLINED)
MUL = _row("aten.mul.Tensor", "mul", INLINED)
FUSED, READ, WRITTEN, ORDERED = "## 1. F\n", "## 2. R\n", "## 3. W\n", "## 4. O\n"
LABEL = "Model `m`; {}; torch 2.13."
KINDS = {
    "A: a line of no named operation": (
        "first",
        f"{STEPS}`cos`.\n\n{FUSED}{COS}",
        "tmp1 = tl_math.exp(tmp0)",
        f"{STEPS}exponential, `cos`.\n\n{FUSED}{EXP}\n{COS}",
    ),
    "A: what a user's kernel is called for": (
        "add_",
        "This is a Triton kernel of the user's own, and Inductor only calls it, for `triton`, `cos`.",
        "`cos` is cos",
        "This is a Triton kernel of the user's own, and Inductor only calls it, for `triton`.",
    ),
    "A: computes nothing": (
        "first",
        "The kernel computes no ATen operation, so there is no intermediate.",
        "tl_math.exp",
        None,
    ),
    "B: a bias in no account": (
        "second",
        "Nothing was fused here: the capture ties the kernel to no ATen operation that it computes.",
        "tmp2 = tmp0 + tmp1",
        None,
    ),
    "B: a convolution without its bias": (
        "second",
        f"{READ}- `buf1`, the result of `aten.convolution.default` (`convolution`) (128 bytes): {CHANGED}",
        "bias=None",
        f"{READ}- `arg2_1`, an input of the graph (32 bytes): `in_ptr0 + x0` on line @tmp1 = tl.load(in_ptr0@",
    ),
    "B: a finished convolution is no result": (
        "second",
        "The kernel also writes what is no ATen operation's result: `buf2` (128 bytes).",
        "with its bias added",
        None,
    ),
    "C: prepared memory": (
        "filled",
        f"{STEPS}`scatter_add`.",
        "stores constants alone",
        f"{STEPS}fill with one value.",
    ),
    "D: a constant stored": (
        "filled",
        "Nothing was fused here: the capture ties the kernel to no ATen operation that it computes.",
        "it fills memory",
        "Nothing was fused here: the kernel computes no ATen operation, it only fills memory.",
    ),
    "E: another's views": (
        "first",
        f"{FUSED}{COS}\n\nViews, which change indices and cost no code: `view`.",
        "`view` is a view of scatter_add",
        f"{FUSED}{COS}\n\nViews, which change indices and cost no code: `view_1`.",
    ),
    "F: changed in place": (
        "first",
        f"- {FREE}One of the two changes in place what the other has written: `buf0`.",
        "op7 changes no memory of buf0",
        f"- {FREE}One of the two writes what the other reads: `buf0`.",
    ),
    "G: the very index": (
        "first",
        f"- {FREE}The second reads what the first writes, and Inductor could not match them.",
        "the very index",
        "- op0 with op3: Not fused. No buffer is read or written by both.",
    ),
    "G: reads nothing of it": (
        "first",
        "- op0 with op3: Not fused. The second reads what the first writes, and Inductor could not.",
        "and the first writes buf0",
        None,
    ),
    "H: shares a buffer": (
        "first",
        f"- {FREE}No buffer is read or written by both.",
        "both touch",
        f"- {FREE}One of the two writes what the other reads: `buf0`.",
    ),
    "I: a sort that is none": ("third", f"{STEPS}sort, multiply.", "can be `sort`", f"{STEPS}multiply."),
    "J: copied into no input": (
        "third",
        f"{STEPS}copy into an input.\n\n{FUSED}{_row('aten.copy_.default', 'copy__1')}",
        "copies into clone",
        f"{STEPS}copy into an input.\n\n{FUSED}{MUL}\n{_row('aten.copy_.default', 'copy_')}",
    ),
    "K: a copy_ in no memory": (
        "third",
        f"{FUSED}{_row('aten.copy_.default', 'copy_', INLINED)}",
        "which copy_ changes",
        f"{FUSED}{_row('aten.copy_.default', 'copy_')}",
    ),
    "M: no position": ("third", f"{STEPS}maximum and its position.", "finds the position", f"{STEPS}maximum."),
    "N: out of order": (
        "first",
        f"{STEPS}`cos`, exponential.",
        "each line that can be `cos` needs",
        f"{STEPS}exponential, `cos`.",
    ),
    "O: a scan of a product": (
        "third",
        f"{ORDERED}- A sort: op7, for `aten.sort.stable` (`sort`, m.py:1), `aten.mul.Tensor` (`mul`, m.py:1).",
        "`mul` is no scan",
        f"{ORDERED}- A sort: op7, for `aten.sort.stable` (`sort`, m.py:1).",
    ),
    "P: the label": (
        "first",
        LABEL.format("C++ for this machine's CPU"),
        "is Triton",
        LABEL.format("simulated target: Triton for an H200"),
    ),
    "Q: a branch is no library's": (
        "first",
        f"{FUSED}{_row('higher_order.cond', 'cond', LIBRARY, 'several tensors')}",
        "graphs within this one",
        None,
    ),
    "S: returned": (
        "first",
        f"{WRITTEN}- `buf0`, the result of `aten.cos.default` (`cos`) (128 bytes): {STORED}. The graph returns it.",
        "and not buf0",
        f"{WRITTEN}- `buf0`, the result of `aten.cos.default` (`cos`) (128 bytes): {STORED}.",
    ),
    "S: what a later call overwrites": (
        "filled",
        f"{WRITTEN}- `buf3`, the result of `aten.full.default` (`zeros`) (128 bytes): {FILLED}. The graph returns it.",
        "writes that memory again",
        f"{WRITTEN}- `buf3`, the result of `aten.full.default` (`zeros`) (128 bytes): {FILLED}.",
    ),
    "who made what is read": (
        "third",
        f"{READ}- `buf0`, the result of `aten.mul.Tensor` (`mul`) (128 bytes): {GIVEN}.",
        "has no line that can be mul",
        f"{READ}- `buf0`, the result of `aten.cos.default` (`cos`) (128 bytes): {GIVEN}.",
    ),
    "a line that is another operation": (
        "first",
        "```\n# @tmp2 = tl_math.cos@: aten.exp.default (exp), m.py:1\n```",
        "cannot be exp",
        "```\n# @tmp2 = tl_math.cos@: aten.cos.default (cos), m.py:1\n```",
    ),
    "T: one pattern, two places": (
        "first",
        "- The pattern `p` put `mul` in the place of `a`.\n- The pattern `p` put `mul` in the place of `b`.",
        "in another place",
        "- The pattern `p` put `mul` in the place of `a`.",
    ),
    "W: stored whole": (
        "first",
        f"{FUSED}{_row('aten.cos.default', 'cos', INLINED)}",
        "stores tmp2",
        f"{FUSED}{COS}",
    ),
    "bytes that no buffer has": (
        "first",
        "The kernel's loads reach 256 bytes of memory and its stores 128, each once: it moves 384 bytes.",
        "have 128 bytes",
        "The kernel's loads reach 128 bytes of memory and its stores 128, each once: it moves 256 bytes.",
    ),
    "how many values are reduced": (
        "third",
        f"{ORDERED}- The largest of 16 values: `max` in op1, for `aten.amax.default` (`amax`, m.py:1).",
        "mul has 32 elements",
        f"{ORDERED}- The largest of 32 values: `max` in op1, for `aten.amax.default` (`amax`, m.py:1).",
    ),
    "a line that has it not": (
        "first",
        f"{ORDERED}- `tl.sum` adds up along one axis (line @tl_math.cos@).",
        "has no tl.sum",
        f"{ORDERED}- `tmp2` is the cosine (line @tl_math.cos@).",
    ),
    "what a line reads": (
        "second",
        "```\n# @tmp1 = tl.load(in_ptr0@: aten.add (add): reads buf0[p0]\n```",
        "passes arg2_1",
        "```\n# @tmp1 = tl.load(in_ptr0@: aten.add (add): reads arg2_1[p0]\n```",
    ),
    "a size": (
        "first",
        f"{FUSED}{_row('aten.cos.default', 'cos', size='4x9 float32')}",
        "[4, 8]",
        f"{FUSED}{COS}",
    ),
    "a parameter": ("second", "```\n# 5: in_ptr0 is buf0\n```", "passes arg2_1", "```\n# 5: in_ptr0 is arg2_1\n```"),
}


CPP = """first = async_compile.cpp_pybinding(['const float*', 'float*', 'float*'], r'''
#include <torch/csrc/inductor/cpp_prefix.h>
#include <ATen/Context.h>
extern "C"  void  kernel(const float* in_ptr0,
                       float* out_ptr0,
                       float* in_out_ptr0)
{
    auto out_ptr1 = in_out_ptr0;
    float tmp_acc0 = -std::numeric_limits<float>::infinity();
    for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(32L); x0+=static_cast<int64_t>(16L))
    {
        auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0 + static_cast<int64_t>(x0), static_cast<int64_t>(16));
        auto tmp1 = tmp0.exp();
        auto tmp2 =
        [&]
        {
            __at_align__ std::array<float, 16> tmpbuf;
            tmp1.store(tmpbuf.data(), static_cast<int64_t>(16));
            for (long x0_inner = 0; x0_inner < static_cast<int64_t>(16); x0_inner++)
            {
                tmpbuf[x0_inner] = std::cos(tmpbuf[x0_inner]);
            }
            return at::vec::Vectorized<float>::loadu(tmpbuf.data(), static_cast<int64_t>(16));
        }
        ()
        ;
        auto tmp3 = at::vec::convert<float,1,float,1>(tmp2);
        auto tmp4 = tmp3.exp() - decltype(tmp3)(1);
        tmp4.store(out_ptr0 + static_cast<int64_t>(x0), static_cast<int64_t>(16));
        out_ptr0[static_cast<int64_t>(x0)] += tmp_acc0;
        tmp_acc0 = max_propagate_nan(tmp_acc0, at::vec::vec_reduce_all<float, 1>(tmp2));
        auto tmp5 = at::vec::Vectorized<float>::loadu(out_ptr0 + static_cast<int64_t>(x0), static_cast<int64_t>(16));
    }
    out_ptr1[static_cast<int64_t>(0L)] = static_cast<float>(tmp_acc0);
}
''')
def call(args):
        arg0_1, arg1_1 = args
        buf0 = empty_strided_cpu((4, 8), (8, 1), torch.float32)
        first(arg0_1, buf0, arg1_1)
        return (buf0, )
"""
COMMENTS = (  # of the lines above: where, what is right, and what is not
    ("cpp_prefix", "Inductor's own C++ header", "a C++ header"),
    ("ATen/Context", "a C++ header", "Inductor's own C++ header"),
    ("auto out_ptr1", "`out_ptr1` is another name for `in_out_ptr0`", "`out_ptr1` is another name for `in_ptr0`"),
    ("float tmp_acc0", "`tmp_acc0`, of type float, takes the result and starts as "
     "`-std::numeric_limits<float>::infinity()`", "`tmp_acc0`, of type float, takes the result and starts as `0`"),
    ("for(int64_t", "`x0` runs from 0 up to 32 in steps of 16", "`x0` runs from 0 up to 32 in steps of 8"),
    ("auto tmp0", "arg0_1: reads arg0_1[p0]; loads a vector", "arg1_1: reads arg1_1[p0]; loads a vector"),
    ("auto tmp1", "aten.exp.default (exp), m.py:1", "aten.cos.default (cos), m.py:1"),
    ("auto tmp2", "aten.cos.default (cos), m.py:1", "aten.mul.Tensor (mul), m.py:1"),
    ("auto tmp2", "`tmp2` is what the inline function below returns",
     "`tmp3` is what the inline function below returns"),
    ("tmp1.store", "the vector goes into that buffer", "hands the buffer's values on"),
    ("for (long", "`x0_inner` runs over the lanes of one vector", "`x0` runs over the lanes of one vector"),
    ("auto tmp3", "aten.cos.default (cos), m.py:1", "aten.mul.Tensor (mul), m.py:1"),  # which hands that on
    ("auto tmp4", "aten.expm1.default (expm1), m.py:1", "aten.mul.Tensor (mul), m.py:1"),
    ("tmp4.store", "writes buf0[p0]", "writes arg1_1[p0]"),
    ("] += tmp_acc0", "writes buf0[p0]; adds to what is there", "writes arg1_1[p0]; adds to what is there"),
    ("tmp_acc0 = max", "a horizontal reduction makes one value of the vector's lanes", "lane by lane, `tmp_acc0` adds"),
    ("auto tmp5", "aten.expm1.default (expm1), m.py:1: reads buf0[p0]",
     "aten.expm1.default (expm1), m.py:1: reads arg1_1[p0]"),
    ("out_ptr1[", "writes arg1_1[0]", "writes buf0[0]"),
)  # fmt: skip


@pytest.mark.parametrize("comment", COMMENTS, ids=lambda one: one[0])
def test_a_line_of_c_plus_plus_is_held_against_its_text(comment):
    start, right, wrong = comment
    texts = GraphTexts(CPP, f'{ATEN}        expm1: "f32[4, 8][8, 1]" = torch.ops.aten.expm1.default(cos)\n', SCHEDULED)
    lines = CPP.split("\n")
    line = 1 + next(number for number, one in enumerate(lines) if start in one)
    called = 1 + next(number for number, one in enumerate(lines) if one.strip().startswith("first(arg"))
    for said, verdict in ((right, "held"), (wrong, "false")):
        page = (
            f"# `first`, explained\n\nIt is called on line {called} of the code.\n\n```cpp\n// {line}: {said}\nx\n```\n"
        )
        [found] = [one for one in read_page(page, texts) if one.sentence.kind == "comment"]
        assert (found.verdict, found.sentence.text) == (verdict, f"{line}: {said}"), found.cause


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_found_and_the_right_sentence_is_held(kind):
    kernel, wrong, cause, right = KINDS[kind]
    false = [one.cause for one in _read(kernel, wrong).values() if one.verdict == "false"]
    assert any(cause in one for one in false), false
    if right is not None:
        found = list(_read(kernel, right).values())
        stray = [one.cause for one in found if one.verdict == "false" and not one.sentence.text.startswith("section ")]
        assert not stray
        assert sum(one.verdict == "held" for one in found) > 1  # more than where it is called


def test_an_index_that_is_counted_from_the_end_where_it_is_negative_is_that_index():
    wrapped = ("tmp1 = tmp0 + tmp9", "tmp2 = tmp0 < 0", "tmp3 = tl.where(tmp2, tmp1, tmp0)")
    third = "\n    ".join(("tmp0 = tl.load(in_ptr0 + (x0 + 0), xmask)", *wrapped))
    code = _code().replace("tmp0 = tl.load(in_ptr0 + (x0 + 0), xmask)", third)
    for operation, moved, verdict in (("cos", wrapped[0], "held"), ("mul", wrapped[0], "false"), ("cos", "", "false")):
        said = f"```python\n# @{wrapped[2]}@: aten.{operation}.default ({operation}), m.py:1\nx\n```\n"
        found = _read("third", said, code.replace(wrapped[0], moved or "tmp1 = tmp0 * tmp9")).values()
        assert [one.verdict for one in found if one.sentence.kind == "comment"] == [verdict]


def test_c_plus_plus_under_the_heading_of_triton():
    code = _code().replace("first = async_compile.triton('first', '''", "first = async_compile.cpp_pybinding([], r'''")
    found = _read("first", LABEL.format("simulated target: Triton for an H200"), code)
    assert next(one.cause for one in found.values() if one.verdict == "false") == "first is C++"


def test_memory_that_no_sentence_names_is_told():
    found = _read(
        "second",
        f"{FUSED}{READ}- `buf1`, what op1 yields (128 bytes): {CHANGED}",
    )
    assert any(one.cause == "in_ptr0 is not named" for one in found.values())


def test_each_line_that_touches_memory_is_told():
    again = _code().replace("tmp2 = tmp0 + tmp1", "tmp3 = tl.load(in_ptr0 + (x0), xmask)\n    tmp2 = tmp0 + tmp3")
    said = f"{FUSED}{READ}- `arg2_1`, an input (32 bytes): `in_ptr0 + x0` on line @tmp1 = tl.load(in_ptr0 + (x0)@"
    once, twice = (
        [one.cause for one in _read("second", said, code).values() if "in_ptr0" in one.cause]
        for code in (_code(), again)
    )
    assert once == []
    assert [cause.endswith("tmp3 = tl.load(in_ptr0 + (x0), xmask)") for cause in twice] == [True]


def test_what_has_no_rule_is_unread_and_never_held():
    found = _read("first", "It runs faster than light.")
    assert found["It runs faster than light."].verdict == "unread"


def test_sentences_keep_their_sections_and_who_tells_them():
    page = "## 1. F\n\nBy Inductor's notes: it adds.\n\n- by Inductor's notes `a`.\n\n```python\n# 3: loads\nx\n```"
    told = [(one.section, one.kind, one.text, one.noted) for one in sentences(page)]
    assert told == [(1, "text", "it adds.", True), (1, "item", "`a`.", True), (-1, "comment", "3: loads", False)]


def test_a_reading_counts_what_notes_tell_apart():
    reading = Reading()
    said = sentences("By Inductor's notes: a.\n\nAs it is.")
    reading.add("page", [Finding(said[0], "false", "why"), Finding(said[1], "held")])
    assert "| by notes | 1 | 0 | 1 | 0 |" in reading.table()
    assert "| as facts | 1 | 1 | 0 | 0 |" in reading.table()


def test_what_was_read_is_kept_by_set_and_target_and_shown_as_a_table(tmp_path):
    calls = [
        {"extern": False, "values": {"status": "verified"}},
        {"extern": False, "values": {"status": "refused"}},
        {"extern": False},
        {"extern": True},
    ]
    capture = {"graphs": [{"calls": calls}, {"calls": calls[:1]}], "environment": {"versions": {"torch": "2.13.0"}}}
    counts = Counter({("as facts", "held"): 70, ("as facts", "unread"): 8, ("by notes", "false"): 9})
    data = tmp_path / "kept.json"
    keep("stored", {"cpu": row(Counter(), []), "simulated": row(Counter(), [capture])}, data)
    keep("random, seed 5", {"cpu": row(counts, [capture, capture])}, data)
    keep("stored", {"cpu": row(counts, [capture])}, data)
    rows = [line.split(" | ")[:-1] for line in table(json.loads(data.read_text())).split("\n")[-3:]]
    assert rows == [
        ["| random, seed 5", "cpu", "2", "4 of 8", "70 / 0 / 8", "0 / 9 / 0", "2.13.0"],
        ["| stored", "cpu", "1", "2 of 4", "70 / 0 / 8", "0 / 9 / 0", "2.13.0"],
        ["| stored", "simulated", "1", "2 of 4", "0 / 0 / 0", "0 / 0 / 0", "2.13.0"],
    ]
