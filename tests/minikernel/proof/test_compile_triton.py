"""Every Triton configuration compiles for sm_90 without a GPU, and none that may not spill does."""

import pytest
from compiled_triton import compile_triton, compile_triton_textbook

from minilab import LabError

WIDTHS = (1, 7, 600, 1000, 4096, 32768, 50257)


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_triton_compiles_in_its_default_configuration_at_any_width_and_nothing_spills(dtype, direction):
    softmax_triton = pytest.importorskip("minikernel.ops.softmax_triton", exc_type=ImportError)
    for cols in WIDTHS:
        resources = compile_triton(cols, dtype, softmax_triton.default_config(cols), direction)
        assert resources["stack_bytes"] == 0, cols
        assert 0 < resources["registers"] <= 255


def test_float32_out_of_sixteen_bits_and_its_gradient_spill_nothing():
    pytest.importorskip("triton")
    from minikernel.ops.softmax_triton import default_config

    for cols in (600, 32768):
        forward = compile_triton(cols, "bfloat16", default_config(cols), result="float32")
        backward = compile_triton(cols, "float32", default_config(cols, 4, 2), "backward", result="bfloat16")
        assert (forward["stack_bytes"], backward["stack_bytes"]) == (0, 0), cols


def test_the_textbook_s_kernel_compiles_and_does_not_spill_at_the_model_s_width():
    pytest.importorskip("triton")
    resources = compile_triton_textbook(600)
    assert (resources["BLOCK"], resources["num_warps"], resources["stack_bytes"]) == (1024, 4, 0)
    assert 0 < compile_triton_textbook(50257)["registers"] <= 64  # 32 warps share a multiprocessor's registers


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_triton_candidate_at_the_models_width_compiles_and_nothing_spills(dtype):
    softmax_triton = pytest.importorskip("minikernel.ops.softmax_triton", exc_type=ImportError)
    for config in softmax_triton.candidates(4096, 600):
        assert compile_triton(600, dtype, config)["stack_bytes"] == 0, config


def test_a_triton_configuration_that_cannot_compile_is_named():
    pytest.importorskip("triton")
    with pytest.raises(LabError, match=r"Triton forward kernel with .* at 600 columns of float32 does not compile"):
        compile_triton(600, "float32", {"BLOCK": 600, "ROWS": 1, "num_warps": 4})
