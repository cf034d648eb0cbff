"""The processes that an explored one starts: each is told to explore itself, and leaves a mark of what became of it.

A folder of marks, which lasts as long as the `explore`, has a file for each process, `PID.json`, with its `state`:
`started`; `watching`, from where on compiles are seen, or `unwatched`; `compiling` from the first on; `written`, with
the folder of its pages. What a process that left it at `compiling` compiled is known to nobody. The way there is an
environment variable and a `sitecustomize` on the path of modules, which every Python reads that is started with this
environment; a fork is met at the fork.
"""

import atexit
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

from minicompile.torch_private.at_start import sitecustomize_folder
from minilab.files import write_text

VARIABLE = "MINICOMPILE_EXPLORING"
ENDING = 30.0  # seconds for a process to write what it has begun to write
OURS = ("minicompile", "minilab")
INDUCTORS_OWN = "torch/_inductor/"  # in the path of a script of Inductor's, which builds or times its kernels


class Processes:
    """The processes below one `explore`.

    Attributes:
        folder: where each writes a folder of its own; None where nothing is to be kept.
    """

    def __init__(self, run: Path, folder: Path | None, **settings: Any) -> None:
        self.run, self.folder, self.settings = run, folder, settings
        self._started: set[int] = set()  # of Python's processes that this one started

    def mark(self, state: str, **fields: Any) -> None:
        """Say what has become of this process."""
        with contextlib.suppress(OSError):
            if self.run.is_dir():  # the explore may have ended
                write_text(self.run / f"{os.getpid()}.json", json.dumps({"state": state, **fields}))

    def own_folder(self) -> Path:
        """A folder for what this process compiled, which no other process of this explore has."""
        for number in range(1, sys.maxsize):
            with contextlib.suppress(FileExistsError):
                (self.run / f"process_{number}").mkdir()
                return (self.folder or self.run) / f"process_{number}"
        raise AssertionError

    def written(self) -> list[tuple[int, Path]]:
        """The captures that other processes have written so far: which process, and the folder of one of its."""
        return sorted(
            (int(Path(mark["folder"]).name.rpartition("_")[2]), Path(place))
            for mark in self._marks().values()
            for place in mark.get("captures", [])
        )

    def told(self) -> list[dict]:
        """What other processes say is in none of their captures."""
        return [one for mark in self._marks().values() for one in mark.get("unseen", [])]

    def unseen(self) -> int:
        """How many processes may have compiled something that is in no folder."""
        marks = self._marks()
        unwritten = [mark for mark in marks.values() if mark["state"] in ("unwatched", "compiling", "writing")]
        return len(unwritten) + len(self._started - marks.keys())

    def wait(self) -> None:
        """Give processes that are about to write the time for it."""
        until = time.monotonic() + ENDING
        while time.monotonic() < until and any(
            mark["state"] == "writing" and _is_alive(number) for number, mark in self._marks().items()
        ):
            time.sleep(0.05)

    def remove(self) -> None:
        """Take the marks away: nobody waits any more."""
        shutil.rmtree(self.run, ignore_errors=True)

    def _marks(self) -> dict[int, dict]:
        marks = {int(path.stem): json.loads(path.read_text() or '{"state": "started"}') for path in self._files()}
        return {number: mark for number, mark in marks.items() if number != os.getpid()}

    def _files(self) -> list[Path]:
        return [path for path in self.run.glob("*.json") if path.stem.isdigit()]

    def environment(self) -> dict[str, str]:
        """What tells a process that is started to explore itself."""
        told = {
            "run": str(self.run),
            "folder": None if self.folder is None else str(self.folder),
            "prefix": sys.prefix,
            "source": str(Path(__file__).parents[2]),
            **self.settings,
        }
        return {VARIABLE: json.dumps(told), "PYTHONPATH": _path(os.environ.get("PYTHONPATH"))}

    def patches(self) -> list[Any]:
        """What is entered for the time of an explore."""
        original = subprocess.Popen.__init__

        @wraps(original)
        def init(started: subprocess.Popen, *args: Any, **kwargs: Any) -> None:
            if kwargs.get("env") is not None:  # an environment of its own, which would tell the process nothing
                # what an explore within this one has put there stays
                given = {**self.environment(), **kwargs["env"]}
                kwargs["env"] = {**given, "PYTHONPATH": _path(kwargs["env"].get("PYTHONPATH"))}
            original(started, *args, **kwargs)
            told = (kwargs.get("env") or os.environ).get(VARIABLE)
            ours = told in (None, self.environment()[VARIABLE])  # not what belongs to an explore within this one
            if ours and _is_python(args[0] if args else kwargs.get("args")) and not _from_here(sys._getframe(1)):
                self._started.add(started.pid)

        return [mock.patch.dict(os.environ, self.environment()), mock.patch.object(subprocess.Popen, "__init__", init)]


