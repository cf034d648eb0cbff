"""Further calls in C++: what is left to Python, which addresses are whose, and what happens without a compiler."""

import ctypes
import gc
import logging

import emulator
import pytest
import torch
from emulated_gpu import EmulatedGpu
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from minikernel import minigpt_forward
from minikernel.model import driver, native
from minikernel.model.weights import weights_of
from minimodel.model_config import MiniGPTConfig
from minimodel.torch_minigpt import GrammarMiniGPT

SIZES = MiniGPTConfig(vocab_size=37, block_size=16, n_layer=1)
needs_emulator = pytest.mark.skipif(emulator.COMPILER is None, reason="needs g++")
IDS = torch.arange(16).reshape(1, 16)


class Other(torch.Tensor):
    """A tensor with a meaning of its own."""


@pytest.fixture(scope="module")
def extension():
    pytest.importorskip("ninja")
    return native.build()


@pytest.fixture
def gpu(monkeypatch, extension):
    made = EmulatedGpu(monkeypatch)
    made.serve(extension)
    monkeypatch.setattr(native, "extension", lambda: extension)
    monkeypatch.setattr(native, "again", extension.again)
    return made


def called(ids=IDS):
    """A model that was called."""
    model = GrammarMiniGPT(SIZES).eval()
    minigpt_forward(model, ids, fall_back=False)
    return model


@needs_emulator
def test_what_is_not_plain_is_left_to_python(gpu, extension):
    model = called()
    assert extension.again(model, IDS, False) is not None
    for given in (
        (model, IDS, True),  # not launched yet
        (model, IDS.int(), False),
        (model, IDS.T, False),
        (model, IDS[0], False),
        (model, IDS[:, ::2], False),
        (model, IDS.tolist(), False),
        (model, IDS.as_subclass(Other), False),
        (model, IDS, 0),
        (model, IDS),
        (GrammarMiniGPT(SIZES), IDS, False),
    ):
        assert extension.again(*given) is None


@needs_emulator
def test_modes_that_watch_torch_see_what_they_saw(gpu, extension):
    class Watching(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    model = called()
    for mode in (Watching(), FakeTensorMode(allow_non_fake_inputs=True)):
        with mode:
            assert extension.again(model, IDS, False) is None
    with torch.autocast("cpu"):
        assert extension.again(model, IDS, False).dtype == torch.float32
    for again in (native.in_python, extension.again):
        with torch.inference_mode():
            assert again(model, IDS, False).is_inference()
        with torch.enable_grad():
            made = again(model, IDS, False)
        assert not made.requires_grad
        assert not made.is_inference()


@needs_emulator
def test_a_model_at_a_dead_ones_address_is_another(gpu, extension):
    model = called()
    address = id(model)
    del model
    gc.collect()
    holding = []
    for _ in range(100):  # until one lies there
        holding.append(GrammarMiniGPT(SIZES))
        assert extension.again(holding[-1], IDS, False) is None
        if id(holding[-1]) == address:
            break


@needs_emulator
def test_more_shapes_than_are_kept_are_all_right(gpu, extension):
    model = called()
    shapes = [(batch, time) for batch in (1, 2, 3) for time in range(1, 14)]
    made = [minigpt_forward(model, torch.zeros(shape, dtype=torch.int64), fall_back=False) for shape in shapes]
    for shape, before in zip(shapes, made, strict=True):
        assert minigpt_forward(model, torch.zeros(shape, dtype=torch.int64), fall_back=False).equal(before), shape
    assert extension.again(model, torch.zeros(shapes[-1], dtype=torch.int64), False) is not None


@needs_emulator
def test_a_launch_that_the_driver_refuses_is_pythons_to_report(gpu):
    model = called()
    gpu.refusals = [1, 1]
    with pytest.raises(RuntimeError, match="refuses the launch of a kernel: CUDA_ERROR_INVALID_VALUE"):
        minigpt_forward(model, IDS, fall_back=False)
    gpu.refusals = [1]
    assert minigpt_forward(model, IDS, fall_back=False).isfinite().all()


@needs_emulator
def test_a_captured_launch_is_noted(gpu, extension):
    model = called()
    assert not weights_of(model).in_graphs
    gpu.capturing = True
    extension.again(model, IDS, False)
    assert weights_of(model).in_graphs


@needs_emulator
def test_it_is_built_once_and_takes_further_calls_over(monkeypatch):
    class Library:
        cuLaunchKernel = cuStreamIsCapturing = ctypes.CFUNCTYPE(None)()

    class Made:
        again, used = object(), []

        @classmethod
        def use_driver(cls, *pointers):
            cls.used.append(pointers)

    monkeypatch.setattr(native, "build", lambda: Made)
    monkeypatch.setattr(native, "library", lambda: Library)
    native.extension.cache_clear()
    try:
        assert native.extension() is native.extension() is Made
        assert native.again is Made.again
        assert len(Made.used) == 1
    finally:
        native.extension.cache_clear()
        native.again = native.in_python


def test_without_a_compiler_every_call_goes_through_python(monkeypatch, caplog):
    def refuse():
        raise RuntimeError("no C++ compiler\nsecond line")

    monkeypatch.setattr(native, "build", refuse)
    native.extension.cache_clear()
    try:
        with caplog.at_level(logging.WARNING):
            assert native.extension() is native.extension() is None
        assert [record.getMessage() for record in caplog.records] == [
            "minikernel.minigpt_forward launches through Python, slower on the host: no C++ compiler"
        ]
        assert native.again is native.in_python
    finally:
        native.extension.cache_clear()


@needs_emulator
def test_a_launchs_fields_are_its_arguments_bits():
    class Function:
        ptr = 9

    made = driver.Launch(Function, 0, 12, 96, 64, [1000, 2**40], [0, ctypes.c_int(-1), ctypes.c_float(1.0)])
    assert made.fields == (9, 12, 96, 64, [1000, 2**40], [0, 0xFFFFFFFF, 0x3F800000])
