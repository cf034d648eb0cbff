"""The bytes of a call are those of the different elements that its accesses reach."""

from types import SimpleNamespace

import numpy
from zoo_models import captured

from minicompile.watching.traffic.loop_accesses import Access
from minicompile.watching.traffic.traffic import _union, _viewed, count


def access(elements, *, buffer: str = "x", reads: bool = True, most: int = 100) -> Access:
    return Access(buffer, reads, not reads, elements, most)


def test_addresses_that_several_accesses_reach_count_once():
    left, right = (0, ((1, 6),)), (4, ((1, 6),))  # 0..5 and 4..9
    assert _union([access(left)], 50) == (6, True)
    assert _union([access(left), access(left)], 50) == (6, True)
    assert _union([access(left), access(right)], 50) == (10, True)
    assert _union([access(left), access(numpy.asarray([5, 20]))], 50) == (7, True)
    assert _union([], 50) == (0, True)


def test_what_is_not_known_is_bounded_by_the_points_and_by_the_buffer():
    assert _union([access(None, most=7), access((0, ((1, 3),)), most=3)], 50) == (10, False)
    assert _union([access(None, most=700)], 50) == (50, False)


def test_too_many_addresses_to_write_out_are_bounded():
    million = 1_000_000_000
    some = [access((0, ((2, million),))), access((0, ((3, million),)))]
    assert _union(some, 7 * million) == (2 * million, False)
    assert _union(some, million) == (million, False)
    assert _union([access((0, ((2, million),)))], million) == (million, True)  # one grid need not be written out


def test_what_is_not_known_adds_nothing_to_a_buffer_that_is_touched_whole():
    assert _union([access((0, ((1, 50),))), access(None, most=7)], 50) == (50, True)
    assert _union([access((0, ((1, 49),))), access(None, most=7)], 50) == (50, False)


def test_reads_and_writes_are_counted_apart_in_bytes_of_their_buffers():
    touched = [
        access((0, ((1, 6),))),
        access((4, ((1, 6),))),
        access((0, ((1, 6),)), reads=False),
        access((0, ((1, 3),)), buffer="y", reads=False),
    ]
    found = count(touched, {"x": 4, "y": 2}.__getitem__, lambda _buffer: 50)
    assert (found.read_bytes, found.written_bytes, found.exact) == (40, 24 + 6, True)
    unknown = count([*touched, access(None, buffer="y", most=9)], {"x": 4, "y": 2}.__getitem__, lambda _buffer: 50)
    assert (unknown.read_bytes, unknown.written_bytes, unknown.exact) == (40 + 18, 30, False)


def test_a_view_that_an_operation_outside_of_all_kernels_made_is_followed_to_its_memory():
    def made_of(*names: str) -> SimpleNamespace:
        return SimpleNamespace(get_inputs_that_alias_output=lambda: list(names))

    buffers = {"buf0": made_of(), "buf1": made_of("buf0"), "buf2": made_of("buf1"), "buf3": made_of("arg0_1")}
    assert [_viewed(name, buffers) for name in ("buf0", "buf2", "buf3", "arg0_1")] == [
        "buf0",
        "buf0",
        "arg0_1",
        "arg0_1",
    ]


def test_what_is_handed_on_in_a_register_is_not_read_again():
    """One loop stores what it loads, and the next one takes it over: the text loads once."""
    [graph] = captured("two_layouts", "simulated").capture["graphs"]
    [call] = graph["calls"]
    read = {access["buffer"] for node in graph["scheduler_nodes"] for access in node["reads"]}
    assert len(read) > 1  # the scheduler's reads name the other buffer too
    assert call["read_bytes"] == 2 * 4 * 32 * 4
