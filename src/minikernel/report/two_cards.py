"""What the time of a kernel on one card says of another card, and what its time there says of the kernel.

A kernel waits for memory, or for something in its multiprocessors. One card cannot tell which; a second one can, whose
memory is faster or slower beside its multiprocessors. Nothing is measured here.
"""

from typing import NamedTuple

ALIKE = 0.05  # two expectations nearer to one another tell nothing apart
FAR = 0.10  # a time farther from both was expected by neither


class Card(NamedTuple):
    """What of a card decides: a copy's bandwidth, its multiprocessors, and their clock at most."""

    copy_gb_per_s: float
    multiprocessors: int
    clock_mhz: float

    def row_ns(self, us: float, rows: int) -> float:
        """For how long one multiprocessor works on one of `rows` that all of them take `us` for."""
        return us * 1e3 * self.multiprocessors / rows

    def memory_us(self, n_bytes: float) -> float:
        """The least time for so many bytes: a copy's."""
        return n_bytes / self.copy_gb_per_s / 1e3


class Expected(NamedTuple):
    """Microseconds on another card, where a kernel waits for memory or for its multiprocessors."""

    memory: float
    multiprocessors: float


def expected(us: float, n_bytes: float, of: Card, on: Card) -> Expected:
    """What a kernel that takes `us` on one card and moves `n_bytes` at least should take on another."""
    work = us * of.multiprocessors * of.clock_mhz / (on.multiprocessors * on.clock_mhz)
    # who waits for multiprocessors on the one may run into memory on the other
    return Expected(us * of.copy_gb_per_s / on.copy_gb_per_s, max(work, on.memory_us(n_bytes)))


def waits_for(us: float, found: Expected) -> str:
    """What a measured time says: `memory`, `multiprocessors`, `either` where both expect the same, or `neither`."""
    apart = {name: abs(us / one - 1) for name, one in found._asdict().items()}
    if min(apart.values()) > FAR:
        return "neither"
    if abs(found.memory / found.multiprocessors - 1) < ALIKE:
        return "either"
    return min(apart, key=lambda name: apart[name])
