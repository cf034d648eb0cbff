"""The process of a kernel as a fork of one that has imported all that takes long (`minilab.sandbox.forks`)."""

import os
import tempfile
from importlib.util import find_spec
from pathlib import Path

import torch

from minikernel.judge import worker
from minilab.sandbox import landlock

with torch.compiler.set_stance("force_eager"):  # as redzones do: it imports Dynamo, which takes longer than a proof
    pass
if find_spec("triton"):
    import triton.runtime.interpreter  # noqa: F401


def main(descriptor: int, seconds: str, folder: str, *hidden: str) -> None:
    """Serve the judge as `worker.main` does, writing in a folder alone and reading nothing of hidden ones."""
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    landlock.confine(Path(folder), [Path(one) for one in hidden])
    worker.main(descriptor, float(seconds))
