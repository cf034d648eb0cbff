"""What one card's times say of another's, held against times of an H100 that the lab's kernels had there."""

import pytest

from minikernel.report.two_cards import Card, expected, waits_for

BYTES = 2 * 524288 * 600 * 4
H200, H100 = Card(4246, 132, 1980), Card(3020, 132, 1980)
# Microseconds on both, and what the difference says: `naive` wastes memory's traffic; `smem` waits at its barriers and
# takes no longer; `warp` and the textbook's kernel run into memory, of which they had more than they could ask for.
MEASURED = {
    "naive": (15_045, 22_289, "memory"),
    "smem": (1_918, 1_942, "multiprocessors"),
    "warp": (656, 831, "multiprocessors"),
    "triton_textbook": (626, 835, "multiprocessors"),
    "fused": (587, 831, "either"),
    "triton": (583, 828, "either"),
}


@pytest.mark.parametrize("kernel", MEASURED)
def test_an_h100_says_what_a_kernel_of_an_h200_waits_for(kernel: str):
    us, there, said = MEASURED[kernel]
    told = expected(us, BYTES, H200, H100)
    assert waits_for(there, told) == said
    if said in ("memory", "multiprocessors"):
        assert getattr(told, said) == pytest.approx(there, rel=0.06)


def test_a_card_of_the_same_memory_and_half_the_multiprocessors_takes_twice_as_long_where_these_are_waited_for():
    half = Card(4246, 66, 1980)
    told = expected(656, BYTES, H200, half)
    assert (told.memory, told.multiprocessors) == (656, 1312)
    assert expected(656, BYTES, H200, Card(4246, 132, 990)).multiprocessors == 1312
    assert waits_for(3000, told) == "neither"


def test_a_multiprocessor_has_a_row_for_as_long_as_all_rows_take_shared_among_them():
    assert Card(1, 4, 1).row_ns(10, 8) == 5000  # two rows each, in ten microseconds
    assert H200.memory_us(4246e3) == pytest.approx(1)
