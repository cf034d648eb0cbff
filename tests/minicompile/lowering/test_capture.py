"""The capture: complete, exact, and without a trace in the code that it watches."""

import copy
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
import torch
from captured import FAST, Links, compiled_code, pane_of, small_minigpt
from torch import nn
from torch.nn import functional as F

from minicompile.capturing import capture
from minicompile.explain.wording import Wording
from minicompile.lowering.capture import code_digest
from minicompile.lowering.coverage import gaps
from minicompile.lowering.simulated_vs_real import compare_with_real
from minicompile.models import tiny_head
from minicompile.torch_private import names
from minicompile.torch_private.paths import without_paths
from minilab import LabError
from minilab.config.check import check_schema, read_schema

SCHEMA = read_schema("schemas/capture.schema.yaml")


def captured(model, target="cpu", **more):
    options = FAST if target == "cpu" else None
    made = {"target": target, "train": model.train, "name": model.name, "options": options}
    return capture(model.module, model.inputs, **made, **more)


@pytest.fixture(scope="module")
def tiny():
    return captured(tiny_head(), assembly=True)


@pytest.fixture(scope="module")
def training():
    return captured(small_minigpt(train=True))


@pytest.fixture(scope="module")
def tiny_simulated():
    return captured(tiny_head(), "simulated")


@pytest.fixture(scope="module")
def training_simulated():
    return captured(small_minigpt(train=True), "simulated", assembly=True)


EVERY = ["tiny", "training", "tiny_simulated", "training_simulated"]


@pytest.fixture(params=EVERY)
def made(request):
    return request.getfixturevalue(request.param)


def test_a_capture_fits_its_schema(made):
    check_schema(made, SCHEMA, "the capture")


def test_the_guards_of_a_compile_are_kept(made):
    """They were dropped before they were read, and the explorer said that a compile had none."""
    assert any("GUARD" in line for line in made["guards"])


def test_every_field_of_the_schema_that_holds_something_else_than_names_is_described():
    def undescribed(schema, path):
        for key, value in schema.get("properties", {}).items():
            structural = value.get("$ref") or "enum" in value or value.get("type") in ("string", "integer", "boolean")
            if "description" not in value and not structural and value.get("type") != ["string", "null"]:
                yield f"{path}.{key}"
            yield from undescribed(value, f"{path}.{key}")
            yield from undescribed(value.get("items", {}), f"{path}.{key}[]")

    assert list(undescribed(SCHEMA, "capture")) == []


def test_every_compute_node_call_and_loop_operation_is_tied(made):
    for graph in made["graphs"]:
        for what in ("compute_nodes", "kernel_calls", "loop_body_operations"):
            linked, total = graph["coverage"][what]
            assert linked == total > 0, (graph["id"], what)
    directions = [graph["direction"] for graph in made["graphs"]]
    assert directions == (["forward", "backward"] if made["model"]["train"] else ["forward"])


def test_every_link_is_between_lines_that_exist(made):
    lengths = {pane["id"]: len(pane["lines"]) for pane in made["panes"]}
    for link in made["links"]:
        for first, second in link["pairs"]:
            assert 1 <= first <= lengths[link["from"]]
            assert 1 <= second <= lengths[link["to"]]


@pytest.mark.parametrize(
    ("text", "target"),
    [
        (r"\.exp\(\)|libdevice\.exp\(|\.fexp_u20\(", r"aten\.exp|prepare_softmax_online"),
        (r"\.rsqrt\(\)|1 / std::sqrt|libdevice\.rsqrt", r"aten\.rsqrt"),
        (r"\.tanh\(\)|libdevice\.tanh", r"aten\.tanh"),
    ],
)
def test_a_function_in_a_kernel_is_tied_to_the_aten_node_of_that_function_and_to_no_other(made, text, target):
    links, seen = Links(made), 0
    for graph in made["graphs"]:
        code = graph["panes"]["code"]
        for kernel in graph["kernels"]:
            for line in range(kernel["first"], kernel["last"] + 1):
                if re.search(text, links.lines[code, line]):
                    nodes = [links.lines[place] for place in links.up[code, line] if place[0] == graph["panes"]["aten"]]
                    assert nodes, links.lines[code, line]
                    assert all(re.search(target, node) for node in nodes), (links.lines[code, line], nodes)
                    seen += 1
    assert seen or made["model"]["name"] == "tiny_head"


