"""Measures how busy the machine was with something else: load, interruptions of this process, work of others, steal."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from minicompile.profile.rows import Busy

STAT = Path("/proc/stat")
IDLE, IOWAIT, STEAL = 3, 4, 7  # columns of its first line, in ticks of all processors


def _ticks() -> list[int] | None:
    """Ticks that all processors spent in each state since the start; None where the system does not tell."""
    if not STAT.is_file():
        return None
    return [int(word) for word in STAT.read_text().partition("\n")[0].split()[1:9]]


@contextmanager
def watched() -> Iterator[Busy]:
    """Fill what it yields when the block ends.

    Returns:
        `seconds` of the block; `load_average` of its last minute; `involuntary_switches` of this process; of the
        machine's processor time in it `others_share`, what ran outside this process, and `steal_share`, what a
        hypervisor gave to other machines; these two are None where the system does not tell.
    """
    found: Busy = {
        "seconds": 0.0,
        "load_average": 0.0,
        "involuntary_switches": 0,
        "others_share": None,
        "steal_share": None,
    }
    began, ticks, used = monotonic(), _ticks(), resource.getrusage(resource.RUSAGE_SELF)
    yield found
    after, now = _ticks(), resource.getrusage(resource.RUSAGE_SELF)
    found["seconds"] = monotonic() - began
    found["load_average"] = os.getloadavg()[0]
    found["involuntary_switches"] = now.ru_nivcsw - used.ru_nivcsw
    if ticks is not None and after is not None:
        spent = [end - start for start, end in zip(ticks, after, strict=True)]
        own = (now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime) * os.sysconf("SC_CLK_TCK")
        found["others_share"], found["steal_share"] = shares(spent, own)


def shares(spent: list[int], own: float) -> tuple[float, float]:
    """`others_share` and `steal_share` of the ticks that were spent in each state, of which this process had `own`."""
    whole = max(1, sum(spent))
    working = whole - spent[IDLE] - spent[IOWAIT] - spent[STEAL]
    return max(0.0, working - own) / whole, spent[STEAL] / whole
