"""A kernel launched again: Triton is asked once for what it would compile once, and once more for anything else."""

import types

import pytest
import torch

pytest.importorskip("triton")

from minikernel.ops.linear_cross_entropy.launch import Launch


class Compiled:
    function, packed_metadata = "function", "metadata"

    def __init__(self, launched):
        self.launched = launched

    def run(self, x, y, z, stream, function, metadata, about, enter, exit_, *arguments):
        assert (stream, function, metadata, about, enter, exit_) == (7, "function", "metadata", None, None, None)
        self.launched.append(((x, y, z), arguments))


@pytest.fixture(autouse=True)
def driver(monkeypatch):
    stream = types.SimpleNamespace(get_current_stream=lambda device: 7)
    monkeypatch.setattr("triton.runtime.driver", types.SimpleNamespace(active=stream))


class Kernel:
    """Stands for a Triton kernel: counts how often it is asked, and keeps what its compiled kernels are launched on."""

    arg_names = ("x", "size", "factor", "BLOCK", "FLAG")

    def __init__(self, interpreted=False):
        self.asked, self.launched, self.interpreted = [], [], interpreted

    def __getitem__(self, grid):
        def ask(*arguments, **options):
            self.asked.append((grid, arguments, options))
            return None if self.interpreted else Compiled(self.launched)

        return ask


def test_a_second_call_goes_to_the_compiled_kernel_with_addresses_and_constants_in_their_order():
    kernel, x = Kernel(), torch.zeros(8)
    launch = Launch(kernel, FLAG=True, BLOCK=64, num_warps=4)
    launch((3, 1, 1), x, 5, 0.5)
    launch((9, 2, 1), x, 6, 0.25)
    (grid, arguments, options) = kernel.asked[0]
    assert len(kernel.asked) == 1
    assert (grid, arguments[1:]) == ((3, 1, 1), (5, 0.5))
    assert (options["BLOCK"], options["FLAG"], options["num_warps"]) == (64, True, 4)
    assert kernel.launched == [((9, 2, 1), (x.data_ptr(), 6, 0.25, 64, True))]


@pytest.mark.parametrize(
    ("x", "size"),
    [
        (torch.zeros(8, dtype=torch.bfloat16), 5),  # another dtype
        (torch.zeros(8)[1:], 5),  # 16 does not divide the address: loads are narrower
        (torch.zeros(8), 1 << 31),  # a number of 64 bits
    ],
)
def test_what_triton_would_compile_apart_is_asked_for_again(x, size):
    kernel = Kernel()
    launch = Launch(kernel, BLOCK=64, FLAG=False)
    for _ in range(2):
        launch((1, 1, 1), torch.zeros(8), 5, 0.5)
        launch((1, 1, 1), x, size, 0.5)
    assert len(kernel.asked) == 2
    assert len(kernel.launched) == 2


def test_the_interpreter_is_asked_each_time():
    kernel = Kernel(interpreted=True)
    launch = Launch(kernel, BLOCK=64, FLAG=False)
    for _ in range(3):
        launch((1, 1, 1), torch.zeros(8), 5, 0.5)
    assert len(kernel.asked) == 3
