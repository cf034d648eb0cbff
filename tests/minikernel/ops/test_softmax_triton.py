"""The Triton kernels: right in the interpreter on every path, launched within a GPU's means, right and tuned on one."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from forks import forks
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("triton")

from minikernel.ops import softmax_triton
from minikernel.ops.softmax_reference import softmax_float64
from minikernel.ops.softmax_triton import candidates, default_config, in_lab_grid, launch, softmax, softmax_kernel
from minikernel.ops.softmax_triton_backward import softmax_backward
from minikernel.ops.softmax_triton_configs import LAB_BLOCKS, LAB_WARPS, fits, specialization
from minikernel.proof.accuracy import relative_error
from minikernel.proof.gradient_accuracy import gradient_error
from minikernel.proof.proof import INTERPRETER_TOLERANCE, prove
from minilab import LabError

INTERPRETER = Path(__file__).parents[1] / "interpreter"
SHAPES = ((64, 600), (524288, 600), (65536, 1000), (32768, 4096), (8192, 32768), (16, 50257), (4096, 131072))
LOOPED = {"BLOCK": 32, "ROWS": 1, "num_warps": 1}  # narrow tiles: 32 of them hold 1,024 columns, and no more
gpu = pytest.mark.gpu
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def test_a_result_of_a_dtype_that_it_does_not_write_is_refused(monkeypatch):
    monkeypatch.setattr(softmax_triton, "check_operand", lambda x: x)  # wherever it is
    with pytest.raises(LabError, match=r"writes torch\.float16, as it reads, or float32, not torch\.float64"):
        softmax(torch.zeros(2, 3, dtype=torch.float16), dtype=torch.float64)


def run_interpreted(script, tmp_path, arrays):
    """The arrays that a script of `interpreter/` makes of named arrays."""
    np.savez(tmp_path / "in.npz", **arrays)
    files = [str(tmp_path / "in.npz"), str(tmp_path / "out.npz")]
    done = forks("script").run([INTERPRETER / script, *files], tmp_path)
    assert done.returncode == 0, done.stderr
    return np.load(tmp_path / "out.npz")


def interpret(tmp_path, cases, dtype="float32"):
    """The kernel's result, interpreted, for each (x, config)."""
    keys = [f"{number}|{json.dumps(config)}|{dtype}" for number, (_, config) in enumerate(cases)]
    arrays = {key: x for key, (x, _) in zip(keys, cases, strict=True)}
    results = run_interpreted("run_kernel.py", tmp_path, arrays)
    return [results[key] for key in keys]


def error_of(result, x, dtype=torch.float32):
    rounded = torch.from_numpy(x).to(dtype).double().numpy()
    return relative_error(torch.from_numpy(result).to(dtype), torch.from_numpy(softmax_float64(rounded)))


