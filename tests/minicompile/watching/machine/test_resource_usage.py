"""Registers and stack of many kernels are read in one start of cuobjdump, and are those that it tells of each."""

import subprocess
from unittest import mock

import pytest

from minicompile.watching.machine import resource_usage
from minikernel.proof import cubin

SOURCE = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry {name}(.param .u64 at) {{
    .local .align 4 .b8 frame[{stack}];
    .reg .b64 %rd<4>; .reg .b32 %r<4>;
    ld.param.u64 %rd1, [at];
    mov.u64 %rd2, frame;
    ld.global.u32 %r1, [%rd1];
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd2, %rd2, %rd3;
    st.local.u32 [%rd2], %r1;
    ld.local.u32 %r2, [%rd2];
    st.global.u32 [%rd1], %r2;
    ret;
}}
"""
STACKS = {"third": 96, "first": 32, "second": 64}


@pytest.fixture(scope="module")
def cubins(tmp_path_factory) -> list[bytes]:
    """Kernels that differ in their stack, in an order that is not their names'."""
    found = list(cubin.cuda_tools("ptxas"))
    if not found or not list(cubin.cuda_tools("cuobjdump")):
        pytest.skip("no ptxas or no cuobjdump here")
    folder, made = tmp_path_factory.mktemp("kernels"), []
    for name, stack in STACKS.items():
        source, target = folder / f"{name}.ptx", folder / f"{name}.cubin"
        source.write_text(SOURCE.format(name=name, stack=stack))
        subprocess.run([found[0], "-arch=sm_90", str(source), "-o", str(target)], check=True)
        made.append(target.read_bytes())
    return made


def test_many_kernels_are_read_in_one_start_and_in_their_order(cubins):
    alone = [cubin.resource_usage(one)[0] for one in cubins]
    with mock.patch.object(resource_usage, "ask_cuda_tool", wraps=cubin.ask_cuda_tool) as asked:
        together = resource_usage.resource_usages(cubins, 90)
    assert asked.call_count == 1
    assert together == alone
    assert [one["name"] for one in together] == list(STACKS)
    assert [one["stack_bytes"] for one in together] == list(STACKS.values())


def test_a_tool_that_does_not_read_them_together_is_asked_for_each(cubins, monkeypatch):
    monkeypatch.setattr(resource_usage, "fatbin", lambda cubins, _architecture: cubins[0])
    assert resource_usage.resource_usages(cubins, 90) == [cubin.resource_usage(one)[0] for one in cubins]


def test_what_no_tool_can_read_is_not_known():
    assert resource_usage.resource_usages([b"no machine code", b"neither"], 90) == [None, None]
    assert resource_usage.resource_usages([], 90) == []
