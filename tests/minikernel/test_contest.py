"""The contest, on the CPU with providers of our own: who enters, who is left out and why, what a row says."""

import pytest
import torch

from minikernel import contest as contest_module
from minikernel.contest import contest

PARAMS = {"launches": 100, "warmup": 3, "seed": 42}
CPU = torch.device("cpu")


def softmax(x):
    return torch.softmax(x, -1)


def gradient(pair):
    dy, y = pair
    return (dy - (dy * y).sum(-1, keepdim=True)) * y


def refuses(x):
    raise AssertionError("N must be divisible by 4")


def run(direction, good, **others):
    providers = {"F.softmax": good, "fused": good, **others}
    return contest(providers, direction, [8, 600], "float32", PARAMS, CPU, 10.0)


def test_who_refuses_or_is_wrong_is_left_out_with_the_reason():
    rows, left_out = run("forward", softmax, quack=refuses, liger=torch.zeros_like)
    assert [row["kernel"] for row in rows] == ["F.softmax", "fused"]
    assert {out["kernel"]: out["reason"] for out in left_out} == {
        "quack": "AssertionError: N must be divisible by 4",
        "liger": "wrong, error 1.0e+00",
    }


def test_who_is_far_too_slow_is_left_out(monkeypatch):
    monkeypatch.setattr(contest_module, "_seconds", lambda provider, given: 1.0 if provider is slow else 0.01)

    def slow(x):
        return softmax(x)

    rows, left_out = run("forward", softmax, naive=slow)
    assert [out["reason"] for out in left_out] == ["over 30 times F.softmax"]
    assert "naive" not in {row["kernel"] for row in rows}


@pytest.mark.parametrize(("direction", "good", "operands"), [("forward", softmax, 2), ("backward", gradient, 3)])
def test_bandwidth_counts_every_operand_once(direction, good, operands):
    rows, left_out = run(direction, good)
    assert left_out == []
    for row in rows:
        assert row["direction"] == direction
        assert row["gb_per_s"] == pytest.approx(operands * 4 * 8 * 600 / row["median_us"] / 1e3)
        assert row["max_rel_err"] < 1e-6
