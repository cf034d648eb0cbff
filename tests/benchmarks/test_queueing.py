"""Waiting for a GPU: the formula against the textbook's and against a queue that is played through."""

import heapq
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from queueing import last_start, mean_wait

from minilab import LabError


@given(service=st.floats(0.1, 100), load=st.floats(0, 0.99))
def test_one_gpu_is_an_m_d_1_queue(service: float, load: float):
    assert mean_wait(service, load) == pytest.approx(load * service / (2 * (1 - load)))


def played_through(service: float, load: float, gpus: int, jobs: int = 40_000) -> float:
    draw = random.Random(0)
    free, now, waited = [0.0] * gpus, 0.0, 0.0
    for _ in range(jobs):
        now += draw.expovariate(load * gpus / service)
        start = max(now, free[0])
        heapq.heapreplace(free, start + service)
        waited += start - now
    return waited / jobs


@pytest.mark.parametrize(("load", "gpus"), [(0.5, 1), (0.8, 1), (0.8, 4)])
def test_the_formula_agrees_with_a_queue_that_is_played_through(load: float, gpus: int):
    assert mean_wait(2.0, load, gpus) == pytest.approx(played_through(2.0, load, gpus), rel=0.15)


@pytest.mark.parametrize("load", [1, 1.5, -0.1])
def test_an_overloaded_queue_has_no_mean(load: float):
    with pytest.raises(LabError, match="grows without end"):
        mean_wait(1.0, load)


@pytest.mark.parametrize(("gpus", "start"), [(1, 98), (4, 24), (50, 0)])
def test_when_the_last_of_a_class_starts(gpus: int, start: float):
    assert last_start(2, 50, gpus) == start


def test_the_documentation_has_these_figures():
    page = (Path(__file__).parents[2] / "docs/cluster.md").read_text()
    rows = re.findall(r"^\| (\d+)% \| (.*) \|$", page, re.M)
    assert len(rows) == 6
    for percent, cells in rows:
        load = int(percent) / 100
        expected = [number for job in (1, 2, 12) for number in (60 * load / job, mean_wait(job, load))]
        assert [float(cell) for cell in cells.split(" | ")] == pytest.approx(expected, abs=0.051)
