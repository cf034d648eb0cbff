"""Models as a user might bring them: one good, and one for each way of misbehaving."""

import ctypes
import os
import subprocess
import sys
import time

import torch
from torch import nn


def good():
    return nn.Linear(4, 4), (torch.randn(2, 4),)


def raises():
    raise RuntimeError("out of luck\nand of words")


def exits():
    sys.exit(3)


def leaves():
    os._exit(0)


def crashes():
    ctypes.string_at(0)


def hangs():
    subprocess.Popen(["sleep", "599"], start_new_session=True)
    while True:
        time.sleep(0.1)  # what waits hangs as what computes does, and leaves the core to other tests


def eats_memory():
    eaten = []
    while True:
        eaten.append(torch.ones(1 << 26))


def returns_no_module():
    return 3


def wrong_inputs():
    return nn.Linear(4, 4), (torch.randn(2, 5),)


def one_argument_too_many():
    return nn.Linear(4, 4), (torch.randn(2, 4), torch.randn(2, 4))


@torch.library.custom_op("misbehaving_models::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


class WithoutFake(nn.Module):
    def forward(self, x):
        return twice(x) + 1


def operator_without_fake():
    return WithoutFake(), (torch.randn(2, 4),)


class Crashing(nn.Module):
    def forward(self, x):
        ctypes.string_at(0)
        return x


def crashes_when_called():
    return Crashing(), (torch.randn(2, 4),)


class Missing(nn.Module):
    def forward(self, x):
        return torch.nnn.functional.relu(x)


def calls_a_missing_function():
    return Missing(), (torch.randn(2, 4),)
