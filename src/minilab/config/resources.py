"""The memory and time that a job asks a scheduler for; both grow when it is tried again.

A scheduler ends a job that takes more than it asked for, and lets a job that asks for much wait longer. So the first
attempt asks for what the rule was measured to need, with some room, and each retry asks for twice as much as the one
before. Snakemake's documentation recommends this use of `attempt`.
"""

import math
from collections.abc import Callable

GROWTH = 2  # from one attempt to the next
OVERHEAD = 2  # minutes to start on a node, import torch over a network and compile


def growing(first: int | Callable[[object], int]) -> Callable[[object, int], int]:
    """Make a resource of a rule: `first` at the first attempt, twice as much at each further one.

    Args:
        first: what the first attempt asks for, in the resource's own unit (`mem_mb`: megabytes, `runtime`: minutes);
            a positive whole number, or a function of the job's wildcards that returns one.

    Returns:
        The function of (wildcards, attempt) that Snakemake calls; attempts count from 1.
    """
    return lambda wildcards, attempt: (first(wildcards) if callable(first) else first) * GROWTH ** (attempt - 1)


def minutes(seconds: float) -> int:
    """Return the whole minutes to ask for when a job takes at most `seconds`; starting it on a node is included."""
    return math.ceil(seconds / 60) + OVERHEAD
