"""Kernels in C++ are built in one go, and one that cannot be built, or is wrong, costs no other."""

import os
from unittest import mock

import pytest
import torch
from captured import FAST
from test_run_beside import lives
from torch._inductor import cpu_vec_isa

from minicompile.torch_private.names import owner
from minicompile.verifying import cpp
from minicompile.verifying.blocks import Unable
from minicompile.verifying.forked import Shared, forked

KERNEL = """async_compile.cpp_pybinding(['float*'], r'''
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel(float* out_ptr0)
{
    auto tmp0 = static_cast<float>(%s);
    auto tmp1 = out_ptr0[static_cast<int64_t>(0L)];
    auto tmp2 = tmp1 * tmp0;
    auto tmp3 = at::vec::Vectorized<float>(tmp0);
    out_ptr0[static_cast<int64_t>(0L)] = tmp2;
}
''')
"""


def sources() -> list[str]:
    return [cpp.SOURCES.findall(KERNEL % number)[0] for number in ("1.5", "2.5", "bad", "4.5", "5.5")]


def test_one_that_cannot_be_built_costs_no_other():
    tried = []

    def built(texts, _vectors):
        tried.append(len(texts))
        if any("bad" in one.source for one in texts):
            raise Unable("not_built", "an error")
        return mock.Mock()

    with mock.patch.object(cpp, "_built", built):
        library = cpp.Library([KERNEL % number for number in ("1.5", "2.5", "bad", "4.5", "5.5")], None)
    with mock.patch.object(cpp.Library, "_noted"), mock.patch.object(cpp, "_notes_of", return_value={}):
        for source in sources():
            if "bad" in source:
                with pytest.raises(Unable) as refused:
                    library.run(source, [torch.zeros(1)])
                assert refused.value.code == "not_built"
            else:
                library.run(source, [torch.zeros(1)])
    assert tried[0] == 5
    assert len(tried) <= 7


def test_without_a_compiler_nothing_is_tried_twice():
    with mock.patch.object(cpp, "_built", side_effect=Unable("no_compiler")) as built:
        cpp.Library([KERNEL % number for number in ("1.5", "2.5")], None)
    assert built.call_count == 1


def test_lines_that_assign_what_stands_in_the_text_are_not_noted():
    text = cpp.read(sources()[0])
    assert [one.name for one in text.lines] == ["tmp1", "tmp2"]


def test_code_is_built_for_the_vectors_that_it_was_written_for():
    """A vector that is built narrower than it was written is stored beyond its end."""
    for bits, wide in ((256, False), (512, True)):
        vectors = next(one for one in owner("pick_vec_isa").supported_vec_isa_list if one.bit_width() == bits)
        assert ("-mavx512f" in cpp._flags(vectors)) == wide
        with mock.patch.dict(FAST, {"cpp.simdlen": bits}):
            (live,) = lives(torch.sin, torch.randn(64), target=None)
        expected = {str(one) for one in cpu_vec_isa.valid_vec_isa_list() if one.bit_width() == bits}
        assert str(live.vectors) in expected or not expected


def test_who_writes_no_cpp_is_not_asked_for_vectors():
    """To answer, torch builds a program for each kind of vectors, which took a minute beside a GPU."""
    with mock.patch.object(cpu_vec_isa, "pick_vec_isa") as asked:
        (live,) = lives(torch.sin, torch.randn(64))
    assert live.vectors is None
    assert not asked.called


WRONG = """async_compile.cpp_pybinding(['float*', 'int64_t'], r'''
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel(float* out_ptr0, const int64_t ks0)
{
    auto tmp0 = static_cast<float>(ks0);
    auto tmp1 = tmp0 * tmp0;
    out_ptr0[static_cast<int64_t>(ks0)] = tmp1;
    if (ks0 == 1) std::abort();
    while (ks0 == 2);
}
''')
"""


@pytest.fixture(scope="module")
def wrong() -> cpp.Library:
    return cpp.Library([WRONG], cpu_vec_isa.pick_vec_isa())


@pytest.mark.parametrize(
    ("place", "code", "detail"),
    [
        (3, None, ""),
        (0, None, ""),  # zero where zero is
        (4, "out_of_bounds", "written beyond a buffer"),
        (-9, "out_of_bounds", "written beyond a buffer"),
        (1 << 60, "crashed", "SIGSEGV"),
        (1, "crashed", "SIGABRT"),
        (2, "time", ""),
    ],
)
def test_a_kernel_that_is_wrong_ends_a_process_of_its_own(wrong, place, code, detail):
    (source,) = cpp.SOURCES.findall(WRONG)
    given, left = torch.zeros(4), torch.tensor([0.0, 0.0, 0.0, 9.0])
    if code is None:
        assert {*torch.cat(wrong.run(source, [given, place]).stored["out_ptr0"]).tolist()} == {place}
        assert torch.equal(given, left if place else torch.zeros(4))
        return
    with pytest.raises(Unable) as refused:
        wrong.run(source, [given, place], 0.5 if code == "time" else 60.0)
    assert (refused.value.code, refused.value.detail) == (code, detail)
    assert not given.any()


def test_tensors_of_one_memory_stay_so():
    memory = torch.arange(12.0)
    one, other, alone = memory[2:8], memory[6:].view(2, 3), torch.ones(3)
    shared = Shared([one, other, alone])
    assert shared.address(other) - shared.address(one) == 4 * 4
    assert abs(shared.address(alone) - shared.address(one)) > memory.nbytes
    shared.take_back()
    assert torch.equal(memory, torch.arange(12.0))


def test_of_a_fork_comes_what_it_returns_or_a_refusal():
    assert forked(lambda: os.getpid(), 60.0) != os.getpid()
    assert len(forked(lambda: bytes(1 << 22), 60.0)) == 1 << 22
    with pytest.raises(Unable) as refused:
        forked(lambda: 1 // 0, 60.0)
    assert refused.value.code == "crashed"
