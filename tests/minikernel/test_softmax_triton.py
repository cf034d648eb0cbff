"""The Triton kernel: right in the interpreter in every configuration, and right and tuned on a GPU."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("triton")

from minikernel.accuracy import relative_error
from minikernel.proof import prove
from minikernel.softmax_reference import softmax_float64
from minikernel.softmax_triton import LAB_BLOCKS, LAB_WARPS, candidates, default_config, in_lab_grid, softmax
from minilab import LabError

RUN_KERNEL = Path(__file__).parent / "interpreter" / "run_kernel.py"
gpu = pytest.mark.gpu
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def interpret(tmp_path, cases):
    """The kernel's result, interpreted, for each (x, config)."""
    keys = [f"{number}|{json.dumps(config)}" for number, (_, config) in enumerate(cases)]
    np.savez(tmp_path / "in.npz", **{key: x for key, (x, _) in zip(keys, cases, strict=True)})
    command = [sys.executable, "-W", "ignore", str(RUN_KERNEL), str(tmp_path / "in.npz"), str(tmp_path / "out.npz")]
    subprocess.run(command, check=True)
    results = np.load(tmp_path / "out.npz")
    return [results[key] for key in keys]


def error_of(result, x):
    return relative_error(torch.from_numpy(result), torch.from_numpy(softmax_float64(x)))


def outlier_rows(rows, cols, seed=0):
    x = np.random.default_rng(seed).normal(0, 3, (rows, cols)).astype(np.float32)
    x[:, cols // 2] += 75.3
    return x


def test_every_tile_shape_interpreted_agrees_with_float64(tmp_path):
    configs = [{"BLOCK": block, "ROWS": rows, "num_warps": 4} for block in (256, 512, 1024) for rows in (1, 2, 4)]
    cases = [(outlier_rows(5, cols, seed=cols), config) for cols in (1, 7, 255, 257, 600, 1500) for config in configs]
    for (x, config), result in zip(cases, interpret(tmp_path, cases), strict=True):
        assert error_of(result, x) < 1e-6, (x.shape, config)


def test_without_a_configuration_the_interpreter_uses_the_default(tmp_path):
    x = outlier_rows(3, 600)
    default, chosen = interpret(tmp_path, [(x, None), (x, default_config(600))])
    assert np.array_equal(default, chosen)


def test_rows_looped_over_handle_masks_and_rows_of_minus_infinity(tmp_path):
    x = outlier_rows(4, 1500)
    x[1, ::3] = x[2] = -np.inf
    config = {"BLOCK": 256, "ROWS": 2, "num_warps": 2}
    (result,) = interpret(tmp_path, [(x, config)])
    assert np.isnan(result[2]).all()
    assert (result[1, ::3] == 0).all()
    assert error_of(result[[0, 1, 3]], x[[0, 1, 3]]) < 1e-6


def test_candidates_hold_the_labs_whole_grid():
    for rows, cols in ((64, 600), (524288, 600), (16, 50257)):
        grid = {(c["BLOCK"], c["num_warps"]) for c in candidates(rows, cols) if in_lab_grid(c)}
        assert grid == {(block, warps) for block in LAB_BLOCKS for warps in LAB_WARPS}


def test_candidates_are_distinct_and_go_beyond_the_grid():
    configs = candidates(4096, 600)
    assert len({tuple(config.items()) for config in configs}) == len(configs)
    assert {"BLOCK": 1024, "ROWS": 1, "num_warps": 1} in configs
    assert any(config["ROWS"] > 1 for config in configs)
    assert all(config["ROWS"] == 1 for config in candidates(1, 600))


def test_a_cpu_tensor_is_refused_outside_the_interpreter():
    with pytest.raises(LabError, match="TRITON_INTERPRET"):
        softmax(torch.zeros(2, 3))


@gpu
@needs_gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("config", [None, {"BLOCK": 256, "ROWS": 1, "num_warps": 2}], ids=["tuned", "looped"])
def test_on_a_gpu_it_passes_the_proof(dtype, config):
    assert prove(lambda x: softmax(x, config), "cuda", dtype, name="triton")
