"""Several GPUs and streams: the training runs where the model is, on torch's current stream there, and leaves the
current device as it was. Here the emulator is the second GPU; where there are two real ones they are asked too.
"""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from trained_in_one import BLOCKS, flat, model_of, on_torch, text

from minikernel.model import nvrtc
from minikernel.model.train import launch
from minikernel.ops import softmax_cuda
from minilab import LabError

two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
STREAMS = {0: 70, 1: 71}
WAYS = [launch.ONE, launch.GRAPH]
PHASES = [(2, 2, 16)]


@pytest.fixture
def second(gpu, monkeypatch):
    """The emulator as the second of two GPUs; a list with the current device, 0, and then that of each launch."""
    devices = [0]

    @contextlib.contextmanager
    def current(number):
        before, devices[0] = devices[0], number
        try:
            yield
        finally:
            devices[0] = before

    def of_second(value):
        """A function of a device's number that knows the second alone."""
        return {1: value}.__getitem__

    def noted(call):
        def asked(*given):
            devices.append(devices[0])
            return call(*given)

        return asked

    for name in ("cuLaunchCooperativeKernel", "cuLaunchKernelEx"):
        monkeypatch.setattr(gpu, name, noted(getattr(gpu, name)))
    gpu.stream, compiled, with_lines = STREAMS[1], nvrtc.compiled, launch.compiled_with
    monkeypatch.setattr(nvrtc, "compiled", lambda *what: compiled(*what[:2], of_second(-1)(what[2])))
    monkeypatch.setattr(launch, "compiled_with", lambda *what: with_lines(*what[:3], of_second(-1)(what[3])))
    monkeypatch.setattr(softmax_cuda, "multiprocessors", of_second(BLOCKS))
    monkeypatch.setattr(softmax_cuda, "largest_shared_bytes", of_second(232448))
    monkeypatch.setattr(launch, "_check_place", lambda model: 1)
    monkeypatch.setattr(torch.Tensor, "get_device", lambda tensor: 1)
    monkeypatch.setattr(torch.cuda, "device", current)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", STREAMS.__getitem__, raising=False)
    return devices


@pytest.mark.parametrize("launches", WAYS)
def test_all_launches_are_on_the_models_device_and_the_current_one_is_left_alone(second, launches):
    launch.train(on_torch(model_of(1, 24, 16)), text(24), PHASES, launches=launches)
    assert second == [0] + [1] * (1 if launches == launch.ONE else 1 + 2 * 3)


@pytest.mark.parametrize("launches", WAYS)
def test_a_timeline_leaves_the_current_device_alone_too(second, monkeypatch, launches):
    monkeypatch.setattr(launch, "WATCHED", 1)
    launch.timeline(on_torch(model_of(1, 24, 16)), text(24), 1, 16, launches=launches)
    assert (second[0], set(second[1:])) == (0, {1})


@pytest.mark.parametrize("launches", WAYS)
def test_the_current_device_is_left_alone_where_the_training_fails(second, gpu, launches):
    def report(*_):
        raise KeyboardInterrupt

    for options, error in (({"report": report}, KeyboardInterrupt), ({}, RuntimeError)):
        with pytest.raises(error):
            launch.train(on_torch(model_of(1, 24, 16)), text(24), PHASES, launches=launches, **options)
        assert second[0] == 0
        gpu.refusals.append(1)  # of what comes next


def placed(*numbers):
    """A model whose parameters, the head's weight first, are on these GPUs; nothing is allocated."""
    with FakeTensorMode():
        parameters = [torch.empty(3, device=f"cuda:{number}") for number in numbers]
    return SimpleNamespace(lm_head=SimpleNamespace(weight=parameters[0]), parameters=lambda: parameters)


def test_a_model_is_where_all_its_parameters_are_and_its_own_gpu_must_do(monkeypatch):
    capabilities = {0: (8, 0), 1: (9, 0)}
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capabilities[device.index])
    assert launch._check_place(placed(1)) == 1
    with pytest.raises(LabError, match="all on one GPU"):
        launch._check_place(placed(1, 0))
    with pytest.raises(LabError, match="this GPU is older"):
        launch._check_place(placed(0))


def on_gpu(number):
    return on_torch(model_of(2, 300, 128, spread=0.05)).to(f"cuda:{number}")


@pytest.mark.gpu
@two_gpus
@pytest.mark.parametrize("launches", WAYS)
def test_a_model_on_another_gpu_than_the_current_is_trained_on_its_gpus_current_stream(launches):
    stream, asked = text(300, sentences=400), torch.cuda.Stream(1)
    first, other = on_gpu(0), on_gpu(1)
    launch.train(first, stream, [(30, 4, 32)], launches=launches)
    late = [parameter.detach().clone() for parameter in other.parameters()]
    torch.cuda.synchronize(1)
    with torch.cuda.stream(asked), torch.cuda.device(0):
        with torch.no_grad(), torch.cuda.device(1):
            for parameter in other.parameters():
                parameter.zero_()
            torch.cuda._sleep(100_000_000)  # the weights are back after some 50 ms, on this stream alone
            for parameter, weights in zip(other.parameters(), late, strict=True):
                parameter.copy_(weights)
        launch.train(other, stream, [(30, 4, 32)], launches=launches)
        assert torch.cuda.current_device() == 0
        assert torch.cuda.current_stream(1) == asked
    torch.cuda.synchronize(1)
    assert np.array_equal(flat(first), flat(other))


@pytest.mark.gpu
@two_gpus
@pytest.mark.parametrize("launches", WAYS)
def test_two_gpus_train_side_by_side(launches):
    stream, models = text(300, sentences=400), [on_gpu(0), on_gpu(1)]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda model: launch.train(model, stream, [(300, 4, 32)], launches=launches), models))
    assert torch.cuda.current_device() == 0
    assert np.array_equal(flat(models[0]), flat(models[1]))
