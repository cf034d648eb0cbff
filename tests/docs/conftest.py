"""Each test starts with a compiler that has compiled nothing."""

import pytest


@pytest.fixture
def fresh_compiler():
    """Forget Dynamo's graphs and recompile counts before and after; Inductor's caches on disk stay warm."""
    import torch

    torch.compiler.reset()
    yield
    torch.compiler.reset()