def test_a_source_line_reaches_the_kernel_line_that_computes_it_and_back(tiny):
    links, source = Links(tiny), pane_of(tiny, "source")
    softmax = next(n for n, line in enumerate(source["lines"], 1) if "return F.softmax(logits, dim=-1)" in line)
    code = tiny["graphs"][0]["panes"]["code"]
    below = {
        links.lines[place].strip() for place in links.reached(source["id"], softmax, links.down) if place[0] == code
    }
    assert any(".exp()" in line for line in below)
    assert not any("extern_kernels.addmm" in line for line in below)
    exp = next(n for (pane, n), line in links.lines.items() if pane == code and ".exp()" in line)
    above = links.reached(code, exp, links.up)
    assert (source["id"], softmax) in above


def test_a_backward_kernel_reaches_the_users_source(training):
    links = Links(training)
    backward = training["graphs"][1]
    sources = {pane["id"] for pane in training["panes"] if pane["kind"] == "source"}
    for call in backward["calls"]:
        above = links.reached(backward["panes"]["code"], call["line"], links.up)
        assert {pane for pane, _ in above} & sources, call["kernel"]


def test_layers_that_share_a_kernel_are_all_tied_to_it(training):
    graph = training["graphs"][0]
    calls = [call["kernel"] for call in graph["calls"] if not call["extern"]]
    shared = max(calls, key=calls.count)
    assert calls.count(shared) >= 2
    kernel = next(kernel for kernel in graph["kernels"] if kernel["name"] == shared)
    members = {node for call in graph["calls"] if call["kernel"] == shared for node in call["scheduler_nodes"]}
    assert set(kernel["scheduler_nodes"]) == members


def test_the_generated_code_is_the_same_byte_for_byte_as_without_the_capture(made):
    model = small_minigpt(train=True) if made["model"]["train"] else tiny_head()
    plain = compiled_code(model, made["target"]["kind"])
    assert [graph["code_sha256"] for graph in made["graphs"]] == [code_digest(code) for code in plain]


def test_a_missing_line_hook_leaves_whole_kernels_linked_and_says_so(monkeypatch, tiny_simulated):
    gone = names.PrivateName("torch._inductor.loop_body:NoSuchTracer", "a loop-body operation", required=False)
    monkeypatch.setitem(names.NAMES, "tracer", gone)
    coarse = captured(tiny_head(), "simulated")
    assert coarse["missing_hooks"] == ["tracer"]
    assert {kernel["granularity"] for kernel in coarse["graphs"][0]["kernels"]} == {"kernel"}
    linked, total = coarse["graphs"][0]["coverage"]["compute_nodes"]
    assert linked == total
    # and neither set of hooks shows in the code
    assert coarse["graphs"][0]["code_sha256"] == tiny_simulated["graphs"][0]["code_sha256"]


def test_the_fates_of_tiny_heads_nodes_are_what_its_kernel_shows(tiny):
    fates = {node["target"]: node["fate"] for node in tiny["graphs"][0]["nodes"] if node["fate"]}
    assert fates["aten.addmm.default"] == "extern call"
    assert fates["aten.permute.default"] == "view"
    assert fates["aten.div.Tensor"] == "materialised"
    assert fates["aten.sub.Tensor"] == "inlined"
    lowering = {node["target"]: node["lowering"] for node in tiny["graphs"][0]["nodes"]}
    assert lowering["aten.addmm.default"]["function"] == "tuned_addmm"
    assert lowering["aten.addmm.default"]["file"] == "torch/_inductor/kernel/mm.py"


def test_what_is_fused_was_decided_on_and_each_decision_has_a_reason(made):
    for graph in made["graphs"]:
        taken = [set(d["first"] + d["second"]) for d in graph["decisions"] if d["taken"]]
        for group in graph["groups"]:
            if len(group["members"]) > 1:
                assert set(group["members"]) in taken
        assert all(Wording().fusion(decision["reason"]).endswith(".") for decision in graph["decisions"])
        assert all(d["reason"]["code"].startswith("taken") == d["taken"] for d in graph["decisions"])
    assert any(d["reasons"] for graph in made["graphs"] for d in graph["decisions"]) or made["target"]["simulated"]


