"""A CPU that stands for a GPU: what is launched through the driver is run by the emulator, on torch's CPU tensors."""

import contextlib
import ctypes
import gc
from ctypes import c_void_p

import numpy as np
import torch
from emulator import Kernel, KernelError

from minikernel.model import driver, nvrtc, weights
from minikernel.model.generate import launch
from minikernel.ops import softmax_cuda

NUMBER, STREAM = -1, 7  # of the device of CPU tensors, as torch has it
CLUSTERS = {"forward_cluster": 4, "write_text": 8}
NUMPY = {torch.bfloat16: torch.uint16}


class EmulatedGpu:
    """The driver's library, and CuPy's handles of what it launches.

    Attributes:
        launched: the expression and the grid of each launch, in order.
        refusals: statuses that the next launches return instead of running.
        capturing: whether torch says that the current stream is being captured.
    """

    def __init__(self, monkeypatch):
        self.launched, self.refusals, self.capturing, self.stream = [], [], False, STREAM
        self._kernels = {}

        def cooperative(number, grid, *given):
            # all its blocks run at once, as an emulated cluster's do
            kernel, _ = self._kernels[number]
            self._kernels[number] = kernel, grid
            return self.cuLaunchKernel(number, grid, *given, None)

        def extended(config, number, addresses, extra):
            # a graph of the training: blocks wait for those of the same launch
            of = config._obj
            return cooperative(number, *of.grid, *of.block, of.shared_bytes, of.stream, addresses)

        self.cuLaunchCooperativeKernel, self.cuLaunchKernelEx = cooperative, extended
        monkeypatch.setattr(driver, "library", lambda: self)
        monkeypatch.setattr(weights, "_check_place", lambda dtype, device: None)
        monkeypatch.setattr(launch, "check_takes", lambda model: None)
        monkeypatch.setattr(nvrtc, "compiled", self._compiled)
        monkeypatch.setattr(softmax_cuda, "multiprocessors", lambda device: 132)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: NUMBER)
        monkeypatch.setattr(torch.cuda, "device", lambda number: contextlib.nullcontext())
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: self.capturing)
        monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: STREAM, raising=False)

    def compiled_with(self, defines, path, expression, device):
        """A kernel whose source has some lines before it."""
        return self._compiled(path, expression, device, defines)

    def _compiled(self, path, expression, device, before=""):
        assert device == NUMBER
        number = len(self._kernels) + 1
        cluster = next((size for name, size in CLUSTERS.items() if expression.startswith(name)), None)
        self._kernels[number] = Kernel(before + nvrtc.source(path), expression), cluster

        class Function:
            ptr = number

        return Function

    def cuLaunchKernel(self, number, grid, y, z, threads, v, w, shared_bytes, stream, addresses, extra):
        """Run the kernel to its end."""
        assert (y, z, v, w, extra) == (1, 1, 1, 1, None)
        assert stream == self.stream
        if self.refusals:
            return self.refusals.pop(0)
        kernel, cluster = self._kernels[number]
        self.launched.append((kernel.expression, grid))
        kernel.launch(grid, threads, self._arguments(kernel, addresses), shared_bytes=shared_bytes, cluster=cluster)
        return 0

    def serve(self, extension):
        """Run what the C++ of minigpt_forward launches too; its tensors are a CPU's, which has no stream."""

        def launch(*given):
            self.stream = None
            try:
                return self.cuLaunchKernel(*given)
            except KernelError:
                return 1  # what C++ calls cannot raise; Python launches it once more, and does
            finally:
                self.stream = STREAM

        def is_capturing(stream, answer):
            answer[0] = self.capturing
            return 0

        unsigned, pointer = [ctypes.c_uint] * 7, ctypes.POINTER(ctypes.c_int)
        self._calls = (
            ctypes.CFUNCTYPE(ctypes.c_int, c_void_p, *unsigned, *[c_void_p] * 3)(launch),
            ctypes.CFUNCTYPE(ctypes.c_int, c_void_p, pointer)(is_capturing),
        )
        extension.use_driver(*(ctypes.cast(call, c_void_p).value for call in self._calls))

    def cuGetErrorName(self, status, name):
        """Name a status as the driver does."""
        name._obj.value = {1: b"CUDA_ERROR_INVALID_VALUE"}[status]
        return 0

    @staticmethod
    def _arguments(kernel, addresses):
        """The values at the addresses: tensors for pointers, as NumPy's arrays, and scalars."""
        tensors = [each for each in gc.get_objects() if type(each) is torch.Tensor and each.is_contiguous()]
        tensors = [each for each in tensors if torch._C._has_storage(each)]  # other tests may have left some without
        tensors = {each.data_ptr(): each for each in sorted(tensors, key=torch.Tensor.numel)}  # of views the largest
        found = []
        for address, size in zip((c_void_p * len(kernel.sizes)).from_address(addresses), kernel.sizes, strict=True):
            value = np.frombuffer(ctypes.string_at(address, size), {4: np.int32, 8: np.uint64}[size])[0]
            tensor = tensors.get(int(value)) if size == 8 else None
            found.append(
                value if tensor is None else tensor.detach().view(NUMPY.get(tensor.dtype, tensor.dtype)).numpy()
            )
        return found
