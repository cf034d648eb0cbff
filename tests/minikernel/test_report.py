"""The report says what the figures say: who wins, what is missed, what is stale."""

import pytest
from artefacts import bench, bench_row

from minikernel.manifest import manifest_24
from minikernel.report import device_view, report_24

TRAINING = {
    "held_out_cross_entropy": 2.02,
    "conditional_entropy": 2.0,
    "grammar_surprisal": 2.01,
    "excess_percent": 1.0,
}
DIFFERENCE = {"max_abs_difference": 1e-6, "max_ulps": 3.0}
OUTPUTS = {
    "shape": [2, 16],
    "logits": {"max_abs_difference": 2e-6, "bit_identical": False},
    "probabilities": {"max_abs_difference": 1e-8, "max_relative_difference": 1e-6, "bit_identical": False},
}
EQUIVALENCE = {
    "contract": {"atol": 1e-5, "rtol": 1e-5, "seed": 42, "shape": [2, 16], "threads": 1, "held": True},
    "outputs": OUTPUTS,
    "layers": [
        {"layer": layer, "torch_numpy": {**DIFFERENCE, "max_ulps": ulps}}
        | dict.fromkeys(("torch_float64", "numpy_float64"), DIFFERENCE)
        for layer, ulps in (("embedding", 0.0), ("blocks.0.ln_1.x", 9.5), ("lm_head", 4.0))
    ],
    "further_shapes": [OUTPUTS, OUTPUTS | {"shape": [8, 128], "logits": {"max_abs_difference": 7e-6}}],
}
PORT = {"arrays": [{}] * 53, "parameters": 290000, "byte_equal": True}
SWAP = {
    "device": "h200",
    "executed_by": "cuda",
    "prompt": "Yesterday I",
    "after": {"top": [{"word": "walked", "probability": 0.2}], "all_past_simple": True},
    "after_to_before": {"max_abs_difference": 1e-7},
    "top1_changed": False,
}
AUTOTUNE = {
    "choices": [
        {"rows": rows, "cols": 600, "config": {"BLOCK": 1024, "num_warps": 4}, "median_us": 9.0, "lab_grid": None}
        for rows in (512, 4096)
    ]
}


def gpu_bench(triton_us: float = 95.0, **changes) -> dict:
    rows = [
        bench_row("naive", 512, 900.0),
        bench_row("smem", 512, 180.0),
        bench_row("fused", 512, 90.0, **changes),
        bench_row("triton", 512, triton_us),
        bench_row("F.softmax", 512, 100.0),
    ]
    return bench(rows)


def text_of(bench: dict) -> str:
    return report_24(TRAINING, PORT, EQUIVALENCE, [bench], AUTOTUNE, [SWAP], [])


def test_targets_follow_the_figures():
    assert "- `triton` at least as fast as F.softmax: met at all 1 shapes." in text_of(gpu_bench(95.0))
    assert "- `triton` at least as fast as F.softmax: **missed** at 512 rows by 7.0%." in text_of(gpu_bench(107.0))


def test_who_is_ahead_follows_the_figures():
    assert "95% at 512 rows; CUDA C is ahead at every shape." in text_of(gpu_bench(95.0))
    assert "112% at 512 rows; Triton is ahead at every shape." in text_of(gpu_bench(80.0))


def test_each_step_says_its_gain():
    said = "`smem` is 5.00 times as fast as `naive`, and `fused` is 2.00 times as fast as `smem`."
    assert said in text_of(gpu_bench())


def test_stale_and_distrusted_figures_are_said():
    text = text_of(gpu_bench(stale=True, above_roof=True))
    assert "| `fused` | 90.0 (0.90x, 1%), *stale* |" in text
    assert "not to be trusted: fused at 512 x 600." in text
    assert "stale" not in text_of(gpu_bench()).split("## NVIDIA")[1]


def test_model_port_and_swap():
    text = text_of(gpu_bench())
    assert "the model ends\n1.00 % above the lower of" in text
    assert "All 53 arrays (290,000 numbers) are byte-equal" in text
    assert "`blocks.0.ln_1.x`, with 9.5." in text
    assert "the logits differ by at most 7.00e-06" in text
    assert "walked (0.200): all past simple" in " ".join(text.split())


def test_a_missing_measurement_is_said_and_not_invented():
    incomplete = gpu_bench()
    incomplete["rows"].append(bench_row("fused", 64, 5.0))
    view = device_view(incomplete)
    assert [kernel["rows"][1] for kernel in view["kernels"] if kernel["name"] == "triton"] == [None]
    assert "not measured |" in text_of(incomplete)


def test_manifest_has_the_keys_it_promises():
    manifest = manifest_24(gpu_bench(), AUTOTUNE, SWAP, EQUIVALENCE, PORT, 42, ["naive", "smem", "fused", "triton"])
    assert manifest["experiment"] == "24-triton-and-pytorch"
    assert manifest["gpu"] == {"model": "NVIDIA H200", "compute_capability": "9.0"}
    assert manifest["versions"] == {"python": "3.12.3", "torch": "2.11.0", "triton": "3.6.0", "cupy": "14.2.0"}
    assert manifest["softmax_kernels"]["fused"] == {"us_at_B512": 90.0, "frac_of_F_softmax": pytest.approx(100 / 90)}
    assert manifest["softmax_kernels"]["triton"]["autotune_picked"]["BLOCK"] == 1024
    assert manifest["torch_port"] == {
        "byte_equivalence_at_fp32_cpu": "passed",
        "max_abs_diff_to_numpy_reference": 2e-6,
        "kernel_swap_changes_top1_token": False,
    }


def test_manifest_of_a_cpu_has_nulls():
    cpu = bench([bench_row("numpy", 512, 900.0)], "cpu-a")
    manifest = manifest_24(cpu, None, SWAP, EQUIVALENCE, PORT, 42, ["naive", "triton"])
    assert manifest["gpu"] == {"model": None, "compute_capability": None}
    assert manifest["softmax_kernels"]["naive"] == {"us_at_B512": None, "frac_of_F_softmax": None}
    assert manifest["softmax_kernels"]["triton"]["autotune_picked"] == {"BLOCK": None, "num_warps": None}


def test_a_stale_swap_and_stale_choices_are_said():
    restored = {"restored": {"stale": True}}
    text = report_24(TRAINING, PORT, EQUIVALENCE, [gpu_bench()], AUTOTUNE | restored, [SWAP | restored], [])
    assert "## What autotune picked (stale)" in text
    assert "h200 (computed by cuda, *stale*)" in text


def test_a_manifest_without_a_choice_at_512_rows_has_nulls():
    choices = {"choices": [choice for choice in AUTOTUNE["choices"] if choice["rows"] != 512]}
    manifest = manifest_24(gpu_bench(), choices, SWAP, EQUIVALENCE, PORT, 42, ["triton"])
    assert manifest["softmax_kernels"]["triton"]["autotune_picked"] == {"BLOCK": None, "num_warps": None}
