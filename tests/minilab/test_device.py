"""Slugs of hardware, and the machine's own answer."""

import subprocess
import sys

import pytest

from minilab import LabError, device


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA GeForce RTX 4090", "geforce-rtx-4090"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm4-40gb"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 96GB HBM3", "h100-96gb"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("h100-80gb-hbm3", "h100"),
        ("AMD EPYC", "amd-epyc"),
        ("AMD EPYC 9R14 96-Core Processor", "amd-epyc-9r14"),
        ("Intel(R) Xeon(R) Platinum 8480+ CPU @ 2.00GHz", "intel-xeon-platinum-8480"),
        ("13th Gen Intel(R) Core(TM) i7-1355U", "13th-gen-intel-core-i7-1355u"),
    ],
)
def test_slug(name, slug):
    assert device.slug(name) == slug


def test_devices_here_end_with_the_cpu():
    here = device.devices_here()
    assert here[-1] == device.cpu_device()
    assert device.is_cpu(here[-1])
    assert not any(map(device.is_cpu, here[:-1]))


def test_torch_device_of_the_cpu_and_of_nothing():
    assert device.torch_device(device.cpu_device()) == "cpu"
    with pytest.raises(LabError, match="device z80 is not in this machine"):
        device.torch_device("z80")


def test_gpu_names_are_read_from_the_driver_and_numbered(monkeypatch):
    monkeypatch.setattr(device, "gpu_names", lambda: ("NVIDIA A100-SXM4-80GB", "NVIDIA H200"))
    assert device.torch_device("h200") == "cuda:1"
    assert device.gpu_devices() == ["a100-sxm4-80gb", "h200"]


def test_looking_for_devices_imports_nothing_heavy():
    code = "import sys; from minilab.device import devices_here; devices_here(); print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "numpy", "cupy", "triton"} & set(modules)
