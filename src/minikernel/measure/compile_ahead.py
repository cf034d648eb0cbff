"""Compile a tuned kernel's configurations side by side, before they are timed one after the other.

Compiling is most of a search's time, and Python's lock lets one process compile one at a time. Here several processes
fill the compiler's cache on disk, from which the search then loads. What they leave undone the search compiles, and
what fails there is written down.

`python -m minikernel.measure.compile_ahead MODULE DEVICE CASES` is one of these processes.
"""

import contextlib
import importlib
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from minilab.sandbox.process import Confined

ROWS = 8  # of the tensors that are launched over: how many they are is no part of what is compiled


def compile_ahead(
    module: str, cases: Sequence[tuple[int, int, str, dict]], device: str, processes: int, seconds: float
) -> None:
    """Fill the compiler's cache on disk.

    Args:
        module: importable name of a tuned kernel's module, whose `launch(x, y, config)` compiles.
        cases: (rows, cols, dtype, configuration) each.
        device: torch device for which to compile.
        processes: how many at a time, each of which has the device open; nothing outlives the call, nor its process.
        seconds: what is not compiled by then is left to the search.
    """
    # one process would only do beforehand what the search does anyway
    if processes < 2:
        return
    end = time.monotonic() + seconds
    command = [sys.executable, "-m", __spec__.name, module, device]
    with tempfile.TemporaryDirectory(prefix="cases-") as folder, ExitStack() as stack:
        running = []
        for number in range(processes):
            path = Path(folder, f"{number}.json")
            # Every so many-th case to each process, so that none has all the large ones.
            path.write_text(json.dumps([case[1:] for case in cases[number::processes]]))
            running.append(stack.enter_context(Confined([*command, str(path)])))
        # Waiting ends with the time; leaving the block then ends whatever still compiles.
        for process in running:
            process.wait(max(end - time.monotonic(), 0))


def main(module: str, device: str, path: str) -> None:
    """Compile the cases, [cols, dtype, configuration] each, in a file of JSON."""
    import torch

    launch = importlib.import_module(module).launch
    for cols, dtype, config in json.loads(Path(path).read_text()):
        x = torch.empty((ROWS, cols), dtype=getattr(torch, dtype), device=device)
        with contextlib.suppress(Exception):  # whatever the compiler says, it says it to the search too
            launch(x, torch.empty_like(x), config)


if __name__ == "__main__":
    main(*sys.argv[1:])
