"""Runs the lab's CUDA C++ kernels on a CPU, for tests where there is no GPU (`emulator.py` says what it finds)."""

from emulator.emulator import COMPILER, Kernel, KernelError

__all__ = ["COMPILER", "Kernel", "KernelError"]
