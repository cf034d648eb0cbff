"""Run a Python script, unchanged, and show what torch.compile made in it."""

import argparse
import builtins
import concurrent.futures.thread
import importlib.util
import multiprocessing
import os
import pkgutil
import runpy
import sys
import threading
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType

from minicompile.exploring import VERIFY, explore, say
from minilab import LabError
from minilab.pages.translations import LANGUAGES

OUT = Path("explored")
INTERRUPTED = 130  # the exit status of a script that Ctrl-C ended


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=Path, default=OUT, metavar="DIR", help=f"where to write (default: {OUT}; a folder for each rank)"
    )
    parser.add_argument("--language", choices=LANGUAGES, default="en", help="language of the pages")
    parser.add_argument("--assembly", action="store_true", help="show the machine code of the kernels too")
    parser.add_argument(
        "--verify", choices=VERIFY, default="some", help="run what was generated beside the graphs: some is 20 seconds"
    )
    parser.add_argument("-m", action="store_true", dest="module", help="SCRIPT is a module, as with python -m")
    parser.add_argument("script", metavar="SCRIPT", help="a Python file, run as python would run it")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="the script's own arguments")


def run(arguments: argparse.Namespace) -> int:
    """Run the script as `__main__`; its exit status and its exceptions are kept, and what was seen is written."""
    script: str = arguments.script
    seen = None
    with _as_main(script, arguments.module, arguments.args):
        try:
            asked = {name: getattr(arguments, name) for name in ("language", "assembly", "verify")}
            with explore(_folder(arguments.out), **asked) as seen:
                if arguments.module:
                    runpy.run_module(script, run_name="__main__", alter_sys=True)
                else:
                    _run_file(script)
                _end_threads_and_processes()
        except (SystemExit, GeneratorExit):
            raise
        except BaseException as error:
            if seen is None:  # nothing ran
                raise
            trace = _own(error.__traceback__)
            sys.excepthook(type(error), error.with_traceback(trace), trace)
            return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
        finally:
            if seen is not None and seen.index is not None:
                say(f"minicompile: {seen.index} tells what was compiled")
    return 0


def _run_file(script: str) -> None:
    """Run a script, a folder or an archive as python would: it knows its file by the whole path, also when it has
    gone to another folder, and its arguments begin with what was typed."""
    path = os.path.abspath(script)
    if pkgutil.get_importer(path) is not None or path.endswith(".pyc"):  # a folder, an archive or compiled code
        runpy.run_path(script, run_name="__main__")
        return
    main, before = ModuleType("__main__"), sys.modules["__main__"]
    loader = SourceFileLoader("__main__", path)
    main.__dict__.update(__file__=path, __cached__=None, __loader__=loader, __annotations__={}, __builtins__=builtins)
    sys.modules["__main__"] = main
    try:
        exec(compile(loader.get_data(path), path, "exec", dont_inherit=True), main.__dict__)
    finally:
        sys.modules["__main__"] = before


def _end_threads_and_processes() -> None:
    """Wait for threads, and for processes that multiprocessing started, as Python does at its end, so that they are
    seen whole."""
    pooled = getattr(concurrent.futures.thread, "_threads_queues", {})  # idle ones end when Python tells them to
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread() and thread not in pooled:
            thread.join()
    for process in multiprocessing.active_children():
        if process.daemon:
            process.terminate()
        process.join()


@contextmanager
def _as_main(script: str, module: bool, args: list[str]):
    """The arguments and the import path that python would give a script.

    Raises:
        LabError: there is no such script or module.
    """
    before = sys.argv, list(sys.path)
    sys.path.insert(0, os.getcwd() if module else str(_existing(script).resolve().parent))
    sys.argv = [script, *args]
    try:
        if module and not _is_module(script):
            raise LabError(f"there is no module {script}; give a module's name as python -m takes it.")
        yield
    finally:
        sys.argv, sys.path[:] = before


def _existing(script: str) -> Path:
    path = Path(script)
    if path.is_dir() and not (path / "__main__.py").is_file():
        raise LabError(f"{script} is a folder without a __main__.py; give the path of a Python script.")
    if not path.exists():
        raise LabError(f"{script} does not exist; give the path of a Python script, or -m and a module's name.")
    return path


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of a package above it
        return False


def _folder(out: Path) -> Path:
    """Where a script that may change its folder writes; each process of a distributed run has a folder of its own."""
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    return out.resolve() / f"rank_{os.environ['RANK']}" if ranks > 1 and "RANK" in os.environ else out.resolve()


def _own(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from the script's first frame on, as python would show it; None where it has none."""
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") == "__main__" and trace.tb_frame.f_code.co_name == "<module>":
            return trace
        trace = trace.tb_next
    return None  # it was not begun: Python cannot read it, say
