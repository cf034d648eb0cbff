"""Compilers for tests: one that has compiled nothing, and processes that have imported one."""

import sys
from collections.abc import Iterator

import pytest
from forks import forks


@pytest.fixture
def fresh_compiler():
    """Forget Dynamo's graphs and recompile counts before and after; Inductor's caches on disk stay warm."""
    import torch

    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.fixture(scope="module")
def forked_python() -> Iterator[str]:
    """An interpreter whose processes begin with torch imported: `sys.executable` in the module's tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", forks("compiler").python())
        yield sys.executable
