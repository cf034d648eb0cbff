"""What is seen of Inductor's choices while it compiles: each against what torch itself says of the same compile."""

import re

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.nn import functional as F

from minicompile.models import tiny_head
from minicompile.torch_private.names import NAMES, PrivateName
from minicompile.watching.choosing import autotuned, padding, passes
from minicompile.watching.choosing.autotuned import _blank, _settle
from minicompile.watching.session import Session, fresh_dynamo, watch
from tests.minicompile.captured import FAST

TUNED = {**FAST, "max_autotune": True, "max_autotune_gemm_backends": "CPP,ATEN", "freezing": True}
PRODUCT = {
    "operation": "addmm",
    "inputs": [{"size": size, "dtype": "float32"} for size in ([2, 64], [64, 600], [600])],
}


class Rectified(nn.Module):
    """A linear layer and its activation, the smallest product with something after it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 24)

    def forward(self, x):
        return F.relu(self.linear(x))


class Attention(nn.Module):
    """Attention written out, as one pattern of Inductor's finds it."""

    def forward(self, q, k, v):
        scores = torch.matmul(q, k.transpose(-2, -1)).div(4.0)
        return torch.matmul(scores.softmax(dim=-1), v)


def compiled(module: nn.Module, inputs: tuple, target: str, options: dict, replay: tuple = ()) -> Session:
    watching = watch("simulated" if target == "simulated" else None, replay)
    # set as a user would, since Dynamo too asks whether weights are frozen
    with torch._inductor.config.patch(options), fresh_dynamo(), watching as seen, torch.no_grad():
        torch.compile(module.eval())(*inputs)
    return seen


def choices(session: Session, kind: str) -> list[dict]:
    return [choice for lowered in session.lowered for choice in lowered["choices"][kind]]


@pytest.fixture(scope="module")
def tuned() -> Session:
    """One linear layer under max-autotune on the CPU, its C++ template compiled and timed."""
    return compiled(Rectified(), (torch.randn(8, 16),), "cpu", TUNED)


@pytest.fixture(scope="module")
def simulated() -> Session:
    head = tiny_head()
    return compiled(head.module, head.inputs, "simulated", {})


def test_every_candidate_of_max_autotune_is_there_with_its_time_and_the_fastest_is_chosen(tuned):
    (choice,) = choices(tuned, "algorithm")
    assert choice["decided"] == "timed"
    assert {one["kind"] for one in choice["candidates"]} == {"cpp", "library"}
    times = [one["milliseconds"] for one in choice["candidates"]]
    assert all(milliseconds > 0 for milliseconds in times)
    (chosen,) = [one for one in choice["candidates"] if one["chosen"]]
    assert chosen["milliseconds"] == min(times)
    assert all(one["reason"] is None for one in choice["candidates"])


def test_the_code_of_a_template_is_there_whether_it_won_or_lost(tuned):
    (choice,) = choices(tuned, "algorithm")
    (cpp,) = [one for one in choice["candidates"] if one["kind"] == "cpp"]
    assert cpp["template"] == "CppGemmTemplate"
    assert 'extern "C"' in cpp["source"]
    assert cpp["configuration"]["threads"] == str(torch.get_num_threads())
    assert [one["source"] for one in choice["candidates"] if one["kind"] == "library"] == [None]


def test_without_max_autotune_a_product_has_one_candidate_and_it_says_so(simulated):
    (choice,) = choices(simulated, "algorithm")
    assert choice["decided"] == "only_one"
    assert [one["reason"] for one in choice["candidates"]] == [{"code": "max_autotune_off"}]
    assert choice["node"] == "addmm"


def test_for_a_gpu_that_is_not_here_candidates_are_listed_and_none_is_timed():
    session = compiled(Rectified(), (torch.randn(8, 16),), "simulated", {"max_autotune": True})
    (choice,) = choices(session, "algorithm")
    assert choice["decided"] == "simulated"
    templates = [one for one in choice["candidates"] if one["kind"] == "triton"]
    assert len(templates) > 1
    assert all("BLOCK_M" in one["configuration"] and "num_warps" in one["configuration"] for one in templates)
    assert len({tuple(one["configuration"].items()) for one in templates}) == len(templates)
    assert {one["reason"]["code"] for one in choice["candidates"] if one["kind"] != "cutlass"} == {"no_device"}
    assert choice["deferred"]
    (never,) = [one["reason"] for one in choice["candidates"] if one["kind"] == "cutlass"]
    assert never["code"] == "not_offered"
    # it is of float32, and was not asked for: which of the two is asked first differs between torches
    assert re.search("layout.dtype in|max_autotune_gemm_backends", never["condition"])


