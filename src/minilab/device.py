"""Find the hardware of this machine and name it by the slugs that results carry in their paths.

A slug is the hardware's own name in lower case: `cpu-amd-epyc`, `h200`, `geforce-rtx-4090`. Nothing
heavy is imported, because Snakemake asks at parse time, on laptops and on login nodes.
"""

import logging
import os
import platform
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from minilab.errors import LabError

OF_ONE_SIZE = {"h100-80gb": "h100"}  # with another size it is another board: H100 PCIe, H100 NVL, H100 96GB
NVIDIA_FACTS = (
    "name",
    "driver_version",
    "compute_cap",
    "memory.total",
    "clocks.sm",
    "clocks.mem",
    "clocks.max.sm",
)


def short_name(name: str) -> str:
    """Shorten a hardware name by the words that carry no information: `Intel Xeon` for `Intel(R) Xeon(R) Processor`."""
    return " ".join(re.sub(r"\((R|TM|C)\)|\bCPU\b|\bProcessor\b|@.*|\b\d+-Core\b", " ", name, flags=re.I).split())


def slug(name: str) -> str:
    """Make the slug of a hardware name: its short name without NVIDIA's, in lower case, with hyphens.

    The kind of memory is left out, and its size where the board comes with one alone: `h100` for
    `NVIDIA H100 80GB HBM3`, and `a100-sxm4-40gb` beside `a100-sxm4-80gb`.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", re.sub(r"^NVIDIA\b", "", short_name(name)).lower()).strip("-")
    plain = re.sub(r"-hbm\d\w*", "", plain)
    return OF_ONE_SIZE.get(plain, plain)


def called_today(device: str) -> str:
    """The slug of a device that a configuration or a record names, perhaps with the kind of its memory, as once."""
    return device if is_cpu(device) else slug(device)


def is_cpu(device: str) -> bool:
    """Tell whether a slug names a CPU."""
    return device.startswith("cpu-")


def cpu_name() -> str:
    """Read the CPU's model name as its maker writes it."""
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    except OSError:
        match = None
    return match[1].strip() if match else platform.processor() or platform.machine()


@cache
def gpu_names() -> tuple[str, ...]:
    """List the names of this machine's NVIDIA GPUs, in the driver's order; empty on a machine without one.

    The driver's files are read first (well under a millisecond); `nvidia-smi` is asked only where a
    container shows the device but not those files.
    """
    if not Path("/dev/nvidiactl").exists():
        return ()
    driver_files = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    models = [re.search(r"^Model:\s*(.+)$", file.read_text(encoding="utf-8"), re.M) for file in driver_files]
    if models and all(models):
        return tuple(model[1].strip() for model in models if model)
    return tuple(facts["name"] for facts in nvidia_smi())


def nvidia_smi() -> list[dict[str, str]]:
    """Ask `nvidia-smi` for the `NVIDIA_FACTS` of each GPU; empty where it is absent or fails."""
    if not shutil.which("nvidia-smi"):
        return []
    query = ["nvidia-smi", f"--query-gpu={','.join(NVIDIA_FACTS)}", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True)
    if answer.returncode:
        return []
    return [dict(zip(NVIDIA_FACTS, line.split(", "), strict=True)) for line in answer.stdout.splitlines()]


def cpu_device() -> str:
    """Return the slug of this machine's CPU."""
    return "cpu-" + slug(cpu_name())


def gpu_devices() -> list[str]:
    """List the slugs of this machine's GPUs, each once, in the driver's order."""
    return list(dict.fromkeys(slug(name) for name in gpu_names()))


def devices_here() -> list[str]:
    """List every slug that this machine can measure: its GPUs, then its CPU."""
    return [*gpu_devices(), cpu_device()]


def torch_device(device: str) -> str:
    """Return the torch device string (`cpu`, `cuda:0`, ...) of the hardware that a slug names.

    Raises:
        LabError: that hardware is not in this machine.
    """
    if device == cpu_device():
        return "cpu"
    slugs = [slug(name) for name in gpu_names()]
    if device in slugs:
        return f"cuda:{slugs.index(device)}"
    raise LabError(
        f"device {device} is not in this machine, which has {', '.join(devices_here())}; "
        f"run this on a machine that has it."
    )


def cpp_compiler() -> str:
    """The C++ compiler that torch.compile asks, and so does the lab: $CXX, or g++; whether it is here or not."""
    return os.environ.get("CXX", "g++")


def has_cpp_compiler() -> bool:
    """Whether C++ can be built here: torch.compile's kernels, and the lab's own for a CPU."""
    return shutil.which(cpp_compiler()) is not None


def do_without_cuda() -> None:
    """Leave out what torch's CUDA build warns of in each process that compiles, without a GPU: it changes nothing."""
    logging.getLogger("torch.utils.cpp_extension").addFilter(_is_worth_saying)


def _is_worth_saying(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("No CUDA runtime is found")


def usable_cores() -> int:
    """Count the cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def hardware(device: str) -> dict:
    """Collect facts about the hardware behind a slug for its provenance; `gpu` is None for a CPU."""
    gpu = None if is_cpu(device) else next((facts for facts in nvidia_smi() if slug(facts["name"]) == device), None)
    return {"cpu": cpu_name(), "cores": usable_cores(), "system": platform.platform(), "gpu": gpu}
