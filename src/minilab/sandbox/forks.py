"""Confined processes that begin in milliseconds: forks of a process that has imported what takes seconds to import.

`python -m minilab.sandbox.forks SOCKET MODULE:FUNCTION` imports the module and waits. For each request it forks a
supervisor (`minilab.sandbox.supervisor`), which forks the process that calls the function. The server itself runs
nothing of what it is asked to confine, has one thread, and ends with whoever started it.
"""

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pkgutil import resolve_name

from minilab.errors import LabError
from minilab.sandbox import autograd, supervisor
from minilab.sandbox.process import Confined

LONGEST = 1 << 16  # bytes of a request
MOST_DESCRIPTORS = 8


class ForkServer:
    """The server, as a context manager; it is started at once and imports meanwhile.

    Args:
        function: `module:function`, called in each fork with the descriptors that it keeps and its arguments.
        variables: of its environment, over this process's own.
    """

    def __init__(self, function: str, variables: Mapping[str, str] | None = None) -> None:
        self._function, self._variables = function, dict(variables or {})
        self._one_at_a_time = threading.Lock()
        self._start()

    def _start(self) -> None:
        # SEQPACKET keeps messages apart: a request is read whole, with its descriptors
        self._talk, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno()), self._function],
                stdin=subprocess.DEVNULL,
                env={**os.environ, **self._variables},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )

    def fork(self, descriptors: Sequence[int], memory_bytes: int, arguments: Sequence[str]) -> int:
        """Fork a supervised process; the supervisor's number. A server that somebody has ended is started anew.

        Args:
            descriptors: the supervisor's ends of its two pipes, where the output goes, and what the function is given.
            memory_bytes, arguments: as `Forked` takes them.

        Raises:
            LabError: the server ends before it has begun.
        """
        request = json.dumps({"memory_bytes": memory_bytes, "arguments": list(arguments)}).encode()
        # a request and its answer belong together, and threads of a grading share the server
        with self._one_at_a_time:
            # a server that somebody has ended, by a kernel's doing or by hand, is started once more
            for _ in range(2):
                try:
                    socket.send_fds(self._talk, [request], list(descriptors))
                    if answer := self._talk.recv(LONGEST):
                        return int(answer)
                except OSError:
                    pass
                self._end()
                self._start()
        raise LabError(f"the process that imports {self._function} ends before it has begun; what it wrote says why.")

    def _end(self) -> None:
        self._talk.close()
        self._server.kill()
        self._server.wait()

    def __enter__(self) -> "ForkServer":
        return self

    def __exit__(self, *raised: object) -> None:
        self._end()


class Forked(Confined):
    """A function with limits, in a fork of a server; as `Confined` is a command.

    Args:
        server: whose fork it is.
        arguments: of the function, after the descriptors.
        memory_bytes: what it and all that it starts may hold together, what the server had imported included.
        keep: file descriptors that the function is given, as its own numbers of them.
    """

    def __init__(self, server: ForkServer, arguments: Sequence[str], memory_bytes: int, keep: Sequence[int]) -> None:
        reading, writing = os.pipe()
        try:
            with self._watched() as (life, report):
                self._pid = server.fork((life, report, writing, *keep), memory_bytes, arguments)
        finally:
            os.close(writing)
        self.printed = os.fdopen(reading, "rb")

    def _await_supervisor(self, seconds: float) -> None:
        # It is no child of this process, so that there is nobody to wait for but the end of its report.
        if self.wait(seconds) is None:
            raise subprocess.TimeoutExpired("supervisor", seconds)


def serve(talk: socket.socket, function: str) -> None:
    """Fork whenever somebody asks, until nobody can any more."""
    called = resolve_name(function)
    if autograd.has_started_threads():  # of a module that computes when it is imported
        print(f"{autograd.THREADS}: {function} begins in a new process each time, and takes longer.", file=sys.stderr)
        called = partial(begin_anew, function)
    gc.collect()
    gc.freeze()  # what a fork's garbage collector looked through, it would copy
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # supervisors report for themselves
    while True:
        request, descriptors, *_ = socket.recv_fds(talk, LONGEST, MOST_DESCRIPTORS)
        if not request:
            return
        child = os.fork()
        if not child:
            talk.close()
            # does not return: the fork never comes back into this loop
            supervised(called, descriptors, **json.loads(request))
        for descriptor in descriptors:
            os.close(descriptor)
        talk.send(str(child).encode())


def begin_anew(function: str, *given: int | str) -> None:
    """Call a function in a new interpreter, in the place of this process; does not return.

    Args:
        given: descriptors that it keeps, then its arguments.
    """
    kept = [one for one in given if isinstance(one, int)]
    for descriptor in kept:
        os.set_inheritable(descriptor, True)
    call = f"import pkgutil, sys; pkgutil.resolve_name({function!r})(*{kept}, *sys.argv[1:])"
    os.execv(sys.executable, [sys.executable, "-c", call, *map(str, given[len(kept) :])])


def supervised(called, descriptors: Sequence[int], memory_bytes: int, arguments: Sequence[str]) -> None:
    """Be the supervisor of a function's call; does not return."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        life, report, output, *kept = descriptors
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        supervisor.supervise(life, report, memory_bytes, partial(run, called, (life, report), kept, arguments))
    finally:
        os._exit(0)


def run(called, pipes: Sequence[int], kept: Sequence[int], arguments: Sequence[str]) -> None:
    """Call the function in the process that is watched, which has no hand on the pipes of who watches it."""
    # somebody's code with a hand on them could report an end of its own invention
    for pipe in pipes:
        os.close(pipe)
    called(*kept, *arguments)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
