"""Choosing from a tuning result, the search's log, and its time limit."""

import types
from pathlib import Path

import pytest
import torch

from minikernel.measure import autotune as tuning
from minikernel.measure import choice as choosing
from minikernel.measure import recompute
from minikernel.measure.autotune import autotune
from minikernel.measure.choice import choose
from minikernel.measure.timing import Timing
from minilab import LabError
from minilab.config.check import check_schema, read_schema
from minilab.records.verify import differences
from minilab.records.words import worded

SCHEMA = read_schema(Path(__file__).parents[3] / "schemas/autotune.schema.yaml")


def choice(rows, cols, block, dtype="float32"):
    config = {"BLOCK": block, "ROWS": 1, "num_warps": 2}
    return {"rows": rows, "cols": cols, "dtype": dtype, "config": config, "median_us": 5.0, "lab_grid": None}


RESULT = {
    "kernel": "triton",
    "complete": True,
    "choices": [choice(64, 600, 1), choice(4096, 600, 2), choice(4096, 600, 3, "bfloat16"), choice(64, 1000, 4)],
    "tried": [],
}


@pytest.mark.parametrize(
    ("rows", "cols", "dtype", "block"),
    [
        (64, 600, "float32", 1),
        (4096, 600, "float32", 2),
        (4096, 600, "bfloat16", 3),
        (64, 600, "bfloat16", 3),  # the dtype before the rows
        (1 << 20, 600, "float32", 2),
        (1, 600, "float32", 1),
        (0, 600, "float32", 1),
        (4096, 1000, "float16", 4),  # another dtype's, for want of its own
    ],
)
def test_the_exact_or_nearest_choice_is_read(rows, cols, dtype, block):
    assert choose(RESULT, rows, cols, dtype)["BLOCK"] == block


def test_a_width_that_nobody_tuned_gets_the_kernels_default():
    pytest.importorskip("triton")
    from minikernel.ops.softmax_triton import default_config

    assert choose(RESULT, 64, 777, "float32") == default_config(777)


def test_a_kernel_with_nothing_to_tune_is_refused():
    with pytest.raises(LabError, match="fused has nothing to tune"):
        autotune("fused", [[64, 600]], ["float32"], "cuda", 1, print)


@pytest.fixture
def fake_kernel(monkeypatch):
    """A tuned kernel whose times are known: BLOCK microseconds; BLOCK 13 fails, an odd one is wrong; and its rival."""

    def launch(x, y, config):
        if config["BLOCK"] == 13:
            raise RuntimeError("out of registers")
        y.copy_(x.double().softmax(-1) * (1 + 1e-3 * (config["BLOCK"] % 2)))
        return types.SimpleNamespace(n_regs=32, n_spills=0)

    module = types.SimpleNamespace(
        candidates=lambda rows, cols: [{"BLOCK": block, "num_warps": 1} for block in (13, 30, 20, 10)],
        default_config=lambda cols: {"BLOCK": 30, "num_warps": 1},
        in_lab_grid=lambda config: config["BLOCK"] >= 20,
        launch=launch,
        softmax=lambda x, config: launch(x, torch.empty_like(x), config),
        times={0: 30.0, 2: 20.0, 3: 10.0, "fused": 15.0},
    )

    def measure(providers, inputs, warmup, launches):
        for launch_config in providers.values():
            launch_config(inputs[0])
        return {name: Timing([module.times[name]]) for name in providers}

    def rival(x):
        if module.times["fused"] is None:
            raise LabError("CuPy is missing")

    monkeypatch.setattr(type(tuning.kernels), "__getitem__", lambda self, name: rival)
    monkeypatch.setattr(tuning, "importlib", types.SimpleNamespace(import_module=lambda name: module))
    monkeypatch.setattr(tuning, "measure", measure)
    return module


def test_the_fastest_is_chosen_and_every_configuration_logged(fake_kernel):
    lines = []
    result = autotune("triton", [[4, 6]], ["float32"], "cpu", 60, lines.append)
    check_schema({**result, "provenance": {}}, SCHEMA, "autotune")
    assert result["complete"]
    assert result["choices"][0]["config"]["BLOCK"] == 10
    assert result["choices"][0]["lab_grid"] == {"config": {"BLOCK": 20, "num_warps": 1}, "median_us": 20.0}
    assert [row["median_us"] for row in result["tried"]] == [30.0, None, 20.0, 10.0]
    assert result["tried"][1]["error"] == {"code": "raised", "text": "RuntimeError: out of registers"}
    assert len(lines) == 1
    assert list(differences(result, recompute.autotune(result))) == []
    result["tried"][2]["samples_us"] = [1.0]
    wrong = [worded(found) for found in differences(result, recompute.autotune(result))]
    assert "choices[0].median_us is 10, and its samples give 1" in wrong


@pytest.mark.parametrize(("rival_us", "faster"), [(9.0, "fused"), (10.5, "fused"), (11.0, "triton"), (None, "triton")])
def test_triton_is_launched_where_it_is_faster_by_more_than_its_launch_costs(
    fake_kernel, monkeypatch, rival_us, faster
):
    monkeypatch.setattr(choosing, "HOST_US", 5)
    fake_kernel.times["fused"] = rival_us
    (choice,) = autotune("triton", [[4, 6]], ["float32"], "cpu", 60, lambda line: None)["choices"]
    assert (choice["rival_us"], choice["faster"]) == (rival_us, faster)


def test_where_the_host_is_the_limit_the_kernel_that_costs_it_less_is_launched(fake_kernel):
    fake_kernel.times["fused"] = 20.0
    (choice,) = autotune("triton", [[4, 6]], ["float32"], "cpu", 60, lambda line: None)["choices"]
    assert (choice["median_us"], choice["faster"]) == (10.0, "fused")


def test_at_the_time_limit_the_best_so_far_is_chosen_for_every_shape(fake_kernel):
    result = autotune("triton", [[4, 6], [8, 6]], ["float32"], "cpu", 0, lambda line: None)
    assert not result["complete"]
    assert [choice["config"]["BLOCK"] for choice in result["choices"]] == [30, 30]


def test_a_shape_at_which_nothing_runs_is_named(fake_kernel):
    fake_kernel.candidates = lambda rows, cols: []
    fake_kernel.default_config = lambda cols: {"BLOCK": 13, "num_warps": 1}
    with pytest.raises(LabError, match="4 x 6 float32: it failed with RuntimeError: out of registers"):
        autotune("triton", [[4, 6]], ["float32"], "cpu", 60, print)


def test_a_configuration_with_wrong_results_is_never_chosen(fake_kernel):
    fake_kernel.candidates = lambda rows, cols: [{"BLOCK": block, "num_warps": 1} for block in (30, 7)]
    result = autotune("triton", [[4, 6]], ["float32"], "cpu", 60, lambda line: None)
    assert result["choices"][0]["config"]["BLOCK"] == 30
    error = result["tried"][1]["error"]
    assert (error["code"], error["error"]) == ("wrong", pytest.approx(1e-3, rel=0.01))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_the_search_fills_its_log():
    result = autotune("triton", [[64, 600]], ["float32", "bfloat16"], "cuda", 120, lambda line: None)
    check_schema({**result, "provenance": {}}, SCHEMA, "autotune")
    assert all(row["error"] is None and row["n_regs"] > 0 for row in result["tried"])