def outlier_rows(rows, cols, seed=0):
    x = np.random.default_rng(seed).normal(0, 3, (rows, cols)).astype(np.float32)
    x[:, cols // 2] += 75.3
    return x


def test_every_tile_shape_interpreted_agrees_with_float64(tmp_path):
    configs = [{"BLOCK": block, "ROWS": rows, "num_warps": 4} for block in (64, 256, 1024) for rows in (1, 2, 4)]
    cases = [(outlier_rows(5, cols, seed=cols), config) for cols in (1, 3, 7, 257, 600, 1001) for config in configs]
    for (x, config), result in zip(cases, interpret(tmp_path, cases), strict=True):
        assert error_of(result, x) < 1e-6, (x.shape, config)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sixteen_bits_interpreted_agree_with_float64_short_packed_and_looped_over(tmp_path, dtype):
    shapes = ((5, 5), (5, 600), (5, 1003), (2, 9001))
    cases = [(outlier_rows(rows, cols), default_config(cols)) for rows, cols in shapes]
    cases.append((outlier_rows(2, 1501), LOOPED))
    for (x, config), result in zip(cases, interpret(tmp_path, cases, dtype), strict=True):
        assert error_of(result, x, getattr(torch, dtype)) <= INTERPRETER_TOLERANCE[dtype], (x.shape, config)


def test_float32_out_of_sixteen_bits_is_as_exact_as_float32_and_its_gradient_comes_back_in_sixteen(tmp_path):
    cases = [(outlier_rows(3, cols), default_config(cols)) for cols in (5, 600, 1003)]
    cases += [(outlier_rows(2, 1501), LOOPED), (outlier_rows(1, 9001), default_config(9001))]
    for (x, config), result in zip(cases, interpret(tmp_path, cases, "float16>float32"), strict=True):
        rounded = torch.from_numpy(x).half().double().numpy()
        exact = torch.from_numpy(softmax_float64(rounded))
        assert relative_error(torch.from_numpy(result), exact) < 1e-6, (x.shape, config)
    dy = torch.randn(3, 1003, generator=torch.Generator().manual_seed(0))
    y = torch.softmax(dy.flip(0), -1)
    tail = f"{json.dumps(default_config(1003))}|float32>float16"
    results = run_interpreted("run_backward.py", tmp_path, {f"0|dy|{tail}": dy.numpy(), f"0|y|{tail}": y.numpy()})
    dx = torch.from_numpy(results[f"0|{tail}"])
    assert torch.equal(dx, dx.half().float())
    torch.testing.assert_close(dx, ((dy - (dy * y).sum(-1, keepdim=True)) * y).half().float(), rtol=2**-10, atol=1e-7)


@pytest.mark.parametrize("cols", [1500, 1501, 1503])
def test_rows_looped_over_handle_masks_edges_and_rows_of_minus_infinity(tmp_path, cols):
    x = outlier_rows(4, cols)
    x[1, ::3] = x[2] = -np.inf
    x[0, -1] += 200  # the maximum in an edge: by more than float32's exponential can bear
    assert not fits(cols, LOOPED, itemsize=4)
    (result,) = interpret(tmp_path, [(x, LOOPED)])
    assert np.isnan(result[2]).all()
    assert (result[1, ::3] == 0).all()
    assert error_of(result[[0, 1, 3]], x[[0, 1, 3]]) < 1e-6


def test_a_special_value_in_an_edge_reaches_the_whole_row_held_or_looped_over(tmp_path):
    x = outlier_rows(4, 1501)
    x[0, -1], x[1, 0], x[2] = np.nan, np.inf, -np.inf
    for result in interpret(tmp_path, [(x, LOOPED), (x, default_config(1501))]):
        assert np.isnan(result[:3]).all()
        assert error_of(result[3:], x[3:]) < 1e-6


def test_without_a_configuration_the_interpreter_uses_the_default(tmp_path):
    x = outlier_rows(3, 600)
    default, chosen = interpret(tmp_path, [(x, None), (x, default_config(600))])
    assert np.array_equal(default, chosen)


def test_the_backward_interpreted_loops_over_what_it_cannot_hold(tmp_path):
    generator = torch.Generator().manual_seed(0)
    arrays, kept = {}, {}
    for number, cols in enumerate((1500, 1503)):
        assert not fits(cols, LOOPED, itemsize=4, tensors=2)
        dy, y = torch.randn(2, 3, cols, generator=generator)
        y = y.softmax(-1)
        tail = f"{json.dumps(LOOPED)}|float32"
        arrays |= {f"{number}|dy|{tail}": dy.numpy(), f"{number}|y|{tail}": y.numpy()}
        kept[f"{number}|{tail}"] = dy, y
    results = run_interpreted("run_backward.py", tmp_path, arrays)
    for key, (dy, y) in kept.items():
        assert gradient_error(torch.from_numpy(results[key]), dy, y) < 1e-6, key


def test_candidates_hold_the_labs_whole_grid():
    for rows, cols in SHAPES:
        grid = {(c["BLOCK"], c["num_warps"]) for c in candidates(rows, cols) if in_lab_grid(c)}
        assert grid == {(block, warps) for block in LAB_BLOCKS for warps in LAB_WARPS}


def test_candidates_are_few_and_distinct_and_go_beyond_the_grid():
    for rows, cols in SHAPES:
        configs = candidates(rows, cols)
        assert len({tuple(config.items()) for config in configs}) == len(configs)
        assert 12 < len(configs) <= 30
    assert {"BLOCK": 256, "ROWS": 2, "num_warps": 1} in candidates(4096, 600)
    assert all(config["ROWS"] == 1 for config in candidates(1, 600))


def test_candidates_beyond_the_grid_loop_only_over_long_rows():
    for rows, cols in SHAPES:
        beyond = [config for config in candidates(rows, cols) if not in_lab_grid(config)]
        assert all(fits(cols, config, itemsize=2) for config in beyond if cols <= 8192), cols


@given(cols=st.integers(1, 1 << 18), itemsize=st.sampled_from([2, 4]), tensors=st.sampled_from([1, 2]))
def test_a_default_is_launched_within_what_a_multiprocessor_has(cols, itemsize, tensors):
    config = default_config(cols, itemsize, tensors)
    keywords = specialization(cols, config, itemsize, tensors)
    threads = 32 * config["num_warps"]
    assert threads * (keywords["maxnreg"] or 1) <= 65536
    held = keywords["TILES"] * config["BLOCK"] >= cols
    assert held or cols * itemsize * tensors > 128 << 10  # bytes of the rows
    assert held or config["num_warps"] == 32


@pytest.mark.parametrize("run", [softmax, lambda x: softmax_backward(x, x)], ids=["forward", "backward"])
def test_a_cpu_tensor_is_refused_outside_the_interpreter(run):
    with pytest.raises(LabError, match="TRITON_INTERPRET"):
        run(torch.zeros(2, 3))


@gpu
@needs_gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("config_of", [default_config, lambda cols: LOOPED], ids=["default", "looped"])
def test_on_a_gpu_it_passes_the_proof(dtype, config_of):
    assert prove(lambda x: softmax(x, config_of(x.shape[-1])), "cuda", dtype, name="triton")


@gpu
@needs_gpu
def test_on_a_gpu_the_first_call_of_a_width_tunes_it():
    x = torch.randn(256, 600, device="cuda")
    assert relative_error(softmax(x), torch.from_numpy(softmax_float64(x.double().cpu().numpy()))) < 1e-6
    config = softmax_kernel.best_config.all_kwargs()
    assert {name: config[name] for name in ("BLOCK", "ROWS", "num_warps")} in candidates(256, 600)


@gpu
@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("cols", [1001, 8193, 20000, 32768, 50257, 131073])
def test_on_a_gpu_the_default_moves_rows_in_whole_vectors_and_agrees_with_float64(dtype, cols):
    x = torch.from_numpy(outlier_rows(5, cols)).to("cuda", dtype)
    y = torch.full_like(x, torch.nan)
    kernel = launch(x, y, default_config(cols))
    assert re.search(r"ld\.global\S*\.v[24]\.b32", kernel.asm["ptx"])
    assert error_of(y.float().cpu().numpy(), x.float().cpu().numpy(), dtype) <= INTERPRETER_TOLERANCE[str(dtype)[6:]]


@gpu
@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_on_a_gpu_the_backward_agrees_with_float64_held_packed_and_looped_over(dtype):
    for cols in (1, 600, 1001, 8193, 20000, 50257, 131073):
        generator = torch.Generator("cuda").manual_seed(cols)
        dy, y = torch.randn(2, 3, cols, generator=generator, device="cuda")
        dy, y = dy.to(dtype), y.softmax(-1).to(dtype)
        tolerance = 1e-6 if dtype == torch.float32 else torch.finfo(dtype).eps
        assert gradient_error(softmax_backward(dy, y), dy, y) <= tolerance, cols
