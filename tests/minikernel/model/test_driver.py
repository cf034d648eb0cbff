"""A launch that is laid out once: where it goes, what the driver's refusals become, and that threads may share it."""

import ctypes
import threading
from ctypes import c_int, c_void_p

import pytest
import torch

from minikernel.model import driver
from minikernel.model.driver import Launch


class Function:
    ptr = 77


class Library:
    """A driver that notes down what it is given, and the thread's context as the launch needs it."""

    def __init__(self):
        self.launches, self.statuses = [], []

    def cuLaunchKernel(self, *given):
        *sizes, stream, addresses, extra = given
        assert extra is None
        pointers = (c_void_p * 4).from_address(addresses)
        values = [c_void_p.from_address(each).value for each in pointers[:3]]
        self.launches.append((*sizes, stream, *values, c_int.from_address(pointers[3]).value))
        return self.statuses.pop(0) if self.statuses else 0

    def cuGetErrorName(self, status, name):
        name._obj.value = b"CUDA_ERROR_INVALID_VALUE" if status == 1 else None
        return 0 if status == 1 else 1


@pytest.fixture
def library(monkeypatch):
    made = Library()
    monkeypatch.setattr(driver, "library", lambda: made)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: made.current)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda number: 5 + number, raising=False)
    made.current = 1
    return made


def launch():
    return Launch(Function, 1, 12, 96, 1024, [1000], [c_int(-3)])


def test_the_driver_gets_the_arguments_and_torchs_current_stream(library):
    ids, out = torch.zeros(3), torch.zeros(4)
    made = launch()
    for given in ((ids, out), (out, ids)):
        made(*given)
    sizes = (77, 12, 1, 1, 96, 1, 1, 1024, 6, 1000)
    assert library.launches == [
        (*sizes, ids.data_ptr(), out.data_ptr(), -3),
        (*sizes, out.data_ptr(), ids.data_ptr(), -3),
    ]


def test_where_another_gpu_is_current_its_own_is_for_the_launch(library, monkeypatch):
    class Device:
        def __init__(self, number):
            self.number = number

        def __enter__(self):
            self.before, library.current = library.current, self.number

        def __exit__(self, *_):
            library.current = self.before

    monkeypatch.setattr(torch.cuda, "device", Device)
    library.current = 0
    launch()(torch.zeros(1), torch.zeros(1))
    assert len(library.launches) == 1
    assert library.current == 0


def test_a_refused_launch_says_what_the_driver_calls_it(library):
    library.statuses = [1, 999]
    for name in ("CUDA_ERROR_INVALID_VALUE", "an error without a name"):
        with pytest.raises(RuntimeError, match=f"the CUDA driver refuses the launch of a kernel: {name}"):
            launch()(torch.zeros(1), torch.zeros(1))


def test_a_thread_that_has_not_used_the_gpu_gets_torchs_context(library, monkeypatch):
    asked = []

    class Stream:
        def __init__(self, number):
            self.number = number

        def query(self):
            asked.append(self.number)

    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    library.statuses = [driver.INVALID_CONTEXT]
    launch()(torch.zeros(1), torch.zeros(1))
    assert asked == [1]
    assert len(library.launches) == 2


def test_threads_that_share_a_launch_do_not_mix_their_addresses(library):
    made, tensors = launch(), [(torch.zeros(1), torch.zeros(1)) for _ in range(4)]
    threads = [threading.Thread(target=lambda pair=pair: [made(*pair) for _ in range(500)]) for pair in tensors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pairs = {(ids.data_ptr(), out.data_ptr()) for ids, out in tensors}
    assert {each[-3:-1] for each in library.launches} == pairs
    assert len(library.launches) == 2000


def test_the_drivers_types_are_declared(monkeypatch):
    class Function:
        argtypes = None

    class Found:
        cuLaunchKernel, cuGetErrorName = Function(), Function()

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Found if name == "libcuda.so.1" else None)
    driver.library.cache_clear()
    try:
        assert len(driver.library().cuLaunchKernel.argtypes) == 11
    finally:
        driver.library.cache_clear()
