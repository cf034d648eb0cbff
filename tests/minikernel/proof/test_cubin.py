"""What CUDA's tools say of machine code is read, whichever of them can read it."""

from pathlib import Path

import pytest

from minikernel.proof import cubin
from minikernel.proof.cubin import ask_cuda_tool, cuda_tools, parse_resource_usage, resource_usage
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


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH of its own, and a Triton that ships tools of its own beside it."""
    (tmp_path / "triton/backends/nvidia/bin").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    triton = type("Spec", (), {"origin": str(tmp_path / "triton/__init__.py")})
    monkeypatch.setattr(cubin, "find_spec", lambda name: triton)
    return tmp_path


def make_tool(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_triton_s_own_tool_is_asked_first(tools: Path):
    make_tool(tools / "triton/backends/nvidia/bin/cuobjdump", "echo triton $1")
    make_tool(tools / "bin/cuobjdump", "echo cuda $1")
    assert ask_cuda_tool("cuobjdump", "--version") == "triton --version\n"
    assert len(list(cuda_tools("cuobjdump"))) == 2


def test_where_it_cannot_read_the_file_the_one_on_the_path_is(tools: Path):
    make_tool(tools / "triton/backends/nvidia/bin/cuobjdump", "exit 1")
    make_tool(tools / "bin/cuobjdump", "echo cuda")
    assert ask_cuda_tool("cuobjdump") == "cuda\n"


def test_without_any_tool_there_is_no_answer_and_the_refusal_says_what_to_install(tools: Path):
    assert ask_cuda_tool("cuobjdump") is None
    with pytest.raises(LabError, match="cuobjdump is missing"):
        resource_usage(b"")
    make_tool(tools / "bin/cuobjdump", "exit 1")
    with pytest.raises(LabError, match="install a newer CUDA"):
        resource_usage(b"")
