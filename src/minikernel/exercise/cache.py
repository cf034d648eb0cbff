"""A cache in front of the counter: what a CPU would move between its memory and a cache of so many bytes.

It holds lines of 64 bytes, drops the one that was used longest ago, writes a changed line back when it drops it, and
reads a line before a part of it is overwritten, as CPUs do; a streaming store goes past it. Real caches have few places
for each line and several levels, so these counts are the least that such a cache would move.
"""

from collections import OrderedDict
from collections.abc import Iterable

LINE = 64  # bytes
READ, WRITE, STREAM = 0, 1, 2


class Cache:
    """A cache of some bytes, and what went between it and the memory so far, in bytes.

    Args:
        n_bytes: of the cache; 0: there is none, and all that is touched counts.
    """

    def __init__(self, n_bytes: int) -> None:
        self.n_bytes = n_bytes
        self.read_bytes = self.written_bytes = 0
        self._changed: OrderedDict[int, bool] = OrderedDict()  # line -> whether it was changed, last used last

    def touch(self, start: int, n_bytes: int, kind: int) -> None:
        """Read or write some bytes from an address on."""
        if self.n_bytes:
            self.touch_lines(range(start // LINE, -(-(start + n_bytes) // LINE)), kind)
        elif kind == READ:
            self.read_bytes += n_bytes
        else:
            self.written_bytes += n_bytes

    def touch_lines(self, lines: Iterable[int], kind: int) -> None:
        """Read or write lines, by their numbers."""
        held, room = self._changed, self.n_bytes // LINE
        for line in lines:
            if kind == STREAM:
                held.pop(line, None)
                self.written_bytes += LINE
                continue
            known = held.pop(line, None)
            if known is None:
                self.read_bytes += LINE
                if len(held) >= room:
                    self.written_bytes += LINE * held.popitem(last=False)[1]
            held[line] = bool(known) or kind == WRITE

    def flush(self) -> None:
        """Write back what was changed."""
        self.written_bytes += LINE * sum(self._changed.values())
        self._changed.clear()
