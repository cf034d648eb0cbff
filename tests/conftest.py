"""What tests of all rooms use: folders made once a session, and the order in which the files are run."""

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

# What takes longest comes first: a worker that began with it at the end would leave the others with nothing to do.
# Each file stays with one worker (`--dist loadfile`), so it is the order of files that counts.
LONGEST_FIRST = (
    "cluster/test_slurm.py",
    "workflow/test_every_rule.py",
    "workflow/test_user_kernels.py",
    "workflow/test_end_to_end.py",
    "faults/",
    "workflow/",
    "minicompile/",
    "minikernel/",
    "scripts/",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the files by what is known of their time; within a file, and among the others, the order stays."""
    here = Path(__file__).parent

    def rank(item: pytest.Item) -> int:
        path = item.path.relative_to(here).as_posix()
        return next((place for place, known in enumerate(LONGEST_FIRST) if path.startswith(known)), len(LONGEST_FIRST))

    items.sort(key=rank)


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], object]], Path]:
    """A function `once(name, make)`: the folder that `make(folder)` has filled, once for all workers of the session.

    Whoever asks first makes it, and the others wait for that. The folder is not to be changed; a test copies it.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base  # pytest-xdist gives each worker a folder in it

    def made(name: str, make: Callable[[Path], object]) -> Path:
        folder, done = shared / f"once-{name}", shared / f"once-{name}.done"
        with open(shared / f"once-{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)  # of a worker that could not make it
                folder.mkdir()
                make(folder)
                done.touch()
        return folder

    return made