def test_the_arguments_of_a_call_are_those_of_the_kernels_signature(made):
    for graph in made["graphs"]:
        for call in graph["calls"]:
            if not call["extern"]:
                named = [name for name, _ in call["arguments"] if name]
                assert len(named) == len(set(named)) > 0
                assert all(re.fullmatch(r"\w+", name) for name in named)


def test_simulated_kernels_come_with_machine_code_tied_to_their_lines(training_simulated):
    links = Links(training_simulated)
    assert training_simulated["target"]["simulated"] is True
    assert "never run" in Wording().label(training_simulated)
    for graph in training_simulated["graphs"]:
        above_loads = []
        for kernel in graph["kernels"]:
            assembly = kernel["assembly"]
            assert assembly["architecture"] == "sm_90"
            assert assembly["stack_bytes"] == 0
            for kind in ("ttir", "ptx", "sass"):
                pane = assembly["panes"][kind]
                tied = {line for (p, n), ups in links.up.items() if p == pane for _, line in ups}
                assert tied, (kernel["name"], kind)
                assert all(kernel["first"] <= line <= kernel["last"] for line in tied)
            loads = [
                place for place, line in links.lines.items() if place[0] == assembly["panes"]["sass"] and "LDG" in line
            ]
            above_loads += [links.lines[up] for place in loads for up in links.up[place]]
        # the assembler may count a load to the line that first needs it, but not all of them
        assert sum("tl.load" in line for line in above_loads) > len(above_loads) / 2


def test_no_folder_of_this_machine_is_in_a_capture(made):
    text = str(without_paths({"panes": made["panes"], "guards": made["guards"], "graphs": made["graphs"]}))
    assert str(Path.cwd()) not in text
    assert str(Path(torch.__file__).parents[1]) not in text
    assert "torchinductor_" not in text


class LinearLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return (x * self.weight).square().mean()


def test_capturing_leaves_gradients_mode_and_parameters_alone():
    model = LinearLoss().eval()
    model.weight.grad = torch.full((4,), 7.0)
    made = capture(model, (torch.ones(2, 4),), train=True, options=FAST)
    assert [graph["direction"] for graph in made["graphs"]] == ["forward", "backward"]
    assert not model.training
    assert model.weight.tolist() == [1.0] * 4
    assert model.weight.grad.tolist() == [7.0] * 4


def test_a_graph_of_views_alone_calls_nothing():
    made = capture(torch.t, torch.ones(3, 4), target="simulated")
    check_schema(made, SCHEMA, "the capture")
    (graph,) = made["graphs"]
    assert graph["calls"] == graph["kernels"] == made["warnings"] == []
    assert {node["fate"] for node in graph["nodes"]} == {"view", None}


class NotALoss(nn.Module):
    def forward(self, x):
        return F.relu(x)


class Square(nn.Module):
    def forward(self, x):
        return x.square().sum()


@pytest.mark.parametrize("target", ["cpu", "simulated"])
def test_a_loss_without_a_gradient_is_refused_in_one_sentence(target):
    with pytest.raises(LabError, match="that of Square does not; give it a parameter or an input"):
        capture(Square(), (torch.ones(2, 3),), target=target, train=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"target": "tpu"}, "target 'tpu' is not one of cpu, cuda, simulated"),
        ({"train": True}, "returns a scalar loss, and NotALoss does not"),
        pytest.param(
            {"target": "cuda"},
            "needs a GPU, and torch sees none",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
    ],
)
def test_what_cannot_be_captured_is_refused_in_one_sentence(call, message):
    with pytest.raises(LabError, match=message):
        capture(NotALoss(), (torch.ones(2, 3),), **call)


def test_a_model_with_nothing_to_compile_has_no_graph():
    class Constant(nn.Module):
        def forward(self, x):
            return 1

    made = capture(Constant(), (torch.ones(1),), target="simulated")
    check_schema(made, SCHEMA, "the capture")
    assert made["graphs"] == []
    assert [(one["function"].split(".")[-1], one["graphs"]) for one in made["compiles"]] == [("forward", [])]


@pytest.mark.parametrize("what", ["compute_nodes", "kernel_calls", "loop_body_operations"])
def test_what_is_tied_to_nothing_is_named(tiny, what):
    partial = copy.deepcopy({key: tiny[key] for key in ("model", "graphs")})
    assert gaps(partial) == []
    partial["graphs"][0]["coverage"]["missing"][what] = ["div"]
    assert gaps(partial) == [{"code": "untied", "graph": "0.forward", "what": what, "names": ["div"]}]


