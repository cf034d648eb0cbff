"""What a person writes wrongly: a key of the configuration, a kernel that does not compile, one that is wrong."""

import importlib.util

import pytest
from faults import check_says, fault
from tiny import TINY, TinyLab

from minilab.device import cpu_device

PROOFS = f"results/24/{cpu_device()}/proof"
NOT_TIMED = "No proof is written, so the kernel is neither timed nor drawn; the other kernels are."


def proves(lab: TinyLab, kernel: str, says: str) -> None:
    done = lab.run(f"{PROOFS}/{kernel}.json", *TINY[1:])
    assert done.returncode
    check_says(done.stdout, says)
    assert not (lab.root / f"{PROOFS}/{kernel}.json").exists()


@pytest.mark.parametrize(("written", "typo"), [("warmup: 60", "warm_up: 60")])
@fault(
    "a key of config.yaml is misspelt",
    "config.yaml: training has an unknown key 'warm_up'; did you mean 'warmup'?",
    "Nothing has run.",
)
def test_a_typo_in_the_configuration(tiny: TinyLab, says: str, written: str, typo: str):
    tiny.edit("config.yaml", lambda text: text.replace(written, typo))
    done = tiny.run()
    assert done.returncode
    check_says(done.stdout, says)


@pytest.mark.skipif(importlib.util.find_spec("cuda") is None, reason="NVRTC compiles CUDA C, and is not here")
@fault(
    "a CUDA C kernel of the lab does not compile",
    'naive.cu does not compile for sm_90: naive.cu(17): error: identifier "flaot" is undefined',
    NOT_TIMED,
)
def test_a_cuda_kernel_that_does_not_compile(tiny: TinyLab, says: str):
    tiny.edit("src/minikernel/ops/cuda/naive.cu", lambda text: text.replace("float maximum", "flaot maximum", 1))
    proves(tiny, "naive", says)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not here")
@fault(
    "a Triton kernel of the lab does not compile",
    "kernel triton on cpu, case ... of shape ... in ...: it failed with AttributeError: module ... has no attribute "
    "'expp2'.",
    NOT_TIMED,
)
def test_a_triton_kernel_that_does_not_compile(tiny: TinyLab, says: str):
    tiny.edit("src/minikernel/ops/softmax_triton.py", lambda text: text.replace("tl.exp", "tl.expp", 1))
    proves(tiny, "triton", says)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not here")
@fault(
    "a kernel of the lab returns wrong numbers",
    "kernel triton on cpu, case ... of shape ... in ...: largest relative error against float64 is ...",
    NOT_TIMED,
)
def test_a_wrong_kernel(tiny: TinyLab, says: str):
    tiny.edit("src/minikernel/ops/softmax_triton.py", lambda text: text.replace("1.4426950216293335", "1.44", 1))
    proves(tiny, "triton", says)
