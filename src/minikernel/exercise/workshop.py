"""Where learners' processes are forked, by a server that imports what they need.

Nothing heavy is imported with this module: who enters `workshop` first and imports the rest inside it imports at the
same time as the server, which is most of what marking a small exercise takes.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from minikernel.exercise.exercises import Exercise
from minikernel.exercise.marks import Marks
from minikernel.judge.starting import FORKED, WAITING
from minikernel.measure.caches import own_caches
from minilab.device import torch_device
from minilab.sandbox.forks import ForkServer

if TYPE_CHECKING:
    from minikernel.judge.client import Workshop


@contextmanager
def workshop(hidden: tuple[Path, ...] = (), memory_bytes: int = 1 << 62) -> Iterator["Workshop"]:
    """A workshop whose processes are forked, write in a folder of their own, and interpret Triton.

    Args:
        hidden: folders that they may not read.
        memory_bytes: that each may hold.
    """
    variables = {**WAITING, "TRITON_INTERPRET": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryDirectory(prefix="exercise-") as folder, ForkServer(FORKED, variables) as server:
        import torch

        from minikernel.judge.client import Workshop

        before = torch.get_num_threads()
        torch.set_num_threads(1)  # what the judge compares is small, and its threads would wait for busy cores
        try:
            yield Workshop(server, Path(folder), hidden, memory_bytes)
        finally:
            torch.set_num_threads(before)


def marked(exercise: Exercise, source: str, device: str, limits: dict[str, int], bench: dict) -> Marks:
    """Mark what somebody filled in.

    Args:
        exercise: which one.
        source: the file.
        device: slug of the hardware that it runs on.
        limits: seconds, of a `proof` and of a `bench`.
        bench: how it is timed, as the config's bench says.
    """
    with own_caches(), workshop() as place:
        from minikernel.exercise.exercise import Setting, add_times, mark

        setting = Setting(place, torch_device(device), limits, "proof.time_limit_seconds", bench)
        marks = mark(exercise, source, setting)
        add_times(marks, source, setting)
        return marks
