"""The floor's kernels move a row in the lab's own pattern, on the emulator."""

import emulator
import numpy as np
import pytest
import softmax_floor
import torch
from softmax_floor import SHAPES, Pattern, Shape, lab_pattern, other_patterns

from minikernel.ops import softmax_cuda, softmax_cuda_backward
from minikernel.ops.softmax_cuda import HERE
from minilab import LabError

TEXT = "\n".join(
    path.read_text()
    for path in (HERE / "cuda/common.cuh", HERE / "cuda/parts.cuh", HERE.parents[2] / "benchmarks/softmax_floor.cu")
)
TEXT = TEXT.replace(
    "ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %6;", "ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
)


@pytest.fixture(autouse=True)
def an_h200(monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(softmax_cuda_backward, "limits_of", lambda device: softmax_cuda.HOPPER)
    monkeypatch.setattr(softmax_cuda_backward, "multiprocessors", lambda device: 132)


def test_the_patterns_are_those_of_the_labs_launches():
    assert [lab_pattern(shape) for shape in SHAPES] == [
        Pattern(32, 4, 1, keep=True, stream=False),
        Pattern(160, 1, 1, keep=True, stream=True),
    ]
    with pytest.raises(LabError, match="fused_block<bfloat16, 4> has a pattern that this benchmark does not copy"):
        lab_pattern(Shape("forward", 4, 4096, torch.bfloat16))


@pytest.mark.skipif(emulator.COMPILER is None, reason="needs g++")
@pytest.mark.parametrize("shape", SHAPES)
def test_every_pattern_moves_every_row(shape):
    inputs, vectors = 1 if shape.direction == "forward" else 2, shape.cols * shape.dtype.itemsize // 16
    own = lab_pattern(shape)
    x, other = np.random.default_rng(0).integers(-(2**31), 2**31, (2, 5, 4 * vectors), np.int32)
    for pattern in [own, *other_patterns(shape, own)[::4]]:
        for whole in (False, True):
            flags = ", ".join(str(flag).lower() for flag in (whole, pattern.keep, pattern.stream))
            expression = f"moved<{pattern.threads}, {pattern.vectors}, {pattern.rows}, {inputs}, {flags}>"
            y = np.zeros_like(x)
            emulator.Kernel(TEXT, expression).launch(
                -(-5 // pattern.rows), pattern.threads * pattern.rows, [x, other, y, np.int64(5), np.int32(vectors)]
            )
            assert (y == (x if inputs == 1 else x ^ other)).all()


def test_without_a_gpu_it_says_so(monkeypatch):
    monkeypatch.setattr("sys.argv", ["softmax_floor.py"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(LabError, match="measured on a GPU, and there is none here"):
        softmax_floor.main()
