"""Where learners' processes are forked, by a server that imports what they need.

Nothing heavy is imported with this module: who enters `workshop` first and imports the rest inside it imports at the
same time as the server, which is most of what marking a small exercise takes.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from minikernel.judge.starting import FORKED, WAITING
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
