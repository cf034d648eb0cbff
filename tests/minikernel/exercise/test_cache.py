"""A cache in front of the counter: what is read again from it costs nothing, what leaves it changed is written."""

from minikernel.exercise.cache import LINE, READ, STREAM, WRITE, Cache

KIB = 1 << 10


def moved(cache: Cache) -> tuple[float, float]:
    """Reads and writes so far, in KiB."""
    cache.flush()
    return cache.read_bytes / KIB, cache.written_bytes / KIB


def test_without_a_cache_all_that_is_touched_counts():
    none = Cache(0)
    for kind in (READ, READ, WRITE, STREAM):
        none.touch(0, KIB, kind)
    assert moved(none) == (2, 2)


def test_what_fits_is_read_once():
    cache = Cache(4 * KIB)
    for _ in range(5):
        cache.touch(0, 4 * KIB, READ)
    assert moved(cache) == (4, 0)


def test_what_does_not_fit_is_read_each_time():
    cache = Cache(4 * KIB)
    for _ in range(5):
        cache.touch(0, 8 * KIB, READ)
    assert moved(cache) == (40, 0)


def test_a_line_is_read_before_it_is_overwritten_and_written_once():
    cache = Cache(4 * KIB)
    for _ in range(3):
        cache.touch(0, 2 * KIB, WRITE)
    assert moved(cache) == (2, 2)


def test_a_changed_line_that_has_to_go_is_written():
    cache = Cache(4 * KIB)
    cache.touch(0, 4 * KIB, WRITE)
    cache.touch(4 * KIB, 4 * KIB, READ)
    assert (cache.read_bytes, cache.written_bytes) == (8 * KIB, 4 * KIB)


def test_the_line_that_was_used_longest_ago_goes():
    cache = Cache(2 * LINE)
    for line in (0, 1, 0, 2, 0):
        cache.touch(line * LINE, LINE, READ)
    assert cache.read_bytes == 3 * LINE


def test_a_streaming_store_reads_nothing_and_leaves_nothing():
    cache = Cache(4 * KIB)
    cache.touch(0, KIB, STREAM)
    assert moved(cache) == (0, 1)
    cache.touch(0, KIB, READ)
    assert moved(cache) == (1, 1)


def test_bytes_that_begin_within_a_line_count_as_whole_lines():
    cache = Cache(4 * KIB)
    cache.touch(LINE - 1, 2, READ)
    assert cache.read_bytes == 2 * LINE
