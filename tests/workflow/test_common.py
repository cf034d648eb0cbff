"""The workflow's helper functions, as plain Python."""

import re
from pathlib import Path

import pytest
import yaml
from lab import ROOT


class WorkflowError(Exception):
    """Stands in for Snakemake's."""


@pytest.fixture
def common(monkeypatch: pytest.MonkeyPatch) -> dict:
    monkeypatch.chdir(ROOT)
    namespace = {"WorkflowError": WorkflowError}
    exec((ROOT / "rules/common.smk").read_text(), namespace)
    return namespace


@pytest.fixture
def config() -> dict:
    return yaml.safe_load((ROOT / "config.yaml").read_text())


def test_measured_and_recorded_devices_never_overlap(common: dict, config: dict):
    config["devices"] = {"measure": ["h200", "cpu-x"], "recorded": ["h200", "a100"]}
    assert common["measured_devices"](config) == ["h200", "cpu-x"]
    assert common["recorded_devices"](config) == ["a100"]


def test_a_cluster_is_told_its_devices(common: dict, config: dict):
    with pytest.raises(WorkflowError, match="name the devices"):
        common["measured_devices"](config, elsewhere=True)
    config["devices"]["measure"] = ["h200"]
    assert common["measured_devices"](config, elsewhere=True) == ["h200"]


def test_no_device_matches_nothing(common: dict):
    assert not re.fullmatch(common["any_of"]([]), "")
    assert not re.fullmatch(common["any_of"]([]), "h200")


def test_recorded_devices_are_found(common: dict, config: dict):
    config["devices"]["measure"] = ["cpu-x"]
    assert common["recorded_devices"](config) == ["h200"]


def test_every_path_has_one_producer(common: dict):
    here, elsewhere = common["any_of"](["h200", "cpu-x"]), common["none_of"](["h200", "cpu-x"])
    for device in ("h200", "cpu-x", "h2000", "a100", "cpu-xy"):
        path = f"results/24/{device}/bench.json"
        matches = [
            re.fullmatch(f"results/24/(?P<device>{pattern})/bench\\.json", path) for pattern in (here, elsewhere)
        ]
        assert sum(map(bool, matches)) == 1, device


def test_what_is_published(common: dict, config: dict):
    config["devices"]["measure"] = ["h200", "cpu-x"]
    assert common["published_devices"](config) == ["h200"]
    config["devices"]["measure"] = ["cpu-x"]
    with pytest.raises(WorkflowError, match="nothing to record"):
        common["published_devices"](config)


def test_kernel_files_name_all_that_decides_a_kernel(common: dict, config: dict):
    for kernel, headers in {"smem": ["common"], "fused": ["common", "parts"]}.items():
        assert common["kernel_files"](config, kernel) == [
            f"src/minikernel/ops/cuda/{kernel}.cu",
            *(f"src/minikernel/ops/cuda/{name}.cuh" for name in headers),
            "src/minikernel/ops/softmax_cuda.py",
        ]
    triton = ["src/minikernel/ops/softmax_triton.py", "src/minikernel/ops/softmax_triton_configs.py"]
    assert common["kernel_files"](config, "triton") == triton
    assert common["kernel_files"](config, "F.softmax") == []
    assert all(
        Path(ROOT, file).exists() for kernel in config["kernels"] for file in common["kernel_files"](config, kernel)
    )


def test_timed_kernels_by_device(common: dict, config: dict, monkeypatch: pytest.MonkeyPatch):
    assert common["timed_kernels"](config, "h200") == ["naive", "smem", "fused", "triton", "F.softmax", "compile"]
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert common["timed_kernels"](config, "cpu-x") == ["numpy", "F.softmax"]


def test_measuring_params_follow_their_knobs_alone(common: dict, config: dict):
    params = common["measuring_params"]
    before = {name: params(config, name, "h200", "fused") for name in common["ARTEFACTS"]}
    config["bench"]["cuda"]["launches"] = 200
    after = {name: params(config, name, "h200", "fused") for name in common["ARTEFACTS"]}
    assert [name for name in before if before[name] != after[name]] == ["bench"]


def test_a_contest_is_published_of_a_gpu_alone(common: dict):
    assert common["artefacts_of"]("h200") == ["autotune", "bench", "ceilings", "contest", "kernel_swap"]
    assert common["artefacts_of"]("cpu-x") == ["bench", "ceilings", "kernel_swap"]


def test_a_users_kernel_has_a_time_limit_and_the_labs_own_have_none(common: dict, config: dict):
    config["kernels"]["mine"] = {"source": "my_kernels/softmax_mine.py", "function": "softmax"}
    assert common["time_limit"](config, "proof", "mine") == config["proof"]["time_limit_seconds"]
    assert [common["time_limit"](config, "bench", kernel) for kernel in ("fused", "triton", "F.softmax")] == [None] * 3