def test_a_backward_that_was_not_compiled_is_named(training):
    partial = {"model": training["model"], "graphs": training["graphs"][:1]}
    assert gaps(partial) == [{"code": "no_graph", "direction": "backward"}]


def test_the_simulated_target_saves_for_the_backward_what_a_real_device_would(training, training_simulated):
    """Views of parameters are made again in the backward pass; for that a graph must know its parameters."""

    def views(made):
        return [sum(n["target"] == "aten.permute.default" for n in graph["nodes"]) for graph in made["graphs"]]

    assert views(training_simulated) == views(training)


def test_what_a_pattern_put_in_the_place_of_others_leads_up_to_those(tiny_simulated):
    links, aten = Links(tiny_simulated), pane_of(tiny_simulated, "aten")
    online = next(n for n, line in enumerate(aten["lines"], 1) if "prepare_softmax_online" in line)
    above = {links.lines[place] for place in links.up[aten["id"], online] if place[0].startswith("joint")}
    replaced = {operation for line in above for operation in re.findall(r"aten\.(\w+)", line)}
    assert replaced == {"amax", "sub", "exp", "sum"}


@pytest.mark.gpu
@pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0),
    reason="the simulated target is an H200",
)
@pytest.mark.parametrize("build", [tiny_head, small_minigpt])
def test_simulated_kernels_are_those_that_a_gpu_gets(build):
    real = captured(build().to("cuda"), "cuda")
    decided = [one for one in real["choices"] if one["kind"] == "clock"]
    simulated = captured(build(), "simulated", clock=decided)  # what a clock decided is no difference
    compared = compare_with_real(simulated, real)
    differences = [kernel["difference"] for graph in compared["graphs"] for kernel in graph["kernels"]]
    assert compared["same"], [graph["why"] for graph in compared["graphs"]] + differences
    for graph in compared["graphs"]:  # but for those for which the clock has picked another configuration
        otherwise = {kernel["name"] for kernel in graph["kernels"] if not kernel["ttir_same"]}
        assert otherwise <= {name for why in graph["why"] if why["code"] == "configuration" for name in why["kernels"]}


def test_alike_layers_have_as_many_library_calls_each_forward_and_backward(training):
    for graph in training["graphs"]:
        calls = Counter(
            re.sub(r"(blocks\.\d)\..*", r"\1", node["layer"] or "")
            for node in graph["nodes"]
            if node["fate"] == "extern call"
        )
        assert calls["model.blocks.0"] == calls["model.blocks.1"] > 3
        assert all(node["layer"] in graph["layers"] for node in graph["nodes"] if node["layer"])


def counterparts(made, kernel_line, kind):
    """Lines of a kind of pane that a kernel line with this text was compiled to."""
    links, below = Links(made), set()
    for place, text in links.lines.items():
        if place[0].startswith("code") and kernel_line in text:
            below |= {links.lines[each] for each in links.reached(*place, links.down) if each[0].startswith(kind)}
    return below


@pytest.mark.skipif(not shutil.which("objdump") or not shutil.which("g++"), reason="needs g++ and objdump")
def test_a_line_of_cpp_leads_to_its_machine_code_even_where_a_header_computes(tiny):
    assert any("exp" in line and "call" in line for line in counterparts(tiny, "= tmp3.exp()", "asm"))
    assert any("div" in line for line in counterparts(tiny, "= tmp0 / tmp2", "asm"))
    assert not any("div" in line for line in counterparts(tiny, "= at::vec::maximum(tmp_acc0_vec", "asm"))
    assert all(kernel["listing"] for graph in tiny["graphs"] for kernel in graph["kernels"])


def test_a_line_of_triton_leads_to_ttgir_and_llvm_ir(tiny_simulated):
    assert any("tt.load" in line for line in counterparts(tiny_simulated, "tl.load(in_out_ptr0", "ttgir"))
    assert any("ld.global" in line for line in counterparts(tiny_simulated, "tl.load(in_out_ptr0", "llir"))
    assert not any("ld.global" in line for line in counterparts(tiny_simulated, "libdevice.exp(", "llir"))
    assert not any("!dbg" in line for pane in tiny_simulated["panes"] for line in pane["lines"])
