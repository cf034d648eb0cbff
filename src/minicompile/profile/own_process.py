"""Runs a function in a process as new as one that has just imported torch and used nothing of it.

The first compile of a process pays for much that no model is to blame for, and later ones find in memory what the
earlier ones left there. So a process that has imported everything, and computed nothing, forks a child for each
measurement. A user's model that crashes or hangs ends its child alone.
"""

import importlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from minicompile.profile.refusal import NotProfiled
from minilab import LabError
from minilab.files import read_json, write_json
from minilab.sandbox import autograd
from minilab.user_code import first_line

# Asking CUDA whether there is a GPU would start a driver in the parent, which no fork survives; NVML starts none.
ENVIRONMENT = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}


class Outcome(NamedTuple):
    """What a function returned, or the reason why it did not, as an artefact holds it, and the traceback."""

    value: Any
    reason: dict | None = None
    stack: str = ""


class Processes:
    """Starts a child for each call. Enter it with `own_processes`."""

    def __init__(self, folder: Path, imports: tuple[str, ...], time_limit_seconds: float) -> None:
        self.folder, self.imports, self.time_limit_seconds = folder, imports, time_limit_seconds
        self._parent: subprocess.Popen | None = None

    def run(self, function: str, **arguments: Any) -> Outcome:
        """Call `function` (`module:name`) with keyword arguments, plain data as what it returns, in a new process."""
        call, result = self.folder / "call.json", self.folder / "result.json"
        write_json(call, {"function": function, "arguments": arguments})
        result.unlink(missing_ok=True)
        status = self._forked()
        if status is None:
            return Outcome(None, {"code": "timed_out", "seconds": self.time_limit_seconds})
        if result.exists():
            return Outcome(**read_json(result))
        code = os.waitstatus_to_exitcode(status)
        ending = {"code": "crashed", "signal": signal.Signals(-code).name} if code < 0 else {"code": "exited"}
        return Outcome(None, ending)

    def _forked(self) -> int | None:
        """The status in which a child ended; None where it took longer than it may."""
        parent = self._parent = self._parent or self._started()
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdin.write(b"\n")
        parent.stdin.flush()
        if not select.select([parent.stdout], [], [], self.time_limit_seconds)[0]:
            self.end()
            return None
        answer = parent.stdout.readline()
        if not answer:
            self.end()
            raise LabError("the process that starts the profile's processes has ended; see the log, and try again.")
        return int(answer)

    def _started(self) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-m", "minicompile.profile.own_process", str(self.folder), *self.imports],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ENVIRONMENT},
            start_new_session=True,
        )

    def end(self) -> None:
        """End the parent with all that it started."""
        if self._parent is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._parent.pid, signal.SIGKILL)
            self._parent.wait()
            for stream in (self._parent.stdin, self._parent.stdout):
                assert stream is not None
                stream.close()
            self._parent = None


@contextmanager
def own_processes(imports: tuple[str, ...], time_limit_seconds: float) -> Iterator[Processes]:
    """Start new processes in the block.

    Args:
        imports: modules that each of them has imported when it begins.
        time_limit_seconds: for one call; a process that takes longer is ended.
    """
    with tempfile.TemporaryDirectory(prefix="own-process-") as folder:
        processes = Processes(Path(folder), imports, time_limit_seconds)
        try:
            yield processes
        finally:
            processes.end()


def _serve(folder: Path, imports: list[str]) -> None:
    """Fork a child for each line that comes in, and answer with the status in which it ended."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a child prints is no answer
    for name in imports:
        importlib.import_module(name)
    anew = autograd.has_started_threads()  # of a module that computes when it is imported
    if anew:
        print(f"{autograd.THREADS}: each call begins in a new process, and takes longer to begin.", file=sys.stderr)
    for _ in sys.stdin:
        child = os.fork()
        if child == 0 and anew:
            call = f"from {__spec__.name} import _call, Path; _call(Path({str(folder)!r}))"
            os.execv(sys.executable, [sys.executable, "-c", call])
        if child == 0:
            _call(folder)
        print(os.waitpid(child, 0)[1], file=answers, flush=True)


def _call(folder: Path) -> None:
    """Make the call that lies in `folder`, leave its outcome there, and end the process."""
    call = read_json(folder / "call.json")
    module, name = call["function"].split(":")
    outcome = Outcome(None)
    try:
        outcome = Outcome(getattr(importlib.import_module(module), name)(**call["arguments"]))
    except NotProfiled as refusal:
        outcome = Outcome(None, refusal.reason)
    except LabError as refusal:
        outcome = Outcome(None, {"code": "refused", "sentence": str(refusal)})
    except (Exception, SystemExit) as failure:
        outcome = Outcome(None, {"code": "raised", "raised": first_line(failure)}, traceback.format_exc())
    try:
        result = {"value": outcome.value, "reason": outcome.reason, "stack": outcome.stack}
        write_json(folder / "result.json", result)
    finally:
        sys.stdout.flush()
        os._exit(0)  # what a model left to be done at exit is its own affair


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), sys.argv[2:])
