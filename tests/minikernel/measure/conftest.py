"""Measurements that are quickly made: what they are is tested, and not how long they take."""

import pytest


@pytest.fixture(autouse=True)
def quickly(small_cache: None) -> None:
    """Nothing here is measured on inputs of many megabytes."""
