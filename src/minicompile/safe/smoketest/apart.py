"""Calls a function in a forked copy of this process.

The copy has everything that this process has: models, optimizers, generators, hooks, closures, patches. What the
function changes there, hangs on or crashes with stays there; its result, or its exception, comes back through a pipe.

The copy has the calling thread alone, and would wait for threads that it does not have: those of OpenMP are given up
before the fork, and the copy forgets those with which Inductor compiles; new ones start when they are needed. A copy
that waits for a lock which another thread held takes no processor time: it is ended, and `StoodStill` says so, unless
the call is patient. Autograd's threads cannot be given up: where they run there is no copy, and they are kept from
starting where that can be done.
"""

import contextlib
import ctypes
import gc
import multiprocessing
import os
import pickle
import random
import re
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from minicompile.safe.failures import CompileFailure, TimeLimitExceeded
from minicompile.torch_private import dynamo as dynamo_internals
from minilab.sandbox import autograd

T = TypeVar("T")
STILL_SECONDS = 20.0  # without processor time: whoever compiles or computes takes some
LOOK_SECONDS = 0.05  # between two looks at a process that says nothing
PR_SET_PDEATHSIG = 1  # of Linux's prctl
OMP_PAUSE_SOFT = 1


class CannotFork(Exception):
    """The function was not called to its end in a copy of the process, and not through its own fault."""


class StoodStill(CannotFork):
    """The copy took no processor time."""


class ProcessDied(CompileFailure):
    """The process in which the function was called has ended before the function did.

    Attributes:
        stage: the last that the function gave; None where it gave none.
    """

    stage: str | None = None


class RaisedApart(Exception):
    """The traceback, as text, of an exception that came out of another process; it is that exception's cause."""

    def __init__(self, text: str) -> None:
        super().__init__(f"\n{text}")


def why_not(tensors: Iterable[Tensor] = ()) -> str | None:
    """Say why this process cannot be forked for work on `tensors`; None where it can."""
    if sys.platform != "linux":
        return f"{sys.platform} has no safe fork"
    if torch.accelerator.is_available():
        return "a forked process cannot share the accelerator"
    if dist.is_available() and dist.is_initialized():
        return "a forked process is no rank of its process group"
    if autograd.has_started_threads():
        return autograd.THREADS
    if any(_shared(tensor) for tensor in tensors):
        return "its tensors are in memory that is shared with other processes"
    return None


def _shared(tensor: Tensor) -> bool:
    try:
        return tensor.is_shared()
    except (RuntimeError, NotImplementedError, ValueError):  # one without storage, a fake one, one not yet initialised
        return False


def _pause_openmp() -> None:
    """End the threads that OpenMP keeps waiting for this thread's next parallel loop."""
    loaded = Path("/proc/self/maps").read_text().split()
    for path in {path for path in loaded if re.search(r"/lib(g|i)?omp\d*[-.\w]*\.so", path)}:
        if ctypes.CDLL(path).omp_pause_resource_all(OMP_PAUSE_SOFT) != 0:
            raise CannotFork("OpenMP cannot pause its threads here")


def _begin_autograd() -> bool:
    """Begin autograd, and say whether it has done so without threads; then it never starts any.

    It starts them at the first backward pass, for the devices that it knows of by then, and tracing has it know of
    eight that are not there (`minilab.sandbox.autograd`). So the pass comes first where nothing has been traced yet.
    """
    with torch.inference_mode(False), torch.enable_grad():
        torch.zeros((), device="cpu", requires_grad=True).backward()
    return not autograd.has_started_threads()


