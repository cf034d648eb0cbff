"""Processes that begin where the imports have ended: a parent imports what takes long, once, and forks for each run.

A run is as good as a process of its own: it has the arguments, the working directory, the environment and the module
search path that it would have had, its output comes back, and nothing of it is left in the next. The parent runs no
thread and imports none of the lab's packages, so that each run finds those of the copy that it is asked about.

What is started as an interpreter is forked as well where `forks(target).python()` is named as that interpreter: the
jobs of a Snakemake by its caller (`JOBS_PYTHON`), what the lab starts as `sys.executable` by the fixture
`forked_python`. That program hands what it should run over to the parent, and ends as the run does.

Run as a program, with a target and the path of a socket, this module is that parent. The targets are `snakemake`,
`script` (a script of the lab's) and `compiler` (a script or a module that compiles with Inductor).
"""

import atexit
import gc
import json
import os
import re
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
INTERPRETER = sys.executable  # for which a test may put another
# What Snakemake itself imports only when it meets a workflow such as this one.
FOR_SNAKEMAKE = (
    "snakemake.cli", "snakemake.report.html_reporter", "snakemake.profiles", "snakemake.storage", "snakemake.assets",
    "snakemake.executors.local", "snakemake.script", "snakemake.scheduling.milp", "snakemake.scheduling.greedy",
    "PIL.Image", "jsonschema", "docutils.core", "dpath", "nbformat", "requests", "smart_open", "yte",
    "pulp",
)  # fmt: skip
FOR_SCRIPTS = ("numpy", "yaml", "jsonschema", "jinja2", "matplotlib.figure", "matplotlib.backends.backend_agg",
               "matplotlib.pyplot", "safetensors.torch", "torch", "snakemake.script")  # fmt: skip
FOR_COMPILERS = (
    "numpy", "yaml", "jsonschema", "torch", "torch._dynamo", "torch._inductor.compile_fx", "torch._inductor.scheduler",
    "torch._inductor.codegen.cpp", "torch._inductor.codegen.cpp_wrapper_cpu", "torch._inductor.async_compile",
    "torch.distributed.fsdp", "torch.distributed.tensor.parallel", "torch.distributed.pipelining",
)  # fmt: skip
TARGETS = {"snakemake": FOR_SNAKEMAKE, "script": FOR_SCRIPTS, "compiler": FOR_COMPILERS}
# What an interpreter hands over to its parent, as a regular expression of its arguments with a blank between two.
HANDED_OVER = {
    "script": r"\S*\.snakemake/scripts/",
    "compiler": r"-m minicompile\.(distributed\.worker|profile\.own_process) |(?!\S*scripts/)\S+\.py( |$)",
}
READ_AT_IMPORT = r"(TORCH|TRITON)\w*(?<!_DIR)"  # variables; a run with others than its parent's is not handed over
# Variables of a Snakemake's environment: the interpreter of its jobs, and of what these start to compile; a Python file
# to run before it begins.
JOBS_PYTHON, COMPILERS_PYTHON, RUN_FIRST = "FORKS_PYTHON", "FORKS_COMPILERS_PYTHON", "FORKS_RUN_FIRST"
# An interpreter that has what `HANDED_OVER` says run by the parent at `address`, and does all else itself.
PYTHON = """\
#!{python} -ISE
import os, re, sys
arguments = sys.argv[1:]
read = {{name: value for name, value in os.environ.items() if re.fullmatch({pattern!r}, name)}}
if not re.match({handed_over!r}, " ".join(arguments)) or read != {read!r}:
    os.execv({python!r}, [{python!r}, *arguments])
import json, socket
connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
request = json.dumps({{"arguments": arguments, "cwd": os.getcwd(), "environment": dict(os.environ)}})
socket.send_fds(connection, [b"!"], [0, 1, 2])
connection.sendall(request.encode() + b"\\n")
status = int(connection.makefile().readline())
if status < 0:
    os.kill(os.getpid(), -status)
sys.exit(status)
"""