def test_without_a_clock_for_what_is_fused_to_a_template_a_choice_is_not_put_off(tuned):
    options = {"max_autotune": True, "benchmark_epilogue_fusion": False}
    at_once = compiled(Rectified(), (torch.randn(8, 16),), "simulated", options)
    assert [choice["deferred"] for choice in choices(at_once, "algorithm") + choices(tuned, "algorithm")] == [False] * 2


@pytest.mark.parametrize(("padded", "how"), [(None, "untimed"), (True, "replayed"), (False, "replayed")])
def test_what_a_clock_decided_on_a_real_device_is_taken_over_and_without_it_nothing_is_padded(padded, how):
    head = tiny_head()
    replay = () if padded is None else ({**PRODUCT, "padded": padded},)
    session = compiled(head.module, head.inputs, "simulated", {}, replay)
    (choice,) = choices(session, "clock")
    assert {**PRODUCT, "padded": bool(padded), "how": how}.items() <= choice.items()
    nodes = {node["target"] for node in session.lowered[0]["aten"]["nodes"]}
    assert ("aten.constant_pad_nd.default" in nodes) is bool(padded)


def test_a_real_devices_choice_about_another_product_is_not_taken_over():
    head = tiny_head()
    other = {**PRODUCT, "inputs": [{"size": [4, 64], "dtype": "float32"}, *PRODUCT["inputs"][1:]], "padded": True}
    (choice,) = choices(compiled(head.module, head.inputs, "simulated", {}, (other,)), "clock")
    assert choice["how"] == "untimed"
    assert not choice["padded"]


def test_patterns_that_matched_are_named_with_what_they_replaced_and_as_many_as_torch_counts():
    inputs = tuple(torch.randn(2, 4, 8, 16) for _ in range(3))
    counters.clear()
    session = compiled(Attention(), inputs, "cpu", FAST)
    seen = counters["inductor"]
    found = choices(session, "pattern")
    assert len(found) == seen["pattern_matcher_count"]
    assert sum(len(one["before"]) for one in found) == seen["pattern_matcher_nodes"]
    (attention,) = [one for one in found if one["pattern"].startswith("_sfdp_pattern_")]
    assert attention["stage"] == "joint"
    assert "aten._softmax" in str(attention["before"]) or "aten.exp" in str(attention["before"])
    assert any("scaled_dot_product" in str(node["target"]) for node in attention["after"])


def test_a_decomposition_says_what_became_of_the_operation_and_how_often(simulated):
    (softmax,) = [one for one in choices(simulated, "decomposition") if one["operation"] == "aten._softmax.default"]
    assert softmax["count"] == 1
    assert set(softmax["became"]) == {
        "aten.amax.default", "aten.sub.Tensor", "aten.exp.default", "aten.sum.dim_IntList", "aten.div.Tensor",
    }  # fmt: skip


def test_who_asks_for_a_layout_is_named_and_not_by_the_function_that_is_asked():
    class Sorted(nn.Module):
        def forward(self, x):
            return torch.cumsum(x.t() + 1, 0).sort(0).values

    found = choices(compiled(Sorted(), (torch.randn(6, 5),), "cpu", FAST), "layout")
    outputs = [one for one in found if one["by"] == "run_node"]
    assert outputs
    assert all(one["wanted"]["code"] in ("order", "exact_strides") for one in outputs)
    assert not any(one["by"].startswith("require") for one in found)


def test_what_torch_lacks_is_named_and_the_compile_goes_on(monkeypatch):
    monkeypatch.setitem(NAMES, "select_algorithm", PrivateName("torch._inductor.gone:Cache.__call__", "gone", False))
    head = tiny_head()
    session = compiled(head.module, head.inputs, "simulated", {})
    assert session.choices.absent == ["select_algorithm"]
    assert choices(session, "algorithm") == []
    assert choices(session, "decomposition")


def test_a_record_that_cannot_be_made_leaves_the_compile_as_it_is(monkeypatch):
    monkeypatch.setattr(autotuned, "_candidate", lambda caller: 1 / 0)
    monkeypatch.setattr(passes, "_names", lambda entry: 1 / 0)
    monkeypatch.setattr(padding, "_tensor", lambda value: 1 / 0)
    head = tiny_head()
    session = compiled(head.module, head.inputs, "simulated", {})
    assert session.warnings == []
    assert [choices(session, kind) for kind in ("algorithm", "clock", "pattern")] == [[], [], []]
    assert choices(session, "decomposition")


def test_a_choice_that_was_put_off_and_took_no_template_is_the_fastest_library_call():
    kinds = [("template", "triton", 1.0), ("slow", "library", 3.0), ("fast", "library", 2.0)]
    candidates = [{**_blank(name, kind), "milliseconds": ms} for name, kind, ms in kinds]
    record = {"candidates": candidates, "simulated": False, "deterministic": False, "max_autotune": True}
    _settle(record)
    assert [one["name"] for one in candidates if one["chosen"]] == ["fast"]
