"""Measurements that are quickly made: what they are is tested, and not how long they take."""

import pytest

from minikernel.measure import ceilings, timing
from minikernel.measure.contest import contest


@pytest.fixture(autouse=True)
def small_cache(monkeypatch: pytest.MonkeyPatch):
    """Let a CPU's largest cache count as a megabyte, which inputs soon exceed three times; a GPU's is what it is."""
    whole = timing.last_level_cache_bytes

    def small(device):
        return 1 << 20 if device.type == "cpu" else whole(device)

    for module in (timing, ceilings, contest):
        monkeypatch.setattr(module, "last_level_cache_bytes", small)
