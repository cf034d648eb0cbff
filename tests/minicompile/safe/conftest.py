"""A compiler that is warm: each trial is a fork of this process, and begins with what this process has imported."""

import gc

import pytest
from safe_models import FAST

from minicompile.safe.smoketest import smoketest
from minicompile.safe.smoketest.apart import why_not


@pytest.fixture(scope="session", autouse=True)
def warm_compiler():
    """Compile a line with Inductor, forward and backward, in this process and without threads.

    A trial would otherwise import the compiler, register its patterns and hash its headers, in each fork anew.
    """
    import torch

    with torch._inductor.config.patch(compile_threads=1):
        torch.compile(lambda x: x.sin() + 1, options=FAST)(torch.ones(8, requires_grad=True)).sum().backward()
    torch.compiler.reset()
    gc.collect()
    gc.freeze()  # what a fork's collector looked through, it would copy


@pytest.fixture(params=["apart", "in place"])
def place(request, monkeypatch) -> str:
    """Where the smoketest takes its steps: in a copy of the process, or in this one."""
    if request.param == "in place":
        monkeypatch.setattr(smoketest, "why_not", lambda tensors: "the test asks for it")
    elif why_not() is not None:
        pytest.skip(why_not())
    return request.param
