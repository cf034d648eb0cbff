"""Every CUDA C kernel compiles for sm_90 without a GPU, and none spills."""

import importlib
import shutil
import sys
from functools import cache

import pytest

from minikernel.ops import softmax_cuda, softmax_smem
from minikernel.ops.softmax_fused import LAYOUTS
from minikernel.proof import compile_cuda as compile_check
from minikernel.proof.compile_cuda import compile_cuda, cuda_compiler
from minilab import LabError

NAIVE, SMEM, WARP, FUSED, BACKWARD, HEAD = LAUNCHERS = (
    "minikernel.ops.softmax_naive",
    "minikernel.ops.softmax_smem",
    "minikernel.ops.ladder.softmax_warp",
    "minikernel.ops.softmax_fused",
    "minikernel.ops.softmax_cuda_backward",
    "minikernel.ops.lm_head",
)
REGISTERS_A_MULTIPROCESSOR = 65536
needs_compiler = pytest.mark.skipif(cuda_compiler() is None, reason="neither NVRTC nor nvcc is present")


@cache
def compiled(module):
    return compile_cuda(module)


def instances(module):
    return importlib.import_module(module).instances()


def test_every_source_has_a_launcher_and_no_instance_is_listed_twice():
    sources = [importlib.import_module(module).SOURCE for module in LAUNCHERS]
    assert sorted(sources) == sorted(f"cuda/{path.name}" for path in softmax_cuda.HERE.glob("cuda/*.cu"))
    for module in LAUNCHERS:
        assert len(set(instances(module))) == len(instances(module)) > 0


@needs_compiler
@pytest.mark.parametrize("module", LAUNCHERS)
def test_cuda_c_compiles_in_every_instance_and_nothing_spills(module):
    kernels = compiled(module)["kernels"]
    assert len(kernels) == len(instances(module))
    assert [kernel for kernel in kernels if kernel["stack_bytes"]] == []
    assert all(0 < kernel["registers"] <= 255 for kernel in kernels)


@needs_compiler
def test_two_blocks_of_512_threads_fit_a_multiprocessor_as_the_forward_layouts_want():
    smaller = ("fused_short", "fused_kept")
    blocks = [kernel for kernel in compiled(FUSED)["kernels"] if not kernel["name"].startswith(smaller)]
    assert blocks
    assert [kernel for kernel in blocks if 2 * 512 * kernel["registers"] > REGISTERS_A_MULTIPROCESSOR] == []


@needs_compiler
def test_static_shared_memory_is_what_the_launchers_count_with():
    assert {kernel["shared_bytes"] for kernel in compiled(SMEM)["kernels"]} == {4 * softmax_smem.THREADS}
    assert {kernel["shared_bytes"] for kernel in compiled(WARP)["kernels"]} == {0}
    most_blocks = max(layout.blocks for layouts in LAYOUTS.values() for layout in layouts)
    assert max(kernel["shared_bytes"] for kernel in compiled(FUSED)["kernels"]) == most_blocks * 32 * 8 + 16


@pytest.mark.skipif(cuda_compiler() != "nvrtc", reason="NVRTC is not present")
def test_nvrtc_tells_each_instance_by_its_cpp_name():
    names = [kernel["name"] for kernel in compiled(BACKWARD)["kernels"]]
    assert sorted(names) == sorted(instances(BACKWARD))


@pytest.mark.skipif(cuda_compiler() != "nvrtc" or shutil.which("nvcc") is None, reason="needs NVRTC and nvcc")
def test_nvcc_compiles_as_many_kernels_as_nvrtc(monkeypatch):
    monkeypatch.setattr(compile_check, "cuda_compiler", lambda: "nvcc")
    assert len(compile_cuda(SMEM)["kernels"]) == len(compiled(SMEM)["kernels"])


@needs_compiler
def test_a_source_that_does_not_compile_is_named_with_its_line_and_the_compilers_words(monkeypatch, tmp_path):
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda/header.cuh").write_text("// one\n// two\n// three\n")
    (tmp_path / "cuda/naive.cu").write_text('#include "header.cuh"\n__global__ void broken() { undeclared = 1; }\n')
    monkeypatch.setattr(softmax_cuda, "HERE", tmp_path)
    with pytest.raises(LabError, match=r"naive\.cu does not compile for sm_90.*\n?.*naive\.cu\(2\).*undeclared"):
        compile_cuda(NAIVE)


def test_without_a_compiler_there_is_no_result(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    assert compile_cuda(NAIVE) is None
