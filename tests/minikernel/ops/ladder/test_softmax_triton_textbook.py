"""The textbook's Triton kernel: right in the interpreter on the whole proof, and what it does not take is refused."""

import subprocess
import sys

import pytest
import torch

pytest.importorskip("triton")

from minikernel.ops.ladder.softmax_triton_textbook import launch_options, softmax
from minikernel.proof.proof import REFERENCE_TOLERANCE, adversarial_cases, prove
from minilab import LabError

PROVE = """
import os
os.environ["TRITON_INTERPRET"] = "1"
from minikernel.ops.ladder import table
from minikernel.proof.proof import prove_kernel
rows = prove_kernel("triton_textbook", None, "cpu", interpreted=True)
print(len(rows), max(row["max_rel_err"] for row in rows))
"""


def test_it_passes_the_proof_in_the_interpreter():
    command = [sys.executable, "-W", "ignore", "-c", PROVE]
    cases, error = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert int(cases) == len(adversarial_cases())
    assert 1e-6 < float(error) < REFERENCE_TOLERANCE["float32"]  # what the tuned kernel's exponential recovers is lost


def test_a_tile_holds_the_row_and_no_block_has_more_threads_than_there_can_be():
    for cols in (1, 7, 600, 1024, 50257, 1 << 20):
        options = launch_options(cols)
        assert options["BLOCK"] // 2 < cols <= options["BLOCK"]
        assert 4 <= options["num_warps"] <= 32


def test_a_cpu_tensor_is_refused_with_a_sentence():
    with pytest.raises(LabError, match="takes CUDA tensors"):
        softmax(torch.zeros(2, 3))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_it_passes_the_proof_and_other_dtypes_are_refused_with_a_sentence():
    assert prove(softmax, "cuda", "float32", tolerance=REFERENCE_TOLERANCE["float32"])
    with pytest.raises(LabError, match=r"takes float32, not torch\.bfloat16; use the tuned one"):
        softmax(torch.zeros(2, 3, dtype=torch.bfloat16, device="cuda"))
