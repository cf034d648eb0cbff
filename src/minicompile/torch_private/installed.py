"""What is said once a process of the torch that is installed: that nobody has tried the lab with one as new.

How new it may be is no condition of the package's: a resolver would then pull a user's torch down. What is known to be
false of it is refused: one that is too old, or (`names.owner`) a private name that is gone.
"""

import logging
from functools import cache

from packaging.version import Version

from minicompile.torch_private.names import MINORS
from minilab import LabError
from minilab.device import do_without_cuda

log = logging.getLogger(__name__)


def untried(version: str) -> str | None:
    """A sentence about a torch that is newer than any of `MINORS`; None of any other.

    Args:
        version: `torch.__version__`.

    Raises:
        LabError: it is older than all of them.
    """
    oldest, newest = _minor(MINORS[0]), _minor(MINORS[-1])
    if _minor(version) < oldest:
        raise LabError(f"torch {version} is too old for the lab; install {MINORS[0]} or a newer one.")
    if _minor(version) <= newest:
        return None
    return (
        f"torch {version} is newer than any that the lab was tried with ({MINORS[0]} to {MINORS[-1]}): what is new in "
        "it may be missing from what is told of a compile."
    )


def _minor(version: str) -> tuple[int, ...]:
    return Version(version).release[:2]


@cache
def begin() -> None:
    """Say once what is to be said of the installed torch, and have it repeat nothing at each compile.

    Raises:
        LabError: it is too old.
    """
    import torch

    do_without_cuda()
    if sentence := untried(torch.__version__):
        log.warning(sentence)
