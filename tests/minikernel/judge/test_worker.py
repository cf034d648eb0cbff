"""The process of a kernel answers what it is asked, and says what a kernel raised."""

import os
import socket

import pytest
import torch

from minikernel.judge.memory import Block, contiguous
from minikernel.judge.worker import COPY, Worker


@pytest.fixture
def worker() -> Worker:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        worker = Worker(theirs)
        block = Block(1 << 14)
        worker.map(block.n_bytes, os.dup(block.descriptor))
        block.tensor(contiguous([2, 3], 0, "float32")).copy_(torch.arange(6.0).view(2, 3))
        yield worker
        block.close()


X = list(contiguous([2, 3], 0, "float32"))


def test_a_result_is_kept_until_it_is_shown(worker: Worker):
    worker.load(COPY, None, "cpu")
    answer = worker.answer({"do": "call", "name": COPY, "x": X, "key": 5}, [])
    assert (answer["shape"], answer["dtype"]) == ([2, 3], "float32")
    assert answer["microseconds"] > 0
    assert worker.answer({"do": "show", "key": 5, "start": 4096, "rows": [1]}, []) == {}
    assert worker.block is not None
    assert worker.block.tensor(contiguous([1, 3], 4096, "float32")).tolist() == [[3, 4, 5]]
    assert worker.answer({"do": "show", "key": 5, "start": 4096}, [])["reason"]["code"] == "raised"


def test_the_labs_own_are_there_by_name(worker: Worker):
    assert worker.answer({"do": "load", "name": "F.softmax", "entry": None, "device": "cpu"}, []) == {"tuned": False}
    worker.answer({"do": "call", "name": "F.softmax", "x": X, "key": 0, "redzones": True}, [])
    assert worker.results[0].sum(-1).tolist() == pytest.approx([1, 1])


def test_what_is_raised_is_a_reason(worker: Worker):
    answer = worker.answer({"do": "load", "name": "nobody", "entry": None, "device": "cpu"}, [])
    assert answer["reason"]["code"] == "refused"
    assert "'nobody' is neither the lab's nor configured" in answer["reason"]["text"]


def test_traffic_is_counted(worker: Worker):
    worker.load("F.softmax", None, "cpu")
    assert worker.answer({"do": "traffic", "name": "F.softmax", "x": X}, [])["operations"] == ["aten::_softmax"]