class Forks:
    """The parent of forked runs of one target; started with the first run, ended by `close` or with this process."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._parent: subprocess.Popen | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="forks-")
        self._address = f"{self._folder.name}/socket"
        self._environment = dict(os.environ)

    def run(
        self,
        arguments: Sequence[str | Path],
        cwd: Path,
        environment: dict[str, str] | None = None,
        together: bool = False,
        timeout: float = 600,
    ) -> subprocess.CompletedProcess:
        """Run the target, and give back its stdout and its stderr.

        Args:
            arguments: those of the command line; for `script`, the path of the script comes first.
            cwd: the working directory of the run.
            environment: all of its variables; those of this process where None.
            together: stderr is written into stdout, in the order in which they were written.
            timeout: seconds after which the run and its children are killed.

        Raises:
            subprocess.TimeoutExpired: the run took longer.
        """
        self._start()
        variables = dict(os.environ if environment is None else environment)
        with (
            tempfile.TemporaryFile("w+") as out,
            tempfile.TemporaryFile("w+") as err,
            open(os.devnull) as nothing,
            socket.socket(socket.AF_UNIX) as connection,
        ):
            connection.connect(self._address)
            request = json.dumps({"arguments": list(map(str, arguments)), "cwd": str(cwd), "environment": variables})
            socket.send_fds(connection, [b"!"], [nothing.fileno(), out.fileno(), (out if together else err).fileno()])
            connection.sendall(request.encode() + b"\n")
            connection.settimeout(timeout)
            try:
                status = int(connection.makefile().readline())
            except TimeoutError:  # the parent sees the connection close, and ends the run
                raise subprocess.TimeoutExpired(arguments, timeout) from None
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(arguments, status, out.read(), err.read())

    def python(self) -> str:
        """The path of an interpreter that has what `HANDED_OVER` says run here."""
        self._start()
        path = Path(self._folder.name) / "python"
        if not path.exists():
            read = {name: value for name, value in self._environment.items() if re.fullmatch(READ_AT_IMPORT, name)}
            text = PYTHON.format(
                python=INTERPRETER,
                address=self._address,
                handed_over=HANDED_OVER[self._target],
                pattern=READ_AT_IMPORT,
                read=read,
            )
            path.write_text(text)
            path.chmod(0o755)
        return str(path)

    def close(self) -> None:
        """End the parent; runs that go on are not disturbed."""
        if self._parent:
            self._parent.stdin.close()
            self._parent.wait()
            self._parent = None
        self._folder.cleanup()

    def _start(self) -> None:
        if self._parent and self._parent.poll() is None:
            return
        Path(self._address).unlink(missing_ok=True)
        command = [INTERPRETER, __file__, self._target, self._address]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._parent = subprocess.Popen(command, env=self._environment, text=True, **pipes)
        if self._parent.stdout.readline() != "ready\n":
            raise RuntimeError(f"{' '.join(command)} ended with status {self._parent.wait()}")


@cache
def forks(target: str) -> Forks:
    """The parent that this process keeps for a target, to its end."""
    kept = Forks(target)
    atexit.register(kept.close)
    return kept


def script(name: str, *arguments: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess:
    """Run a script of the checkout, as one does by hand: `python scripts/name.py section.name=value ...`."""
    return forks("script").run([ROOT / f"scripts/{name}.py", *arguments], cwd)


def serve(target: str, address: str) -> None:
    """Import what the target needs, then fork for each connection until standard input ends."""
    for module in TARGETS[target]:
        with suppress(ImportError):
            import_module(module)
    gc.collect()
    gc.freeze()  # or each run's collector would look through all of it, and copy its pages
    gc.set_threshold(20_000, 20, 20)  # and through what it imports itself, again and again
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        print("ready", flush=True)
        while True:
            ready, _, _ = select.select([listening, sys.stdin], [], [])
            if sys.stdin in ready:
                return _reap(0)
            connection, _ = listening.accept()
            _reap(os.WNOHANG)
            if os.fork() == 0:
                listening.close()
                _answer(target, connection)
            connection.close()


def _reap(how: int) -> None:
    """Take leave of the runs that have ended, so that their time counts as this process's."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, how)[0]:
            continue


def _answer(target: str, connection: socket.socket) -> None:
    """Fork the run that a connection asks for, and tell its status; end the run when the connection ends before it."""
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile() as asked:
        request = json.loads(asked.readline())
    process = os.fork()
    if process == 0:
        connection.close()
        os._exit(_run(target, streams, **request))
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(process)
    if ended not in select.select([ended, connection], [], [])[0]:
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with suppress(BrokenPipeError):
        connection.sendall(f"{status}\n".encode())
    os._exit(0)


def _run(target: str, streams: list[int], arguments: list[str], cwd: str, environment: dict[str, str]) -> int:
    """Become the run; what a fresh interpreter would have done at its start is done here."""
    os.setsid()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    before = environment.get("PYTHONPATH", "").split(os.pathsep)
    module = target == "snakemake" or arguments[0] == "-m"
    first = cwd if module else os.path.dirname(os.path.abspath(arguments[0]))
    sys.path[:1] = [first, *(os.path.abspath(entry) for entry in before if entry)]
    status = 1
    try:
        if target == "snakemake":
            sys.argv = ["snakemake", *arguments]
            sys.executable = environment.get(JOBS_PYTHON, sys.executable)
            if RUN_FIRST in environment:
                runpy.run_path(environment[RUN_FIRST])
            import_module("snakemake.cli").main()
        elif module:
            sys.argv = arguments[1:]
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.executable = environment.get(COMPILERS_PYTHON, sys.executable)
            sys.argv = arguments
            runpy.run_path(arguments[0], run_name="__main__")
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return status


if __name__ == "__main__":
    serve(*sys.argv[1:])
