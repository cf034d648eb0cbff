"""A compiler that is warm: each trial is a fork of this process, and begins with what this process has imported."""

import gc

import pytest
from safe_models import FAST


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
