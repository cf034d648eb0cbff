"""`minicompile doctor`: what it finds on machines of every kind, and what it says to do."""

import sys
from types import SimpleNamespace

import pytest
import torch

from minicompile import command
from minicompile.command import doctor


def diagnosis(capsys) -> dict[str, str]:
    """Part of the lab -> what is said of it."""
    assert command.main(["doctor"]) == 0
    lines = capsys.readouterr().out.split("\n\n")[1].splitlines()
    return dict(line.split(": ", 1) for line in lines)


def part(found: dict[str, str], beginning: str) -> str:
    return next(said for what, said in found.items() if what.startswith(beginning))


@pytest.fixture
def gpu(monkeypatch):
    """A machine with a GPU, and a torch whose build for CUDA reaches it."""
    monkeypatch.setattr(doctor, "gpu_names", lambda: ("NVIDIA A100",))
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 0))


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Makes packages that are installed before all others: name -> what each asks for, and its size in bytes."""

    def install(name: str, *asks: str, size: int = 0) -> None:
        folder = tmp_path / f"{name.replace('-', '_')}-9.9.dist-info"
        folder.mkdir()
        asked = "".join(f"Requires-Dist: {one}\n" for one in asks)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n{asked}")
        (folder / "RECORD").write_text(f"lib.so,sha256=x,{size}\n")

    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return install


def test_the_version_is_the_lab_s_with_torch_s_and_python_s(capsys):
    with pytest.raises(SystemExit) as left:
        command.main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"minicompile {command.version()}\n"
    # a wheel's metadata may leave out what torch adds to its number: +cu130
    assert f"torch {torch.__version__.partition('+')[0]}" in command.version()


def test_what_can_be_done_here_is_told_and_what_is_installed(capsys, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_MAX_AUTOTUNE", "1")
    monkeypatch.setattr(doctor, "gpu_names", lambda: ())
    assert command.main(["doctor"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"minicompile {command.version()}\n")
    assert "\nTORCHINDUCTOR_MAX_AUTOTUNE=1\n" in told
    assert "torch.compile for a GPU (--target cuda): does not work here. No NVIDIA GPU is here.\n" in told
    assert "Triton's code for an H200 that is not here (--target simulated): works\n" in told


def test_what_torch_compile_builds_with_is_tried(capsys, monkeypatch, tmp_path):
    assert part(diagnosis(capsys), "torch.compile for this CPU") == "works"
    monkeypatch.setattr(doctor.sysconfig, "get_path", lambda _: str(tmp_path))
    assert "Python.h, which is not here: apt-get install" in part(diagnosis(capsys), "torch.compile for this CPU")
    broken = tmp_path / "compiler"
    broken.write_text("#!/bin/sh\necho 'x: error: no omp.h' >&2; exit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    assert "does not compile what it writes: x: error: no omp.h." in part(diagnosis(capsys), "torch.compile for this")
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    assert "It needs a C++ compiler" in part(diagnosis(capsys), "torch.compile for this CPU")


def test_a_build_for_cuda_without_a_gpu_is_told_with_its_size_and_the_way_out(capsys, monkeypatch, installed):
    monkeypatch.setattr(doctor, "gpu_names", lambda: ())
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    installed("torch", "nvidia-cublas==9.9; platform_system == 'Linux'", "numpy", "nvidia-absent; extra == 'x'")
    installed("nvidia-cublas", size=2_100_000_000)
    assert command.main(["doctor"]) == 0
    last = capsys.readouterr().out.split("\n\n")[-1]
    assert "is a build for CUDA, and no NVIDIA GPU is here: 2.1 GB of NVIDIA's libraries are there for nothing" in last
    assert f"  pip uninstall -y torch nvidia-cublas && pip install torch --index-url {doctor.CPU_BUILD}\n" in last
    monkeypatch.setattr(torch.version, "cuda", None)
    command.main(["doctor"])
    assert "for nothing" not in capsys.readouterr().out


def test_a_gpu_is_used_where_torch_reaches_it_and_else_it_says_why_not(capsys, monkeypatch, gpu, installed):
    installed("minigpt-lab", "cupy; extra == 'gpu'", "numpy", "torch>=99")
    found = diagnosis(capsys)
    assert part(found, "torch.compile for a GPU") == "works"
    assert (
        part(found, "the lab's kernels on a GPU")
        == "does not work here. It needs cupy: pip install 'minigpt-lab[gpu]'."
    )
    assert "It needs torch>=99 (" in part(found, "the library's packages")
    installed("cupy")
    assert part(diagnosis(capsys), "the lab's kernels on a GPU") == "works"
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))
    assert "compute capability 8.0 and later" in part(diagnosis(capsys), "the lab's kernels on a GPU")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "reaches no GPU; update the driver" in part(diagnosis(capsys), "torch.compile for a GPU")
    monkeypatch.setattr(torch.version, "cuda", None)
    assert "is a build for CPUs; install torch's default" in part(diagnosis(capsys), "torch.compile for a GPU")


def test_a_torch_or_a_triton_that_cannot_be_imported_does_not_end_the_report(capsys, monkeypatch, tmp_path):
    def absent(name: str) -> object:
        raise OSError("libcudart.so: cannot open shared object file\nand more")

    monkeypatch.setattr(doctor, "importlib", SimpleNamespace(import_module=absent))
    monkeypatch.chdir(tmp_path)
    found = diagnosis(capsys)
    sentence = (
        "does not work here. torch cannot be imported (libcudart.so: cannot open shared object file); install it again."
    )
    assert part(found, "torch.compile for this CPU") == sentence
    assert part(found, "torch.compile for a GPU") == sentence
    assert "a clone of the lab" in part(found, "the workflow (snakemake)")


def test_a_lab_that_is_not_installed_says_so(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "PROJECT", "no-such-project")
    assert "on Python's path and not installed" in part(diagnosis(capsys), "the library's packages")
