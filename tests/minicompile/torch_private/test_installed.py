"""A torch that nobody tried the lab with installs beside it, and is named once; one that cannot do is refused."""

import logging

import pytest
import torch

from minicompile.torch_private import installed
from minicompile.torch_private.names import MINORS
from minilab import LabError


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch):
    """As in a process in which nothing has been said yet."""
    installed.begin.cache_clear()
    yield
    monkeypatch.undo()
    installed.begin.cache_clear()


@pytest.mark.parametrize("version", ["2.11.0", "2.13.0+cu130", f"{MINORS[-1]}.3", torch.__version__])
def test_of_a_torch_that_was_tried_nothing_is_said(version: str):
    assert installed.untried(version) is None


@pytest.mark.parametrize("version", ["2.99.0", "2.100.0.dev20270101+cpu", "2.99.0a0+git1234567", "3.0.0", "10.1rc1"])
def test_a_newer_torch_is_named(version: str):
    assert installed.untried(version).startswith(f"torch {version} is newer than any that the lab was tried with (2.11")


@pytest.mark.parametrize("version", ["2.10.1", "2.9.0+cpu", "1.13.1"])
def test_one_that_is_too_old_is_refused(version: str):
    with pytest.raises(LabError, match=r"too old for the lab; install 2\.11 or a newer one"):
        installed.untried(version)


def test_it_is_said_once_a_process(monkeypatch, caplog, anew):
    monkeypatch.setattr(torch, "__version__", "2.99.0")
    for _ in range(2):
        installed.begin()
    assert [record.getMessage().split(" is")[0] for record in caplog.records] == ["torch 2.99.0"]


def test_of_torchs_warnings_about_extensions_one_alone_is_left_out(caplog, anew):
    installed.begin()
    logger = logging.getLogger("torch.utils.cpp_extension")
    logger.warning("No CUDA runtime is found, using CUDA_HOME='%s'", "/usr/local")
    logger.warning("There is no g++ version bounds defined for CUDA version %s", "13.0")
    assert [record.getMessage()[:8] for record in caplog.records if record.name == logger.name] == ["There is"]
