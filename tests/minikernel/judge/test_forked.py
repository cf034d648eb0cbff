"""A process that is forked with everything imported interprets Triton as the interpreter does, in less time."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from minikernel.judge.client import Failed, KernelProcess, Workshop
from minikernel.judge.forked import index_by_item, patch_once
from minikernel.judge.subject import Subject

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def twice(x):
    return x + x


@triton.jit
def kernel(x, y, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    wrapped = twice(tl.full((BLOCK,), 1 << 30, tl.int32))
    values = tl.load(x + tl.program_id(0) * cols + at, mask=at < cols, other=float("-inf"))
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(y + tl.program_id(0) * cols + at, tl.where(wrapped < 0, powers / tl.sum(powers, 0), 0.0), mask=at < cols)


def softmax(x):
    y = torch.empty_like(x)
    kernel[(x.shape[0],)](x, y, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return y
"""


def test_what_is_patched_already_is_not_patched_again():
    patched = []
    language = SimpleNamespace(load="builtin", store="builtin", other=1)
    plain = SimpleNamespace(other=1)

    def patch(owner, *more):
        patched.append((owner, more))
        owner.load = owner.store = "patched"

    once = patch_once(patch, lambda one: one == "builtin")
    for _ in range(2):
        once(language, "builder")
        once(plain)
    assert patched == [(language, ("builder",))]
    language.load = "builtin"  # the launch is over, and all is as it was
    language.store = "builtin"
    once(language)
    assert len(patched) == 2


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("data", [np.array(7), np.array([7]), np.array([[7]])])
def test_an_array_of_one_element_bounds_a_loop(data: np.ndarray):
    def patch(tensor, scope):  # as Triton 3.6 does it
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data))

    class Tensor:
        handle = SimpleNamespace(data=data)

    index_by_item(patch)(Tensor, SimpleNamespace(set_attr=setattr))
    assert list(range(0, Tensor(), 4)) == [0, 4]


def test_a_kernel_with_a_function_in_it_is_right_and_integers_wrap(tmp_path: Path, place: Workshop):
    pytest.importorskip("triton")
    (tmp_path / "mine.py").write_text(KERNEL)
    with KernelProcess("mine", "cpu", 120, "knob", workshop=place) as process:
        process.load("mine", {"source": str(tmp_path / "mine.py"), "function": "softmax"})
        assert Subject(process, "mine", 1e-5).error(torch.randn(3, 129)) < 1e-5
        with pytest.raises(Failed, match="IndexError"):
            Subject(process, "mine", 1e-5).error(torch.randn(129))
