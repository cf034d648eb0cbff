"""The compiled call taken apart for real, attention swapped, and what a profile refuses."""

import copy
import json
import logging
import math
from types import SimpleNamespace

import pytest
import torch
from profile_artefact import TIMING
from torch import nn
from torch.autograd import DeviceType

from minicompile.models import CapturedModel
from minicompile.profile.attention import FusedAttention, compare_attention, with_fused_attention
from minicompile.profile.conclusions import Breakdown, between_rounds, profiled, quietest, variant
from minicompile.profile.measure import check_match
from minicompile.profile.subject import subject
from minicompile.profile.timing import affordable_calls
from minilab import LabError
from minimodel.model_config import MiniGPTConfig
from minimodel.torch_minigpt import GrammarMiniGPT

pytestmark = pytest.mark.usefixtures("forked_python")
logger = logging.getLogger("profile")
SMALL = MiniGPTConfig(vocab_size=24, block_size=8, n_layer=2, n_head=2, n_embd=8)


@pytest.fixture
def small() -> GrammarMiniGPT:
    torch.manual_seed(0)
    return GrammarMiniGPT(SMALL).eval()


def ids() -> torch.Tensor:
    return torch.randint(0, SMALL.vocab_size, (3, 8), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_fused_attention_gives_the_same_logits_in_float64(small: GrammarMiniGPT):
    small.double()
    fused = with_fused_attention(small)
    written_out, fused_out = small(ids()), fused(ids())
    relative = (fused_out - written_out).abs() / (written_out.abs() + written_out.square().mean().sqrt())
    assert relative.max() < 1e-12
    assert sum(isinstance(module, FusedAttention) for module in fused.modules()) == SMALL.n_layer


def test_the_model_itself_is_left_as_it_was(small: GrammarMiniGPT):
    with_fused_attention(small)
    assert not any(isinstance(module, FusedAttention) for module in small.modules())


def test_a_model_without_attention_is_refused():
    with pytest.raises(LabError, match="no attention of the port"):
        with_fused_attention(nn.Linear(2, 2))


@pytest.mark.parametrize("difference", [2e-6, math.nan])
def test_an_output_too_far_from_eager_fails_the_rule(difference: float):
    with pytest.raises(LabError, match="differs from eager"):
        check_match("tiny_head", {**TIMING, "max_difference": difference}, 1e-6)


def test_an_output_within_the_bound_or_without_one_passes():
    check_match("tiny_head", {**TIMING, "max_difference": 1e-6}, 1e-6)
    check_match("minigpt", {**TIMING, "max_difference": 1.0}, None)


@pytest.mark.parametrize(
    ("name", "shape", "said"),
    [("tiny_head", [2, 65], r"shapes \(batch, 64\)"), ("other", None, "no model is called 'other'")],
)
def test_a_shape_or_model_that_cannot_be_is_refused(name: str, shape: list[int] | None, said: str):
    with pytest.raises(LabError, match=said):
        subject(name, None, shape, "unused", "cpu")


def test_only_slow_calls_are_timed_less_often(monkeypatch: pytest.MonkeyPatch):
    for seconds, expected in ((0.001, 1000), (0.05, 40), (5.0, 10)):
        ticks = iter([turn * seconds for turn in range(10)])
        monkeypatch.setattr("minicompile.profile.subject.time.perf_counter", lambda ticks=ticks: next(ticks))
        assert affordable_calls(lambda: None, 1000) == expected


def made(module: nn.Module, device: str = "cpu") -> CapturedModel:
    return CapturedModel("small", module, (ids(),)).to(device)


@pytest.fixture(scope="module")
def breakdowns() -> dict:
    from minicompile.profile.breakdown import break_down

    torch.manual_seed(0)
    model = GrammarMiniGPT(SMALL).eval()
    models = {"explicit": model, "fused": with_fused_attention(model)}
    return {name: break_down(made(module), 5) for name, module in models.items()}


def concluded(apart: dict) -> Breakdown:
    return Breakdown(json.loads(json.dumps(apart)))  # as it is read off a file


def test_on_a_gpu_only_the_operators_that_the_wrapper_calls_itself_are_library_calls():
    from minicompile.profile.breakdown import _is_library_call

    def event(name, parent=None, device_type=DeviceType.CPU, device_us=5.0):
        return SimpleNamespace(name=name, cpu_parent=parent, device_type=device_type, device_time_total=device_us)

    wrapper = event("## Call CompiledFxGraph x ##")
    product = event("aten::addmm", wrapper)
    assert _is_library_call(product)
    assert _is_library_call(event("aten::bmm"))
    assert not _is_library_call(event("aten::copy_", product))  # within it
    assert not _is_library_call(event("aten::empty_strided", wrapper, device_us=0.0))
    assert not _is_library_call(event("sm90_gemm", device_type=DeviceType.CUDA))
    assert not _is_library_call(wrapper)


def test_each_part_is_that_of_its_quietest_round():
    def round_of(call: float, guards: float, wrapper: float, kernel: float, libraries: list[float]) -> dict:
        def thrice(us: float) -> list[float]:
            return [us, 0.0, 1000.0]

        parts = {"call_us": thrice(call), "guards_us": thrice(guards), "wrapper_us": thrice(wrapper)}
        return {**parts, "kernels_us": {"k": thrice(kernel)}, "libraries_us": [thrice(us) for us in libraries]}

    assert quietest([round_of(9.0, 2.0, 1.0, 8.0, [1.0, 5.0]), round_of(90.0, 1.5, 3.0, 2.0, [4.0, 3.0])]) == {
        "call_us": 9.0, "guards_us": 1.5, "wrapper_us": 1.0, "kernels_us": {"k": 2.0}, "libraries_us": [1.0, 3.0],
    }  # fmt: skip


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpus_call_is_taken_apart_into_host_and_device():
    from minicompile.profile.breakdown import break_down

    model = GrammarMiniGPT(SMALL).eval()
    breakdown = concluded(break_down(made(model, "cuda"), 5))
    split = breakdown.split()
    assert split["overlapping"]
    assert split["rest_us"] is None
    assert split["kernels_us"] > 0
    assert split["libraries_us"] > 0
    assert variant(breakdown, 8)["core"]["calls"] == 3 * SMALL.n_layer


def test_every_kernel_and_library_call_has_a_time(breakdowns: dict):
    for breakdown in map(concluded, breakdowns.values()):
        rows = breakdown.kernels(copy_gb_per_s=10.0)
        called = {call["kernel"] for graph in breakdown.graphs for call in graph["calls"] if not call["extern"]}
        assert {row["name"] for row in rows} == called
        assert all(row["median_us"] > 0 and row["bytes"] > 0 for row in rows)
        assert all(us > 0 for us in breakdown.parts["libraries_us"])


def test_the_parts_and_the_rest_are_the_call(breakdowns: dict):
    split = concluded(breakdowns["explicit"]).split()
    parts = sum(split[key] for key in ("guards_us", "wrapper_us", "kernels_us", "libraries_us", "rest_us"))
    assert parts == pytest.approx(split["call_us"])
    assert split["guards_us"] > 0
    assert split["wrapper_us"] > 0


def test_attention_is_two_products_and_a_softmax_a_layer_or_one_call(breakdowns: dict):
    explicit, fused = (variant(concluded(breakdowns[name]), 8) for name in ("explicit", "fused"))
    assert explicit["core"]["calls"] == 3 * SMALL.n_layer
    assert "softmax" in explicit["softmax_kernel"]
    assert explicit["operator"] is None
    assert fused["core"]["calls"] == SMALL.n_layer
    assert "scaled_dot_product" in fused["operator"]
    assert fused["softmax_kernel"] is None
    assert fused["core"]["bytes"] < explicit["core"]["bytes"]


def test_attentions_difference_comes_with_its_measure(small: GrammarMiniGPT, breakdowns: dict, monkeypatch):
    from minicompile.profile import attention

    monkeypatch.setattr(attention, "break_down", lambda made, samples: breakdowns["fused"])
    found = compare_attention(made(small), "bfloat16", 5)
    assert 0 < found["max_difference"] < found["largest_output"]
    assert all(found["from_float32"][side] > 0 for side in ("explicit", "fused"))
    assert compare_attention(made(small), "float32", 5, breakdowns["explicit"])["from_float32"]["explicit"] == 0
    assert found["fused"] is breakdowns["fused"]


def samples(apart: dict, users: bool) -> dict:
    return {
        "model": "small", "trains": False, "users": users, "unit": "tokens", "largest_difference_allowed": None,
        "timings": [], "busy": [], "left_out": [], "shapes": [{"shape": [3, 8], **apart}], "attention": [],
        "roofline": {"ceilings": {"copy_gb_per_s": 10.0}}, "provenance": {},
    }  # fmt: skip


def test_a_profile_follows_from_its_samples_and_the_compile_that_was_timed(breakdowns: dict):
    found = profiled(samples(breakdowns["explicit"], users=False))
    assert found["kernels"] == found["shapes"][0]["kernels"] == concluded(breakdowns["explicit"]).kernels(10.0)
    assert found["left_out"] == []
    assert "users" not in found
    assert "compiled" not in found["shapes"][0]


@pytest.mark.parametrize("part", ["kernels_us", "libraries_us"])
def test_a_kernel_or_a_call_without_a_time_is_refused_of_ours_and_left_out_of_a_users(breakdowns: dict, part: str):
    apart = copy.deepcopy(breakdowns["explicit"])
    lost = apart["rounds"][1][part].popitem()[0] if part == "kernels_us" else apart["rounds"][1][part].pop() and "mm"
    with pytest.raises(LabError, match=f"small could not be profiled: .*found no time for .*{lost}"):
        profiled(samples(apart, users=False))
    found = profiled(samples(apart, users=True))
    assert (found["shapes"], found["kernels"]) == ([], [])
    assert [(row["shape"], row["mode"], row["reason"]["code"]) for row in found["left_out"]] == [
        ([3, 8], None, "no_time")
    ]


def test_a_kernels_noise_is_between_its_two_quietest_rounds():
    assert between_rounds([9.0, 2.0, 2.2, 40.0]) == pytest.approx(0.1)
