"""What the tests of exercises share: one server of kernels' processes, which takes seconds to import what they need."""

from collections.abc import Iterator

import pytest

from minikernel.exercise.workshop import workshop
from minikernel.judge.client import Workshop


@pytest.fixture(scope="session")
def place() -> Iterator[Workshop]:
    with workshop() as place:
        yield place
