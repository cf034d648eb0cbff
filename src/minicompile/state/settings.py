"""Settings of torch's, of the process or the thread, that a call may leave changed: read, and put back."""

from collections.abc import Callable
from typing import Any

import torch


def _autocast(device: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    def write(value: tuple[bool, torch.dtype]) -> None:
        torch.set_autocast_enabled(device, value[0])
        torch.set_autocast_dtype(device, value[1])

    return lambda: (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)), write


def _set_device(device: torch.device) -> None:
    torch.set_default_device(None if device == torch.device("cpu") else device)  # a device that is set costs each call


SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {  # by what it is, how it is read and set
    "whether gradients are recorded": (torch.is_grad_enabled, torch.set_grad_enabled),
    "whether autograd looks for anomalies": (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "torch's default device": (torch.get_default_device, _set_device),
    "autocast on the CPU": _autocast("cpu"),
    "autocast on the GPU": _autocast("cuda"),
    "whether algorithms are deterministic": (
        lambda: (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
        lambda value: torch.use_deterministic_algorithms(value[0], warn_only=value[1]),
    ),
    "the precision of float32 products": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
}


class Settings:
    """Torch's settings at one moment."""

    def __init__(self) -> None:
        self.then = {name: read() for name, (read, _) in SETTINGS.items()}

    def restore(self) -> None:
        """Set those that are others now."""
        for name, (read, write) in SETTINGS.items():
            if read() != self.then[name]:
                write(self.then[name])
