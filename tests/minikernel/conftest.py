"""What rooms of kernels' tests share: a server of learners' processes, and measurements that are quickly made."""

from collections.abc import Iterator

import pytest

from minikernel.exercise.workshop import workshop
from minikernel.judge import bench
from minikernel.judge.client import Workshop
from minikernel.measure import ceilings, timing
from minikernel.measure.contest import contest


@pytest.fixture(scope="session")
def place() -> Iterator[Workshop]:
    """Where learners' processes are forked: its server takes seconds to import what they need."""
    with workshop() as place:
        yield place


@pytest.fixture
def small_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a CPU's largest cache count as a megabyte, which inputs soon exceed three times; a GPU's is what it is.

    What the measurements are is tested, and not how long they take.
    """
    whole = timing.last_level_cache_bytes

    def small(device):
        return 1 << 20 if device.type == "cpu" else whole(device)

    for module in (timing, ceilings, contest, bench):
        monkeypatch.setattr(module, "last_level_cache_bytes", small)
