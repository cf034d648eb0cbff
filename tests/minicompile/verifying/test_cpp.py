"""Kernels in C++ are built in one go, and one that cannot be built costs no other."""

from unittest import mock

import pytest
import torch

from minicompile.verifying import cpp
from minicompile.verifying.blocks import Unable

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

    def built(texts):
        tried.append(len(texts))
        if any("bad" in one.source for one in texts):
            raise Unable("not_built", "an error")
        return mock.Mock()

    with mock.patch.object(cpp, "_built", built):
        library = cpp.Library([KERNEL % number for number in ("1.5", "2.5", "bad", "4.5", "5.5")])
    with mock.patch.object(cpp.Library, "_noted"):
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
        cpp.Library([KERNEL % number for number in ("1.5", "2.5")])
    assert built.call_count == 1


def test_lines_that_assign_what_stands_in_the_text_are_not_noted():
    text = cpp.read(sources()[0])
    assert [one.name for one in text.lines] == ["tmp1", "tmp2"]


@pytest.mark.parametrize(("count", "wide"), [("8", False), ("3L", False), ("16", True), ("10L", True)])
def test_vectors_are_as_wide_as_they_were_written(count, wide):
    """Ten numbers that are loaded into a vector of eight overwrite what lies behind it."""
    load = f"at::vec::Vectorized<float>::loadu(in_ptr0 + static_cast<int64_t>(x0), static_cast<int64_t>({count}));"
    assert ("-mavx512f" in cpp._flags(load)) == wide
    assert "-mavx512f" not in cpp._flags(load + "at::vec::VectorizedN<float,2> tmp1;")
