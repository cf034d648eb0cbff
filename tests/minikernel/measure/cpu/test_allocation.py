"""What calls run into on a CPU: measured with its page faults, and told as what follows from the samples."""

import pytest

from minikernel.measure.cpu import allocation as module
from minikernel.measure.cpu.allocation import Calls, allocation, exponentials, measure, vector_bytes
from minikernel.measure.cpu.counters import COUNTED
from minikernel.ops.ladder.table import LADDERS
from minilab.config.check import check_schema, read_schema
from minilab.device import has_cpp_compiler

WAYS = {"copy", "fresh_copy", "softmax", "fresh_softmax"}
RUNGS = {*LADDERS["C++"], "streaming_copy"} if has_cpp_compiler() else set()
UNCOUNTED = {"cycles": "missing", "cache_misses": "forbidden"}
needs_compiler = pytest.mark.skipif(not has_cpp_compiler(), reason="needs a C++ compiler")


def calls(us: float, faults: int) -> Calls:
    return Calls([us, us + 2.0, us - 2.0], [faults, faults + 1, max(0, faults - 1)], [0.0] * 3, None)


def fits(found: dict) -> None:
    check_schema({"provenance": {}, **found}, read_schema("schemas/allocation.schema.yaml"), "allocation.json")


def test_each_way_is_timed_in_turn_and_a_large_fresh_result_faults():
    rows, cols = 4096, 4096  # 64 MB, more than any allocator keeps
    timed, counted = measure(rows, cols, rounds=2, seconds=60)
    found = allocation(rows, cols, timed, counted)
    assert set(found["ways"]) == WAYS | RUNGS
    assert all(len(way["samples_us"]) == 2 for way in found["ways"].values())
    faults = {name: way["page_faults"] for name, way in found["ways"].items()}
    assert faults["copy"] < faults["fresh_copy"]
    if RUNGS:
        assert faults["streaming"] < faults["threads"] / 100  # whose memory is used again
    fits(found)


def test_time_is_limited_but_one_round_counts():
    timed, _ = measure(8, 8, rounds=1000, seconds=0)
    assert {len(one.samples_us) for one in timed.values()} == {1}


def test_without_a_compiler_the_rungs_are_left_out_and_the_rest_is_measured(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    timed, counted = measure(8, 8, rounds=1)
    assert set(timed) == WAYS
    assert exponentials() is None
    found = allocation(8, 8, timed, counted, exponentials())
    assert found["exponential"] is None
    assert found["build"] is None
    fits(found)


@needs_compiler
def test_the_vectors_exponential_takes_less_than_the_librarys_and_both_take_cycles():
    found = allocation(8, 8, *measure(8, 8, rounds=1), exponentials())
    of = found["exponential"]["of"]
    assert 0 < of["vector"]["cycles"] < of["libm"]["cycles"]
    assert 0.3 < found["exponential"]["clock_ghz"] < 8
    assert found["build"]["vector_bytes"] == vector_bytes() >= 16
    fits(found)


@needs_compiler
def test_cycles_are_the_processors_own_where_it_counts_them(monkeypatch: pytest.MonkeyPatch):
    class Counting:
        state = dict.fromkeys(UNCOUNTED, COUNTED)

        def __init__(self):
            self.cycles = 0

        def read(self):
            self.cycles += 3 * module.COUNT * module.PASSES
            return {"cycles": self.cycles, "cache_misses": 7}

        def __enter__(self):
            return self

        def __exit__(self, *raised):
            return None

    monkeypatch.setattr(module, "counting", Counting)
    timed, state = measure(8, 8, rounds=2)
    assert timed["copy"].cache_misses == [0, 0]
    found = allocation(8, 8, timed, state, exponentials())
    assert found["exponential"]["cycles_counted"] is True
    assert {one["cycles"] for one in found["exponential"]["of"].values()} == {3.0}
    fits(found)


def test_a_page_fault_costs_what_the_two_copies_differ_by():
    made = {"copy": calls(100.0, 0), "fresh_copy": calls(500.0, 200)} | dict.fromkeys(
        ("softmax", "fresh_softmax"), calls(9.0, 0)
    )
    found = allocation(512, 600, made, UNCOUNTED)
    assert found["page_fault_us"] == pytest.approx(2.0)
    fits(found)


@pytest.mark.parametrize("fresh", [calls(500.0, 0), calls(90.0, 200)])
def test_without_more_faults_or_more_time_a_page_fault_has_no_price(fresh: Calls):
    made = {"copy": calls(100.0, 0), "fresh_copy": fresh} | dict.fromkeys(("softmax", "fresh_softmax"), calls(9.0, 0))
    assert allocation(512, 600, made, UNCOUNTED)["page_fault_us"] is None
