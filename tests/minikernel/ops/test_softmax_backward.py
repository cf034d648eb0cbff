"""The backward kernels: their measure, their layouts, Triton's in its interpreter, CUDA C's on a GPU."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minikernel.ops import softmax_cuda
from minikernel.ops import softmax_cuda_backward as softmax_backward
from minikernel.proof.gradient_accuracy import gradient_error
from minilab import LabError

RUN_BACKWARD = Path(__file__).parents[1] / "interpreter" / "run_backward.py"
WIDTHS = (1, 7, 600, 1000, 4096, 32768, 50257, 131072)
# Of the largest |dx| in a row: rounding of the result, and 2e-6 for the arithmetic before it.
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2**-8 + 2e-6, torch.float16: 2**-11 + 2e-6}
gpu = pytest.mark.gpu
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def operands(rows, cols, dtype=torch.float32, device="cpu", offset=0):
    """(dy, y) of a softmax, each starting `offset` elements past the start of its storage; the same ones each time."""
    torch.manual_seed(0)
    y, dy = torch.zeros(2, rows * cols + offset, dtype=dtype, device=device).unbind()
    y, dy = (t.clone()[offset:].view(rows, cols) for t in (y, dy))
    return dy.copy_(torch.randn(rows, cols)), y.copy_(torch.softmax(2 * torch.randn(rows, cols), -1))


@pytest.mark.parametrize("cols", [2, 7, 600])
def test_the_measure_refuses_zeros_the_operands_themselves_and_a_forgotten_sum(cols):
    dy, y = operands(4, cols)
    assert gradient_error((dy - (dy * y).sum(-1, keepdim=True)) * y, dy, y) < TOLERANCE[torch.float32] * 100
    for wrong in (torch.zeros_like(y), y, dy, dy * y):
        assert gradient_error(wrong, dy, y) > 1e-3


def test_the_measure_lets_a_constant_gradient_cancel_but_not_fail():
    _, y = operands(4, 600)
    dy = torch.full_like(y, 3.7)
    assert gradient_error((dy - (dy * y).sum(-1, keepdim=True)) * y, dy, y) < 1e-6
    assert gradient_error(dy * y, dy, y) > 0.1


def test_the_measure_refuses_another_shape_dtype_or_a_nan():
    dy, y = operands(4, 600)
    dx = (dy - (dy * y).sum(-1, keepdim=True)) * y
    assert gradient_error(dx[:, 1:], dy, y) == gradient_error(dx.half(), dy, y) == float("inf")
    assert gradient_error(dx.masked_fill(y == y.max(), torch.nan), dy, y) == float("inf")


@given(
    cols=st.integers(1, 1 << 19),
    itemsize=st.sampled_from([2, 4]),
    aligned=st.booleans(),
    major=st.sampled_from([7, 8, 9, 10, 12]),
    few_rows=st.booleans(),
)
def test_a_layout_holds_the_whole_row_and_is_among_the_instances(cols, itemsize, aligned, major, few_rows):
    most_blocks = softmax_cuda.largest_cluster(major)
    layout = softmax_backward.layout_for(cols, itemsize, most_blocks, few_rows)
    assert layout == softmax_backward.LONG or layout.capacity >= cols * itemsize // 16
    assert layout.blocks <= most_blocks
    c_type = {4: "float", 2: "bfloat16"}[itemsize]
    assert softmax_backward.expression_for(layout, c_type, aligned) in softmax_backward.instances()


def test_a_device_without_clusters_is_given_none():
    assert softmax_cuda.largest_cluster(8) == 1
    assert softmax_backward.layout_for(131072, 4, 1) == softmax_backward.LONG
    assert softmax_backward.layout_for(131072, 4, 16).blocks == 16


def test_few_rows_of_a_middling_width_have_a_warp_each(monkeypatch):
    monkeypatch.setattr(softmax_backward, "multiprocessors", lambda device: 132)
    monkeypatch.setattr(softmax_backward, "limits_of", lambda device: softmax_cuda.HOPPER)
    sources = [softmax_backward.backward_plan(torch.float32, rows, 600, True, 0) for rows in (1, 8191, 8192)]
    assert [plan.expression.split("<")[0] for plan in sources] == ["backward_short", "backward_short", "backward_block"]
    wide = softmax_backward.backward_plan(torch.float32, 1, 1028, True, 0)
    assert wide.expression.startswith("backward_block")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_triton_backward_interpreted_agrees_with_float64(tmp_path, dtype):
    shapes = [(3, 1, 16, 2), (3, 7, 8, 4), (5, 600, 1024, 2), (2, 600, 256, 1), (1, 1000, 256, 1), (2, 4097, 2048, 1)]
    arrays, kept = {}, {}
    for number, (rows, cols, block, tile_rows) in enumerate(shapes):
        config = json.dumps({"BLOCK": block, "ROWS": tile_rows, "num_warps": 4})
        tail = f"{config}|{str(dtype).removeprefix('torch.')}"
        dy, y = kept[f"{number}|{tail}"] = operands(rows, cols, dtype)
        arrays[f"{number}|dy|{tail}"], arrays[f"{number}|y|{tail}"] = dy.float().numpy(), y.float().numpy()
    np.savez(tmp_path / "in.npz", **arrays)
    command = [sys.executable, "-W", "ignore", str(RUN_BACKWARD), str(tmp_path / "in.npz"), str(tmp_path / "out.npz")]
    subprocess.run(command, check=True)
    results = np.load(tmp_path / "out.npz")
    tolerance = 2 * TOLERANCE[dtype]  # the interpreter drops low bits where a GPU rounds to bfloat16
    for key, (dy, y) in kept.items():
        assert gradient_error(torch.from_numpy(results[key]).to(dtype), dy, y) <= tolerance, key


def test_operands_that_do_not_fit_are_refused_with_a_sentence():
    y = torch.zeros(2, 3)
    with pytest.raises(LabError, match="takes CUDA tensors"):
        softmax_backward.softmax_backward(y, y)
    with pytest.raises(LabError, match="give both alike"):
        softmax_backward.softmax_backward(y[:1], y)


@gpu
@needs_gpu
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("offset", [0, 1, 3])
def test_on_a_gpu_it_agrees_with_float64_at_every_layout_and_offset(dtype, offset):
    layouts = (*softmax_backward.LAYOUTS[dtype.itemsize], *softmax_backward.FEW_ROWS)
    edges = {layout.capacity * 16 // dtype.itemsize for layout in layouts}
    for cols in {cols for edge in edges for cols in (edge - 1, edge, edge + 1)} | {*WIDTHS, 300001}:
        few_rows_have_layouts = 64 < cols * dtype.itemsize // 16 <= 256
        for rows in (3, 8200) if few_rows_have_layouts else (3,):
            dy, y = operands(rows, cols, dtype, "cuda", offset)
            dx = softmax_backward.softmax_backward(dy, y)
            tolerance = TOLERANCE[dtype] * (100 if cols < 33 and dtype == torch.float32 else 1)
            assert gradient_error(dx, dy, y) <= tolerance, (rows, cols)


@gpu
@needs_gpu
@pytest.mark.parametrize("cols", [600, 601, 4096, 50257, 131072])
def test_on_a_gpu_nothing_is_written_outside_the_gradient(cols):
    dy, y = operands(4, cols, device="cuda")
    slab = torch.full((6, cols), 7.0, device="cuda")
    aligned = cols % 4 == 0
    inner = [torch.zeros_like(slab)[1:5].copy_(t) for t in (y, dy)]  # each starts where the slab's second row does
    for rows in (4, 1 << 20):  # by the layouts for few rows and for many
        slab.fill_(7.0)
        plan = softmax_backward.backward_plan(torch.float32, rows, cols, aligned, 0)
        softmax_cuda.launch(plan, *inner, slab[1:5])
        assert (slab[[0, 5]] == 7.0).all()
        assert gradient_error(slab[1:5], dy, y) < TOLERANCE[torch.float32]


@gpu
@needs_gpu
def test_on_a_gpu_an_expanded_gradient_and_one_at_another_offset_are_taken():
    y = torch.softmax(torch.randn(3, 600, device="cuda"), -1)
    away = torch.randn(3 * 600 + 1, device="cuda")[1:].view(3, 600)
    for dy in (torch.randn(3, 1, device="cuda").expand(3, 600), away):
        assert gradient_error(softmax_backward.softmax_backward(dy, y), dy, y) < TOLERANCE[torch.float32]
