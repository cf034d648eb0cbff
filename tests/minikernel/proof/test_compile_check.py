"""Every kernel compiles for sm_90 without a GPU, and none of those that may not spill does."""

import shutil
import sys
from functools import cache

import pytest

from minikernel.ops.softmax_cuda import LAYOUTS, SMEM_BLOCK, SOURCES
from minikernel.proof import compile_check
from minikernel.proof.compile_check import (
    compile_cuda,
    compile_triton,
    cuda_compiler,
    instances,
    parse_resource_usage,
)
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
CUDA_SOURCES = sorted(path.stem for path in SOURCES.glob("*.cu"))
WIDTHS = (1, 7, 600, 1000, 4096, 32768, 50257)
REGISTERS_A_MULTIPROCESSOR = 65536
needs_compiler = pytest.mark.skipif(cuda_compiler() is None, reason="neither NVRTC nor nvcc is present")


@cache
def compiled(name):
    return compile_cuda(name)


def test_resource_usage_is_read_kernel_by_kernel():
    naive, softmax = parse_resource_usage(USAGE)
    assert naive == {"name": "_Z5naiveIfEvPKT_PS0_xx", "registers": 31, "stack_bytes": 16, "shared_bytes": 0}
    assert (softmax["registers"], softmax["stack_bytes"], softmax["shared_bytes"]) == (64, 0, 256)


def test_every_source_has_instances_and_none_is_listed_twice():
    assert sorted({source for source, _ in instances()}) == CUDA_SOURCES
    assert len(set(instances())) == len(instances())


@needs_compiler
@pytest.mark.parametrize("name", CUDA_SOURCES)
def test_cuda_c_compiles_in_every_instance_and_spills_where_it_may(name):
    kernels = compiled(name)["kernels"]
    assert len(kernels) == sum(source == name for source, _ in instances())
    assert [kernel for kernel in kernels if kernel["stack_bytes"]] == []
    assert all(0 < kernel["registers"] <= 255 for kernel in kernels)


@needs_compiler
def test_two_blocks_of_512_threads_fit_a_multiprocessor_as_the_forward_layouts_want():
    smaller = ("fused_short", "fused_kept")
    blocks = [kernel for kernel in compiled("fused")["kernels"] if not kernel["name"].startswith(smaller)]
    assert blocks
    assert [kernel for kernel in blocks if 2 * 512 * kernel["registers"] > REGISTERS_A_MULTIPROCESSOR] == []


@needs_compiler
def test_static_shared_memory_is_what_the_launchers_count_with():
    assert {kernel["shared_bytes"] for kernel in compiled("smem")["kernels"]} == {4 * SMEM_BLOCK}
    most_blocks = max(layout.blocks for layouts in LAYOUTS.values() for layout in layouts)
    assert max(kernel["shared_bytes"] for kernel in compiled("fused")["kernels"]) == most_blocks * 32 * 8 + 16


@pytest.mark.skipif(cuda_compiler() != "nvrtc", reason="NVRTC is not present")
def test_nvrtc_tells_each_instance_by_its_cpp_name():
    names = [kernel["name"] for kernel in compiled("fused_backward")["kernels"]]
    assert sorted(names) == sorted(expression for source, expression in instances() if source == "fused_backward")


@pytest.mark.skipif(cuda_compiler() != "nvrtc" or shutil.which("nvcc") is None, reason="needs NVRTC and nvcc")
def test_nvcc_compiles_as_many_kernels_as_nvrtc(monkeypatch):
    monkeypatch.setattr(compile_check, "cuda_compiler", lambda: "nvcc")
    assert len(compile_cuda("smem")["kernels"]) == len(compiled("smem")["kernels"])


@needs_compiler
def test_a_source_that_does_not_compile_is_named_with_its_line_and_the_compilers_words(monkeypatch, tmp_path):
    from minikernel.ops import softmax_cuda

    (tmp_path / "header.cuh").write_text("// one\n// two\n// three\n")
    (tmp_path / "naive.cu").write_text('#include "header.cuh"\n__global__ void broken() { undeclared = 1; }\n')
    monkeypatch.setattr(softmax_cuda, "SOURCES", tmp_path)
    with pytest.raises(LabError, match=r"naive\.cu does not compile for sm_90.*\n?.*naive\.cu\(2\).*undeclared"):
        compile_cuda("naive")


def test_without_a_compiler_there_is_no_result(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    assert compile_cuda("naive") is None


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_triton_compiles_in_its_default_configuration_at_any_width_and_nothing_spills(dtype, direction):
    softmax_triton = pytest.importorskip("minikernel.ops.softmax_triton", exc_type=ImportError)
    for cols in WIDTHS:
        resources = compile_triton(cols, dtype, softmax_triton.default_config(cols), direction)
        assert resources["stack_bytes"] == 0, cols
        assert 0 < resources["registers"] <= 255


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_triton_candidate_at_the_models_width_compiles_and_nothing_spills(dtype):
    softmax_triton = pytest.importorskip("minikernel.ops.softmax_triton", exc_type=ImportError)
    for config in softmax_triton.candidates(4096, 600):
        assert compile_triton(600, dtype, config)["stack_bytes"] == 0, config


def test_a_triton_configuration_that_cannot_compile_is_named():
    pytest.importorskip("triton")
    with pytest.raises(LabError, match=r"Triton forward kernel with .* at 600 columns of float32 does not compile"):
        compile_triton(600, "float32", {"BLOCK": 600, "ROWS": 1, "num_warps": 4})
