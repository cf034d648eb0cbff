"""What a fresh result costs on a CPU: measured with its page faults, and told as what follows from the samples."""

import pytest

from minikernel.measure.cpu.allocation import Calls, allocation, measure
from minilab.config import check_schema, read_schema

WAYS = {"copy", "fresh_copy", "softmax", "fresh_softmax"}


def calls(us: float, faults: int) -> Calls:
    return Calls([us, us + 2.0, us - 2.0], [faults, faults + 1, max(0, faults - 1)])


def test_each_way_is_timed_in_turn_and_a_large_fresh_result_faults():
    rows, cols = 4096, 4096  # 64 MB, more than any allocator keeps
    found = allocation(rows, cols, measure(rows, cols, rounds=2, seconds=60))
    assert set(found["ways"]) == WAYS
    assert all(len(way["samples_us"]) == 2 for way in found["ways"].values())
    assert found["ways"]["copy"]["page_faults"] < found["ways"]["fresh_copy"]["page_faults"]


def test_time_is_limited_but_one_round_counts():
    timed = measure(8, 8, rounds=1000, seconds=0)
    assert {len(one.samples_us) for one in timed.values()} == {1}


def test_a_page_fault_costs_what_the_two_copies_differ_by():
    made = {"copy": calls(100.0, 0), "fresh_copy": calls(500.0, 200)} | dict.fromkeys(
        ("softmax", "fresh_softmax"), calls(9.0, 0)
    )
    found = allocation(512, 600, made)
    assert found["page_fault_us"] == pytest.approx(2.0)
    check_schema({"provenance": {}, **found}, read_schema("schemas/allocation.schema.yaml"), "allocation.json")


@pytest.mark.parametrize("fresh", [calls(500.0, 0), calls(90.0, 200)])
def test_without_more_faults_or_more_time_a_page_fault_has_no_price(fresh: Calls):
    made = {"copy": calls(100.0, 0), "fresh_copy": fresh} | dict.fromkeys(("softmax", "fresh_softmax"), calls(9.0, 0))
    assert allocation(512, 600, made)["page_fault_us"] is None
