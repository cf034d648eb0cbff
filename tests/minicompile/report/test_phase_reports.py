"""The pages that close the phases go through the labs' own lists, and say of each thing whether it is met."""

import pytest
from distributed_artefact import artefact

from minicompile.report.phase_reports import checks_24, checks_25, phase_report

CAPTURE = {"model": "tiny_head", "kernel": "tiny_head/cpu/kernel.cpp", "graph_breaks": 0, "pattern": "softmax"}
MATCH = {"model": "tiny_head", "max_abs_difference": 5e-10}
TIMED = {"frac_of_F_softmax": 1.2, "noise_floor": 0.03}
PORT = {
    "byte_equal": True,
    "arrays": [
        {"numpy_name": "b", "torch_name": "b", "shape": [4], "byte_equal": True},
        {"numpy_name": "embedding", "torch_name": "embedding.weight", "shape": [600, 64], "byte_equal": True},
    ],
}


def manifest_25(**changes) -> dict:
    return {"compile_match": [MATCH], "captures": [CAPTURE], "compile_health": [{"healthy": True}], **changes}


def manifest_24() -> dict:
    picked = {"BLOCK": 1024, "num_warps": 4}
    return {
        "gpu": {"model": "NVIDIA H200"},
        "device": "h200",
        "softmax_kernels": {
            "naive": TIMED,
            "smem": TIMED,
            "fused": TIMED,
            "triton": {**TIMED, "autotune_picked": picked},
        },
        "torch_port": {
            "byte_equivalence_at_fp32_cpu": "passed",
            "max_abs_diff_to_numpy_reference": 3e-6,
            "kernel_swap_changes_top1_token": False,
        },
        "restored": {"stale": False},
    }


def asked(checks: list, words: str):
    (check,) = [check for check in checks if words in check.asked]
    return check


@pytest.mark.parametrize(("difference", "met"), [(4.7e-10, True), (2e-6, False), (None, None)])
def test_phase_25_is_held_to_its_bar(difference, met):
    matches = [] if difference is None else [{**MATCH, "max_abs_difference": difference}]
    checks = checks_25(manifest_25(compile_match=matches), [artefact()])
    assert checks[0].met is met
    text = phase_report(25, "a title", checks, {}, {})
    assert ("**no**" in text) == (met is False)
    assert ("not measured" in text) == (met is None)


@pytest.mark.parametrize(
    ("ratio", "met", "said"),
    [
        (1.2, True, "1.20 times as fast on NVIDIA H200"),
        (0.98, False, "0.98 times as fast on NVIDIA H200, a difference within the noise"),
        (1.02, True, "1.02 times as fast on NVIDIA H200, a difference within the noise"),
        (0.9, False, "0.90 times as fast on NVIDIA H200"),
        (None, None, "not timed here"),
    ],
)
def test_phase_24_is_held_to_its_bar_and_says_what_lies_within_the_noise(ratio, met, said):
    manifest = manifest_24()
    manifest["softmax_kernels"]["triton"]["frac_of_F_softmax"] = ratio
    check = asked(checks_24(manifest, {"excess_percent": 1.5}, PORT), "Triton kernel is at least as fast")
    assert (check.met, check.found) == (met, said)


@pytest.mark.parametrize(("healthy", "met"), [([], None), ([True, True], True), ([True, False], False)])
def test_phase_25_is_held_to_every_compile_being_healthy(healthy, met):
    checks = checks_25(manifest_25(compile_health=[{"healthy": each} for each in healthy]), [])
    assert asked(checks, "compiles safely").met is met


@pytest.mark.parametrize(("pattern", "met"), [("softmax", True), (None, False), ("layer_norm", False)])
def test_phase_25_is_held_to_the_softmax_being_recognised(pattern, met):
    assert asked(checks_25(manifest_25(captures=[{**CAPTURE, "pattern": pattern}]), []), "fused softmax").met is met
    assert asked(checks_25(manifest_25(captures=[]), []), "fused softmax").met is None


def test_phase_25_goes_through_the_labs_list_in_its_order():
    order = [
        "TinyHead compiled",
        "is saved and annotated",
        "fused softmax",
        "are timed",
        "patterns",
        "graphs",
        "safely",
    ]
    checks = checks_25(manifest_25(), [artefact()])
    assert [name in check.asked for name, check in zip(order, checks, strict=True)] == [True] * len(order)


def test_pictures_stand_on_the_page():
    assert "![a caption](25/a.png)" in phase_report(25, "a title", [], {"a caption": "25/a.png"}, {})


def test_phase_24_says_what_is_stale_and_what_was_not_measured():
    manifest, learnt = manifest_24(), {"excess_percent": 1.0}
    assert all(check.met for check in checks_24(manifest, learnt, PORT))
    manifest["restored"]["stale"] = True
    checks = checks_24(manifest, learnt, PORT)
    assert [check.met for check in checks] == [True, None, None, None, True, True, True]
    assert all("a stale record" in check.found for check in checks[1:4])
    manifest["softmax_kernels"] = {}
    checks = checks_24(manifest, {"excess_percent": 3.0}, PORT)
    assert [check.met for check in checks] == [False, None, None, None, True, True, True]


def test_phase_24_wants_all_four_dots():
    manifest = manifest_24()
    del manifest["softmax_kernels"]["smem"]
    assert asked(checks_24(manifest, {"excess_percent": 1.0}, PORT), "roofline").met is False


@pytest.mark.parametrize(
    ("equal", "outcome", "met"), [(True, "passed", True), (False, "passed", False), (True, "failed", False)]
)
def test_pytorch_is_internalized_where_every_array_and_every_logit_is_the_same(equal, outcome, met):
    manifest = manifest_24()
    manifest["torch_port"]["byte_equivalence_at_fp32_cpu"] = outcome
    check = asked(checks_24(manifest, {"excess_percent": 1.0}, {**PORT, "byte_equal": equal}), "internalized")
    assert check.met is met
    assert check.asked == "PyTorch internalized at Phase 24"
    assert "2 of 2 arrays" in check.found
    assert "`embedding` (600, 64) in `embedding.weight`" in check.found  # a line of the mapping table
