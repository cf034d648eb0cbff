"""What the checker counts of a C++ kernel is what it touches of its own arguments."""

import shutil
from pathlib import Path

import pytest
import torch
from touched_cpp import Library

READS_ON = """
extern "C" void kernel(const float* in_ptr0, float* out_ptr0) {
    float sum = 0;
    for (int i = 0; i < 12; i++) sum += in_ptr0[i];
    out_ptr0[1] = sum;
}
"""


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_what_is_read_beyond_an_argument_is_not_counted_as_its_neighbour(tmp_path: Path):
    memory = bytearray(64)
    x, y = (torch.frombuffer(memory, dtype=torch.float32, count=8, offset=at) for at in (0, 32))
    x.fill_(1)
    assert Library([READS_ON], tmp_path).run(READS_ON, (x, y)) == (8 * 4, 4)
    assert y[1] >= 8
    assert y[[0, *range(2, 8)]].eq(0).all()
