"""Kernels' processes that begin at once: forks of one that has imported what each would take seconds to import."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from minikernel.judge import client
from minikernel.judge.starting import WAITING
from minilab.sandbox.forks import Forked, ForkServer
from minilab.sandbox.process import Confined

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def server() -> Iterator[ForkServer]:
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    with ForkServer("forked_worker:main", {**WAITING, "PYTHONPATH": path}) as server:
        yield server


@pytest.fixture(scope="session")
def forks(server: ForkServer) -> Callable[..., Confined]:
    """What forks a kernel's process where the lab would start an interpreter; limits and pipes are the same.

    What asks for Triton's interpreter is started, because Triton looks for it when it is imported.
    """

    def process(command: Sequence[str], memory_bytes: int, environment: dict, keep: Sequence[int], output: int):
        if environment.get("TRITON_INTERPRET") == "1":
            return Confined(command, memory_bytes, environment, keep, output)
        return Forked(server, command[-1:], memory_bytes, keep)

    return process


@pytest.fixture(scope="module")
def forked(forks: Callable[..., Confined]) -> Iterator[None]:
    """Processes of kernels are forked in all tests of the module; test_client.py starts interpreters too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "Confined", forks)
        yield
