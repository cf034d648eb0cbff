"""The process of a kernel on a GPU that has nothing to read or to write outside its own folder (Landlock).

`python -m minikernel.judge.confined SOCKET DEADLINE DEVICE FOLDER HIDDEN...`. A process that has opened a GPU cannot be
forked, so it is a new one. It opens the GPU first, and confines itself before it looks at anybody's code.
"""

import os
import sys
import tempfile
from pathlib import Path

import torch

from minikernel.judge import worker
from minilab.sandbox import landlock
from minilab.user_files import open_notes


def main(descriptor: str, deadline: str, device: str, folder: str, *hidden: str) -> None:
    """Serve the judge as `worker.main` does, writing in a folder alone and reading nothing of hidden ones."""
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    # The driver's files are opened now; after `confine` they could not be.
    torch.empty(1, device=device)
    open_notes()
    landlock.confine(Path(folder), [Path(one) for one in hidden])
    worker.main(int(descriptor), float(deadline))


if __name__ == "__main__":
    main(*sys.argv[1:])
