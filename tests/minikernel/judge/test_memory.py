"""Memory that two processes see, and that neither can take away from the other."""

import os

import pytest
import torch

from minikernel.judge.memory import ALIGNED, Block, Layout, aligned, contiguous


def test_two_maps_of_one_block_see_the_same():
    block = Block(1000)
    other = Block(1000, os.dup(block.descriptor))
    layout = contiguous([2, 3], 64, "float32")
    block.tensor(layout).copy_(torch.arange(6.0).view(2, 3))
    assert other.tensor(layout).tolist() == [[0, 1, 2], [3, 4, 5]]
    block.close()
    other.close()
    assert block.tensor(layout).sum() == 15


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="seals are Linux's")
def test_a_block_cannot_be_cut():
    block = Block(1 << 16)
    with pytest.raises(PermissionError):
        os.ftruncate(block.descriptor, 0)
    block.close()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_strides_and_offsets_are_kept(dtype: str):
    block = Block(4096)
    x = torch.arange(12.0).view(3, 4)
    block.tensor(Layout([4, 3], [1, 4], 8, dtype)).copy_(x.T)
    assert block.tensor(Layout([3, 4], [4, 1], 8, dtype)).float().equal(x)
    block.close()


def test_layouts_of_no_elements():
    block = Block(0)
    assert block.tensor(contiguous([0, 600], 0, "float32")).shape == (0, 600)
    assert contiguous([2, 3, 4], 0, "float32").stride == [12, 4, 1]
    assert (aligned(0), aligned(1), aligned(ALIGNED)) == (0, ALIGNED, ALIGNED)
    block.close()
