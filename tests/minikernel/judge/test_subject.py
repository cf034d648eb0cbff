"""One kernel in shared memory: its input, the gaps in it, and its result are each held against what they should be."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from minikernel.judge.client import Failed, KernelProcess
from minikernel.judge.subject import Subject

HERE = Path(__file__).parents[1]
INPUTS = {
    "contiguous": lambda: torch.randn(5, 7),
    "transposed": lambda: torch.randn(7, 5).T,
    "every other column": lambda: torch.randn(5, 14)[:, ::2],
    "off its start": lambda: torch.randn(36)[1:].view(5, 7),
    "no rows": lambda: torch.randn(0, 7),
    "rank 1": lambda: torch.randn(7),
}


@pytest.fixture(scope="module")
def process() -> Iterator[KernelProcess]:
    with KernelProcess("mine", "cpu", 300, "proof.time_limit_seconds") as process:
        for function in ("good", "writes_between_elements", "writes_around_its_input"):
            process.load(function, {"source": str(HERE / "misbehaving.py"), "function": function})
        process.place("case", case="random", shape=[5, 7], dtype="float32")
        yield process


@pytest.mark.parametrize("redzones", [True, False])
@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_good_kernel_is_right_in_every_layout(process: KernelProcess, kind: str, dtype: str, redzones: bool):
    tolerance = {"float32": 1e-6, "bfloat16": 2**-8 + 1e-5}[dtype]
    assert Subject(process, "good", tolerance, dtype).error(INPUTS[kind](), redzones) <= tolerance


@pytest.mark.parametrize("redzones", [True, False])
@pytest.mark.parametrize("function", ["writes_between_elements", "writes_around_its_input"])
def test_a_write_beside_the_input_is_seen(process: KernelProcess, function: str, redzones: bool):
    x = torch.randn(5, 1202)[:, 2::2]
    with pytest.raises(Failed, match=r"it wrote outside its output: .* its input"):
        Subject(process, function, 1e-6).error(x, redzones)


def test_the_tolerance_decides(process: KernelProcess):
    with pytest.raises(Failed, match=r"largest relative error against float64 is \d\.\d+e-\d+, more than 1.00e-12"):
        Subject(process, "good", 1e-12).error(torch.randn(5, 7))


def test_a_result_of_another_dtype_is_wrong_in_kind():
    x = torch.randn(2, 3)
    told = {"seconds": 0.0, "shape": [2, 3], "dtype": "float16"}
    at = {"code": "load", "kernel": "mine", "device": "cpu"}
    process = SimpleNamespace(ask=lambda do, *_, **__: told, at=at, use=id)
    subject = Subject(process, "mine", 1e-6)
    with pytest.raises(Failed) as failed:
        subject.call(subject.lay(x))
    assert (failed.value.reason["code"], failed.value.reason["mistake"]) == ("wrong_in_kind", "dtype")
