"""How much more memory a call holds at its peak than before it, on a GPU or on a CPU."""

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path

import torch

MIB = 2**20
STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # as proc(5) has it: the peak of the resident set becomes what is resident now


def peak_mib(call: Callable[[], object], device: torch.device, returned: int) -> float | None:
    """MiB that a call adds to what was there, at its peak, less what it returns.

    On a GPU torch's allocator counts. On a CPU the kernel does: what of the process is resident, which sees memory that
    torch knows nothing of. None where the kernel does not let a process forget its peak.

    Args:
        returned: bytes of the results that the call hands over: its gradients.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        call()
        torch.cuda.synchronize(device)
        return max(0.0, (torch.cuda.max_memory_allocated(device) - before - returned) / MIB)
    # What was freed and lies about in the allocator is given back first: taken again, it would not be seen. So is
    # garbage, which would go during the call and hide as much of what that takes.
    gc.collect()
    if not _trim():
        return None
    try:
        CLEAR_REFS.write_text(RESET_PEAK)
    except OSError:  # a container may forbid it
        return None
    before = _resident("VmRSS")
    call()
    return max(0.0, (_resident("VmHWM") - before - returned) / MIB)


def _trim() -> bool:
    """Have the C library return free memory; whether there is a library that can."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except AttributeError:  # no glibc
        return False
    return STATUS.exists()


def _resident(name: str) -> int:
    """Bytes of one line of the process's status."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024
