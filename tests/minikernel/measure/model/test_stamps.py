"""From what blocks wrote down to their spans, and from these to what a pass consists of."""

import numpy as np
import pytest

from minikernel.measure.model.stamps import PHASE, blocks_of, parts_of, stamped, tick_ns

RATE = 2000.0  # cycles a microsecond
FIRST = [(7, 1_000_064), (0, 500), (1, 2500), (PHASE + 2, 4500), (2 * PHASE + 2, 5500), (3, 6500), (0, 0)]
SECOND = [(9, 1_001_024), (0, 9), (2, 2009), (2, 4009), (0, 0), (0, 0), (0, 0)]


def stamps(*blocks) -> np.ndarray:
    return np.array(blocks, np.int64)


def test_spans_are_differences_and_neighbours_of_one_code_are_one():
    first, second = blocks_of(stamps(FIRST, SECOND))
    assert first == {
        "sm": 7,
        "start_ns": 0,
        "codes": [1, PHASE + 2, 2 * PHASE + 2, 3],
        "cycles": [2000, 2000, 1000, 1000],
    }
    assert second == {"sm": 9, "start_ns": 960, "codes": [2], "cycles": [4000]}
    assert tick_ns([first, second]) == 960


@pytest.mark.parametrize("wrong", [(4, 3000), (1, 400)])
def test_a_span_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match=f"block 0 has a span of code {wrong[0]} that ends"):
        blocks_of(stamps([*FIRST[:2], wrong]))


def test_what_blocks_did_is_summed_and_what_they_cover_is_counted_once():
    found = stamped(blocks_of(stamps(FIRST, SECOND)), RATE)
    assert found == {
        "blocks": 2,
        "side_by_side": 2,
        "covered_us": pytest.approx(3.0),
        "memory_us": 1.0,
        "arithmetic_us": 1.5 + 2.0,
        "waiting_us": 0.5,
    }


def test_blocks_one_after_the_other_leave_a_gap_that_nothing_covers():
    later = [(7, 1_005_064), *FIRST[1:]]
    found = stamped(blocks_of(stamps(FIRST, later)), RATE)
    assert (found["side_by_side"], found["covered_us"]) == (1, pytest.approx(6.0))


def test_a_block_that_seems_to_begin_a_tick_before_another_has_ended_follows_it():
    first, second = blocks_of(stamps(FIRST, [(7, 1_003_056), *FIRST[1:]]))  # 8 ns before the first one's 3 us are over
    assert stamped([first, second], RATE)["side_by_side"] == 1


def test_parts_add_up_and_who_has_ended_waits():
    found = stamped(blocks_of(stamps(FIRST, SECOND)), RATE)
    parts = parts_of(found, device_us=7.0, floor_us=3.5)
    assert parts["launches_us"] == pytest.approx(4.0)
    # of two blocks' 3 us, 1 is memory and 3.5 arithmetic; the rest waits: 0.5 as it says, 1 not begun yet or ended
    assert [parts[f"{kind}_us"] for kind in ("memory", "arithmetic", "waiting")] == pytest.approx([0.5, 1.75, 0.75])
    assert sum(us for us in parts.values() if us is not None) == pytest.approx(7.0)


def test_a_kernel_that_stamps_slow_leaves_an_empty_launch_its_time():
    found = stamped(blocks_of(stamps(FIRST, SECOND)), RATE)
    assert parts_of(found, device_us=5.0, floor_us=3.5)["launches_us"] == pytest.approx(3.5)
