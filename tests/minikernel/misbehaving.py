"""Kernels as a user might bring them: one good, and one for each way of misbehaving."""

import ctypes
import os
import subprocess
import sys

import torch


def good(x):
    return torch.softmax(x.double(), -1).to(x.dtype)


def compiled(x):
    return torch.compile(good, backend="eager", fullgraph=True)(x)


def wrong(x):
    return good(x) + 1e-3


def raises(x):
    raise RuntimeError("out of luck\nand of words")


def exits(x):
    sys.exit(3)


def leaves(x):
    os._exit(0)


def crashes(x):
    ctypes.string_at(0)


def hangs(x):
    print("round and round", flush=True)
    while True:
        pass


def hangs_in_c(x):
    ctypes.PyDLL(None).pause()  # holds the interpreter's lock


def writes_after(x):
    y = torch.empty_like(x).copy_(good(x))
    ctypes.memset(y.data_ptr() + y.untyped_storage().nbytes(), 0, 4)
    return y


def writes_before(x):
    y = torch.zeros_like(x).copy_(good(x))
    ctypes.memset(y.data_ptr() - 64, 0, 4)
    return y


def writes_around_its_input(x):
    ctypes.memset(x.data_ptr() - 4, 0, 4)
    return good(x)


def writes_between_elements(x):
    if x.stride(-1) == 2:
        ctypes.memset(x.data_ptr() + 4, 0, 4)
    return good(x)


@torch.library.custom_op("misbehaving::softmax", mutates_args=())
def writes_after_in_an_operator(x: torch.Tensor) -> torch.Tensor:
    return writes_after(x)


def is_large(x):
    return tuple(x.shape) == (64, 600)  # of the bench, not of the proof


def crashes_when_large(x):
    return crashes(x) if is_large(x) else good(x)


def hangs_when_large(x):
    return hangs(x) if is_large(x) else good(x)


def wrong_when_large(x):
    return wrong(x) if is_large(x) else good(x)


def leaves_a_process_behind(x):
    if x.dim() == 1:
        print(f"left {subprocess.Popen(['sleep', '600']).pid}.", flush=True)
    return good(x)


def talks(announce):
    print("word " * 100_000)
    print("the last word")
    return "done"