class Sign:
    """Given to the function, to say where it stands; the last word is in the exception of a process that died."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __call__(self, stage: str) -> None:
        self._connection.send_bytes(pickle.dumps(("stage", stage)))


def call_apart(function: Callable[[Sign], T], seconds: float | None = None, *, patient: bool = False) -> T:
    """Call `function` in a forked copy of this process and return what it returns.

    Args:
        function: given a `Sign`. What it returns is pickled.
        seconds: after which the copy, and whatever it has started, is killed; None is never.
        patient: wait for a copy that takes no processor time.

    Raises:
        CannotFork: there is no copy, it stood still, torch refused it a backward pass for being a copy, or its result
            cannot be pickled.
        TimeLimitExceeded: it took longer than `seconds`.
        ProcessDied: it ended with a signal or an exit status; attribute `stage` has the last stage that it gave.
        BaseException: what the function raised, with its traceback in the other process as its cause.
    """
    if autograd.has_started_threads():
        raise CannotFork(autograd.THREADS)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()  # or both processes write what has been buffered
    _pause_openmp()
    ours, theirs = multiprocessing.Pipe(duplex=False)
    parent, drawn = os.getpid(), random.getstate()
    try:
        with warnings.catch_warnings():  # Python warns of other threads' locks: `StoodStill` is for those
            warnings.simplefilter("ignore", DeprecationWarning)
            process = os.fork()
    except OSError as error:  # no memory, no more processes
        raise CannotFork(f"no process can be forked: {error}") from error
    if process == 0:
        random.setstate(drawn)  # Python seeds its generator anew in a forked process
        _be_the_copy(function, theirs, parent)
    theirs.close()
    try:
        return _answer(process, ours, seconds, patient)
    finally:
        ours.close()
        _end(process)


def _be_the_copy(function: Callable[[Sign], Any], connection: Connection, parent: int) -> None:
    """Call the function, send what comes of it, and end without what a process does at its end."""
    try:
        if os.getsid(0) != parent:  # a copy of a copy stays with it
            os.setsid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
            with contextlib.suppress(ValueError):  # not in the main thread, whose handlers these are
                signal.signal(number, signal.SIG_DFL)
        dynamo_internals.forget_compile_threads()
        gc.freeze()  # what the collector looks through, it writes to, and the copy would get pages of its own
        said: tuple[str, Any]
        try:
            if not torch.accelerator.is_available():
                connection.send_bytes(pickle.dumps(("begun", _begin_autograd())))
            said = ("value", function(Sign(connection)))
        except BaseException as error:
            said = ("raised", packed(CannotFork(autograd.THREADS) if autograd.is_refused(error) else error))
        try:
            message = pickle.dumps(said)
        except Exception as error:
            message = pickle.dumps(("unsendable", f"{type(error).__name__}: {error}"))
        connection.send_bytes(message)
        connection.close()
    finally:
        os._exit(0)


def _answer(process: int, connection: Connection, seconds: float | None, patient: bool) -> Any:
    """Wait for the copy's answer, however it ends."""
    began = time.monotonic()
    stage, worked, worked_at = None, 0, began
    while True:
        if connection.poll(LOOK_SECONDS):
            kind, value = _received(connection)
            if kind == "stage":
                stage = value
            elif kind == "begun":
                if value:  # nothing had been traced when the copy was made: here too autograd may begin
                    _begin_autograd()
            elif kind == "value":
                return value
            elif kind == "raised":
                raise unpacked(value)
            elif kind == "unsendable":
                raise CannotFork(f"what came of it cannot be sent to another process ({value})")
            else:
                raise _died(_status(process, 0), stage)
            continue
        now = time.monotonic()
        if seconds is not None and now - began > seconds:
            raise TimeLimitExceeded(
                f"The compile took longer than its limit of {seconds:g} s; raise time_limit_seconds, or compile less.",
                seconds,
            )
        status = _status(process, os.WNOHANG)
        if status is not None and not connection.poll(0):
            raise _died(status, stage)
        if not patient and now - worked_at > STILL_SECONDS:
            before, worked = worked, _processor_ticks(process)
            if worked == before:
                raise StoodStill("the forked process stood still")
            worked_at = now


def _received(connection: Connection) -> tuple[str, Any]:
    try:
        return pickle.loads(connection.recv_bytes())
    except EOFError:
        return "closed", None


def _status(process: int, options: int) -> int | None:
    """Return how a process ended, as `os.waitpid` does, or -1 where somebody else asked first; None while it lives."""
    try:
        ended, status = os.waitpid(process, options)
    except ChildProcessError:  # the caller has a handler of SIGCHLD, or ignores it
        return -1
    return status if ended else None


def _died(status: int | None, stage: str | None) -> ProcessDied:
    code = None if status is None or status < 0 else os.waitstatus_to_exitcode(status)
    how = "a status that is not known" if code is None else f"exit status {code}"
    how = signal.Signals(-code).name if code is not None and code < 0 else how
    error = ProcessDied(f"the process that tried the model ended with {how}; leave it eager.", "process_died", how=how)
    error.stage = stage
    return error


def _processor_ticks(process: int) -> int:
    """Compute the processor time of a process, of its session and of all that these have started."""
    parents, ticks = dict[int, set[int]](), dict[int, int]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = path.read_text().rpartition(")")[2].split()
            one = int(path.parent.name)
            parents[one], ticks[one] = {int(fields[1]), int(fields[3])}, sum(map(int, fields[11:15]))
    found, more = set[int](), {process}
    while more:
        found |= more
        more = {one for one in parents if one not in found and parents[one] & found}
    return sum(ticks.get(one, 0) for one in found)


def _end(process: int) -> None:
    """Kill the copy and what it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)  # before it has a group of its own
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process, 0)


def packed(error: BaseException) -> dict:
    """Take apart an exception for another process that knows its class: many cannot be pickled whole."""
    return {
        "kind": (type(error).__module__, type(error).__qualname__),
        "base": next(base for base in type(error).__mro__ if base.__module__ == "builtins").__name__,
        "args": tuple(argument if _sendable(argument) else str(argument) for argument in error.args),
        "attributes": {name: value for name, value in vars(error).items() if _sendable(value)},
        "message": str(error),
        "traceback": "".join(traceback.format_exception(error)),
    }


def _sendable(value: Any) -> bool:
    try:
        pickle.dumps(value)
    except Exception:
        return False
    return True


def unpacked(parts: dict) -> BaseException:
    """Put an exception together again, of its own class where this process has it."""
    kind = _exception_class(*parts["kind"])
    if kind is None:
        kind = type(parts["kind"][1], (_exception_class("builtins", parts["base"]) or Exception,), {})
    error = kind.__new__(kind, *parts["args"])
    error.args = parts["args"]
    with contextlib.suppress(Exception):
        vars(error).update(parts["attributes"])
    error.__cause__ = RaisedApart(parts["traceback"])
    return error


def _exception_class(module: str, name: str) -> type[BaseException] | None:
    """Find a class of exceptions by name among all that this process has, local ones included."""
    waiting: list[type[BaseException]] = [BaseException]
    seen = set(waiting)
    while waiting:
        kind = waiting.pop()
        if (kind.__module__, kind.__qualname__) == (module, name):
            return kind
        inner = [one for one in kind.__subclasses__() if one not in seen]
        seen.update(inner)
        waiting += inner
    return None
