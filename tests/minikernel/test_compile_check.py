"""Every kernel compiles for sm_90 without a GPU, and nothing spills."""

import shutil
import sys

import pytest

from minikernel.compile_check import compile_cuda, compile_triton, cuda_compiler, parse_resource_usage
from minilab import LabError

USAGE = """
Resource usage:
 Common:
  GLOBAL:0
 Function _Z5naiveIfEvPKT_PS0_xx:
  REG:31 STACK:16 SHARED:0 LOCAL:0 CONSTANT[0]:560 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function softmax_kernel:
  REG:64 STACK:0 SHARED:1280 LOCAL:0 CONSTANT[0]:560 TEXTURE:0 SURFACE:0 SAMPLER:0
"""


def test_resource_usage_is_read_kernel_by_kernel():
    naive, softmax = parse_resource_usage(USAGE)
    assert naive == {"name": "_Z5naiveIfEvPKT_PS0_xx", "registers": 31, "stack_bytes": 16, "shared_bytes": 0}
    assert (softmax["registers"], softmax["stack_bytes"], softmax["shared_bytes"]) == (64, 0, 256)


@pytest.mark.skipif(cuda_compiler() is None, reason="neither nvcc nor NVRTC is present")
@pytest.mark.parametrize("name", ["naive", "smem", "fused"])
def test_cuda_c_compiles_in_every_instance_and_nothing_spills(name):
    from minikernel.softmax_cuda import instances

    result = compile_cuda(name)
    assert len(result["kernels"]) == sum(source == name for source, _ in instances())
    assert [kernel["name"] for kernel in result["kernels"] if kernel["stack_bytes"]] == []
    assert max(kernel["registers"] for kernel in result["kernels"]) <= 128


@pytest.mark.skipif(cuda_compiler() is None, reason="neither nvcc nor NVRTC is present")
def test_a_source_that_does_not_compile_is_named_with_the_compilers_words(monkeypatch):
    from minikernel import softmax_cuda

    monkeypatch.setattr(softmax_cuda, "source", lambda name: "__global__ void broken() { undeclared = 1; }")
    with pytest.raises(LabError, match=r"naive\.cu does not compile.*\n?.*undeclared"):
        compile_cuda("naive")


def test_without_a_compiler_there_is_no_result(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "cupy.cuda", None)
    assert compile_cuda("naive") is None


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_triton_candidate_at_the_models_width_compiles_and_nothing_spills(dtype):
    pytest.importorskip("triton")
    from minikernel.softmax_triton import candidates

    for config in candidates(4096, 600):
        resources = compile_triton(600, dtype, config)
        assert resources["stack_bytes"] == 0, config
        assert 0 < resources["registers"] <= 255


def test_triton_loops_over_rows_longer_than_a_block():
    pytest.importorskip("triton")
    assert compile_triton(50257, "float32", {"BLOCK": 2048, "ROWS": 1, "num_warps": 8})["stack_bytes"] == 0
