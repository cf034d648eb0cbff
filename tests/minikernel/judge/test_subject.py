"""One kernel in shared memory: its input, the gaps in it, and its result are each held against what they should be."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from declared_faults import check_says, fault

from minikernel.judge.client import Failed, KernelProcess
from minikernel.judge.subject import Subject
from minikernel.reasons import in_words

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


@pytest.mark.parametrize(
    ("told", "said", "mistake"),
    [
        ({"shape": [2, 3], "dtype": "float16"}, "its dtype is float16, where float32 is right", "dtype"),
        ({"shape": [3, 2], "dtype": "float32"}, "its shape is (3, 2), where (2, 3) is right", "shape"),
        ({"shape": [6], "dtype": "float16"}, "its shape is (6,), where (2, 3) is right", "shape"),
        ({"shape": "all", "dtype": "float32"}, "its result has another shape or dtype than the right one", "shape"),
        ({"shape": [2, 3], "dtype": "save"}, "its result has another shape or dtype than the right one", "dtype"),
    ],
)
def test_a_result_of_another_shape_or_dtype_is_told_so(told: dict, said: str, mistake: str):
    at = {"code": "load", "kernel": "mine", "device": "cpu"}
    process = SimpleNamespace(ask=lambda do, *_, **__: {"seconds": 0.0, **told}, at=at, use=id)
    subject = Subject(process, "mine", 1e-6)
    with pytest.raises(Failed) as failed:
        subject.call(subject.lay(torch.randn(2, 3)))
    assert said in str(failed.value)
    assert failed.value.reason["mistake"] == mistake


NAN, INF = math.nan, math.inf


@fault(
    "a kernel of yours gives a zero where NaN is right, a NaN where a number is, an infinity",
    "left out: kernel ... on ..., ...: it is ... at ..., where ... is right; the kernel is wrong there.",
    "Its proof says so. It is neither timed nor drawn; everything else is.",
)
@pytest.mark.parametrize(
    ("x", "changed", "said"),
    [
        ([[0.0, 0.0], [-INF, -INF]], {(1, 0): 0.0, (1, 1): 0.0}, "it is 0.0 at row 1, where NaN is right"),
        ([[0.0, 0.0], [-INF, -INF]], {(1, 0): 0.5, (1, 1): 1.0}, "it is 0.5 at row 1, column 0, where NaN is right"),
        ([[0.0, 0.0], [0.0, 3.0]], {(1, 1): NAN}, "it is NaN at row 1, column 1, where 0.953 is right"),
        ([[0.0, 0.0], [0.0, 0.0]], {(0, 1): INF}, "it is infinity at row 0, column 1, where 0.5 is right"),
        ([[0.0, 0.0], [0.0, 0.0]], {(1, 0): -INF}, "it is -infinity at row 1, column 0, where 0.5 is right"),
        ([[0.0, -500.0]], {(0, 1): 2**-20}, "it is 9.54e-07 at row 0, column 1, where 7.12e-218 is right"),
        ([0.0, 0.0, 0.0, 0.0], {(2,): NAN}, "it is NaN at index (2,), where 0.25 is right"),
        ([[[0.0, 0.0], [0.0, 0.0]]], {(0, 1, 0): NAN}, "it is NaN at index (0, 1, 0), where 0.5 is right"),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_element_of_another_kind_is_told_with_its_place(x: list, changed: dict, said: str, dtype: str, says: str):
    given = torch.tensor(x).to(getattr(torch, dtype))
    result = torch.softmax(given.double(), -1).to(given.dtype)
    for place, value in changed.items():
        result[place] = value
    at = {"code": "load", "kernel": "mine", "device": "cpu"}
    subject = Subject(SimpleNamespace(at=at, device="cpu"), "mine", 1e-2)
    with pytest.raises(Failed) as failed:
        subject.judged(result, [given])
    assert said in str(failed.value)
    check_says(f"left out: {failed.value}", says)
    assert json.loads(json.dumps(failed.value.reason, allow_nan=False)) == failed.value.reason
    assert in_words(failed.value.reason, "es") != in_words(failed.value.reason)


def test_a_place_far_down_a_large_result_is_told():
    x = torch.zeros(40_000, 32)
    result = torch.full_like(x, 1 / 32)
    result[35_001, 7] = NAN
    subject = Subject(
        SimpleNamespace(at={"code": "load", "kernel": "mine", "device": "cpu"}, device="cpu"), "mine", 1e-2
    )
    with pytest.raises(Failed, match=r"it is NaN at row 35001, column 7, where 0.0312 is right"):
        subject.judged(result, [x])
