"""The pinned environments are what the lab was measured with, and what is installed where it is tested."""

import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import torch
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def pins(name: str) -> dict[str, str]:
    dependencies = yaml.safe_load((ROOT / f"envs/{name}.yaml").read_text())["dependencies"]
    pip = next(entry["pip"] for entry in dependencies if isinstance(entry, dict))
    return dict(pin.split("==") for pin in pip)


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_pins_lie_within_what_the_package_asks_for(name: str):
    asked = [*PROJECT["tool"]["minigpt-lab"]["dependencies"]]
    asked += [one for extra in ("workflow", "gpu") for one in PROJECT["project"]["optional-dependencies"][extra]]
    pinned = pins(name)
    for requirement in map(Requirement, asked):
        if requirement.name in pinned:
            assert requirement.specifier.contains(pinned[requirement.name]), requirement


def test_a_newer_torch_installs_beside_the_lab():
    """`minicompile` names a torch that it was not tried with; a cap would have a resolver pull a user's torch down."""
    asked = map(Requirement, PROJECT["tool"]["minigpt-lab"]["dependencies"])
    for requirement in asked:
        if requirement.name in ("torch", "triton"):
            assert requirement.specifier.contains("99.0"), requirement


def test_pins_are_what_is_installed():
    name = "gpu" if torch.cuda.is_available() else "cpu"
    installed = {package: metadata.version(package).split("+")[0] for package in ("torch", "triton")}
    wanted = pins(name)
    assert installed == {package: wanted[package] for package in installed}


def test_the_record_was_measured_with_the_gpu_pins():
    from minilab.files import read_json

    versions = read_json(ROOT / "results/recorded/h200/24/bench.json")["provenance"]["versions"]
    wanted = pins("gpu")
    wanted["cupy"] = wanted.pop("cupy-cuda13x")
    common = versions.keys() & wanted.keys()
    assert {"torch", "triton", "cupy", "numpy", "snakemake"} <= common
    assert {name: versions[name] for name in common} == {name: wanted[name] for name in common}