@contextlib.contextmanager
def processes(folder: Path | None, **settings: Any) -> Iterator[Processes]:
    """Have each process that is started from now on explore itself, until the context is left.

    Args:
        folder: below which each writes a folder of its own; None to keep none.
        settings: what a process is told besides, plain data.
    """
    number = os.getpid()
    run = Path(tempfile.mkdtemp(prefix="minicompile_"))
    below = Processes(run, folder, **settings)
    try:
        with contextlib.ExitStack() as stack:
            for patch in below.patches():
                stack.enter_context(patch)
            yield below
    finally:
        if os.getpid() == number:
            below.remove()


def of_this_process() -> Processes | None:
    """What this process was told when it was started; None where it was told nothing, or nobody waits any more."""
    if VARIABLE not in os.environ:
        return None
    told = json.loads(os.environ[VARIABLE])
    run, folder = Path(told.pop("run")), told.pop("folder")
    settings = {name: value for name, value in told.items() if name not in ("prefix", "source")}
    return Processes(run, folder and Path(folder), **settings) if run.is_dir() else None


def at_the_end(write: Callable[[], None]) -> Callable[[], None]:
    """Have `write` run once before this process ends, however it ends short of a kill that cannot be caught.

    Returns:
        A function that takes it back.
    """
    number, done = os.getpid(), threading.Lock()

    def once() -> None:
        if os.getpid() == number and done.acquire(blocking=False):  # what is forked off has an end of its own
            write()

    leave = os._exit

    def leaving(status: int) -> None:  # so ends a process that multiprocessing forked
        once()
        leave(status)

    def ended(number: int, frame: FrameType | None) -> None:  # so ends a worker of a pool, and what `timeout` starts
        once()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def take_back() -> None:
        done.acquire(blocking=False)
        atexit.unregister(once)
        os._exit = leave if os._exit is leaving else os._exit  # type: ignore[assignment]
        with contextlib.suppress(ValueError):  # in another thread than the main one
            if signal.getsignal(signal.SIGTERM) is ended:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)

    os._exit = leaving  # type: ignore[assignment]
    atexit.register(once)
    now = signal.getsignal(signal.SIGTERM)
    free = now is signal.SIG_DFL or getattr(now, "__code__", None) is ended.__code__  # not a handler of the user's
    if free and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, ended)
    return take_back


_after_fork: list[Callable[[], None]] = []


@contextlib.contextmanager
def at_each_fork(act: Callable[[], None]) -> Iterator[None]:
    """Have `act` run in each process that the user's code forks off while the context lasts."""
    if not _forked_is_heard:
        os.register_at_fork(after_in_child=_forked)
        _forked_is_heard.append(True)
    _after_fork.append(act)
    try:
        yield
    finally:
        if act in _after_fork:
            _after_fork.remove(act)


_forked_is_heard: list[bool] = []  # Python lets nobody take such a hook out again


def _forked() -> None:
    if _after_fork and not _from_here(sys._getframe(1)):
        _after_fork.pop()()


def _from_here(frame: FrameType | None) -> bool:
    """Whether the lab itself called, which compiles in a copy of the process before it says that a model works."""
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        package = name.partition(".")[0]
        if name != __name__ and package not in sys.stdlib_module_names:
            return package in OURS
        frame = frame.f_back
    return False


def _path(before: str | None) -> str:
    folder = str(sitecustomize_folder())
    others = [one for one in (before or "").split(os.pathsep) if one and one != folder]
    return os.pathsep.join([folder, *others])


def _is_python(command: Any) -> bool:
    """Whether a command starts a Python that may compile something; those that Inductor starts build its kernels."""
    given = [command] if isinstance(command, str | bytes | os.PathLike) else list(command or [])
    words = [os.fsdecode(word) for word in given]
    name = os.path.basename(words[0]) if words else ""
    own = any(INDUCTORS_OWN in word and word.endswith(".py") for word in words)
    return name.startswith("python") and " " not in name and not own


def _is_alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
