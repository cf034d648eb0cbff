"""The frame of every script: under Snakemake or by hand, with one log and one-sentence refusals.

A script of a rule ends in

    if __name__ == "__main__":
        run(main, globals().get("snakemake"))

where `main(job)` reads `job.input`, `job.output`, `job.params`, `job.wildcards`, `job.threads`, and `job.config`, the
whole configuration, with which the artefacts that it reads must have been made (by hand: none without `config=FILE`).
By hand the same script takes the same names as plain arguments, values in YAML:

    python scripts/train.py input.corpus=corpus.txt output.training=/tmp/training.json params.seed=42
"""

import atexit
import gc
import logging
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from minilab.device import do_without_cuda
from minilab.errors import LabError
from minilab.gpu_lock import gpu_lock
from minilab.machine_failure import sentence_about
from minilab.records.inputs import look_at_inputs
from minilab.records.sources.content import noting
from minilab.sandbox.job import is_inside, run_inside, run_outside, say
from minilab.surroundings import settle_code
from minilab.yaml_files import parse_yaml, read_yaml

SECTIONS = ("input", "output", "params", "wildcards", "resources")


class Section(SimpleNamespace):
    """Named values, read like Snakemake's own: `section.name`, or `section.get(name)` where it may be absent."""

    def get(self, name: str, default: object = None) -> object:
        return getattr(self, name, default)


def parse_arguments(arguments: list[str]) -> SimpleNamespace:
    """Turn `section.name=value` arguments into the object that a script's `main` takes.

    Raises:
        LabError: an argument is not of that form.
    """
    job = SimpleNamespace(**{section: Section() for section in SECTIONS}, threads=1, log=[], config=None)
    for argument in arguments:
        key, equals, value = argument.partition("=")
        section, dot, name = key.partition(".")
        if equals and key == "threads":
            job.threads = _whole(value)
        elif equals and key == "log":
            job.log = [value]
        elif equals and key == "config":
            job.config = read_yaml(value)
        elif equals and dot and section in SECTIONS:
            setattr(getattr(job, section), name, parse_yaml(value, f"argument {argument!r}"))
        else:
            raise LabError(
                f"argument {argument!r} is not understood; write section.name=value with a section "
                f"out of {', '.join(SECTIONS)}, or threads=N, log=FILE, or config=FILE."
            )
    return job


def _whole(value: str) -> int:
    if not (value.isascii() and value.isdecimal()):
        raise LabError(f"threads={value} is no number of threads; write a whole number, for example threads=1.")
    return int(value)


def set_up_logging(log: str | None, job: str) -> None:
    """Send log records to stderr, where `job` names them on a terminal, and, when given, to the job's own log file."""
    handlers: list[logging.Handler] = [_stderr_handler(job)]
    if log:
        Path(log).parent.mkdir(parents=True, exist_ok=True)
        handlers.append(LogFile(log, "a" if is_inside() else "w"))
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=handlers, force=True)
    logging.captureWarnings(True)
    do_without_cuda()


class LogFile(logging.FileHandler):
    """A job's log; where it cannot be written (its disk is full), the job ends with the OSError that says so."""

    def __init__(self, path: str, mode: str) -> None:
        if mode == "w":
            Path(path).write_bytes(b"")
        super().__init__(path, mode="a", encoding="utf-8")  # which a job's two processes write to
        self.lost = False

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self.lost:  # what is logged about that itself cannot be written either
            self.lost = True
            error.filename = self.baseFilename
            raise error

    def close(self) -> None:
        try:
            super().close()
        except OSError:  # what could not be written cannot be flushed; handleError has said so
            self.stream = None


def _stderr_handler(job: str) -> logging.Handler:
    if not sys.stderr.isatty():
        return logging.StreamHandler(sys.stderr)
    from minilab.progress import TerminalHandler  # rich takes longer to import than many a script to run

    return TerminalHandler(job)


def _files(job: Any, section: str) -> list[str]:
    """The paths of a job's inputs or outputs."""
    held = getattr(job, section, ())
    return [str(path) for path in (vars(held).values() if isinstance(held, Section) else held)]


def _end_quickly() -> None:
    """A third of what importing torch takes would go into looking for garbage as it ends. Triton 3.9's library holds
    what is not looked for to be lost, and writes thirty lines about it."""
    if "triton._C.libtriton" not in sys.modules:
        gc.freeze()


def run(main: Callable[[Any], None], snakemake: Any | None) -> None:
    """Run `main` on Snakemake's job object, or on the command line's arguments when there is none.

    A `LabError` ends the process with its sentence and status 1, and so do a full disk and memory that is used up;
    any other exception leaves its traceback in the log as well as on stderr.
    """
    atexit.register(_end_quickly)
    settle_code()
    # it computes with NumPy, and rows of proofs are there to overflow
    warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"triton\.runtime\.interpreter")
    try:
        job = snakemake if snakemake is not None else parse_arguments(sys.argv[1:])
        set_up_logging(job.log[0] if len(job.log) else None, getattr(job, "rule", Path(sys.argv[0]).stem))
        limits: Any = getattr(job, "params", Section()).get("users_code")  # of a job that runs somebody's code
        if limits and is_inside():
            run_inside(main, job, limits)
            return
        lock = job.resources.get("gpu_lock") if job.resources.get("gpu") else None  # named by profiles/gpu
        with gpu_lock(lock) if lock else nullcontext():
            look_at_inputs(getattr(job, "input", ()))
            inputs, outputs = _files(job, "input"), _files(job, "output")
            content: Any = getattr(job, "params", Section()).get("content")
            with noting(content, inputs, outputs):
                if limits:
                    run_outside(limits, outputs)
                else:
                    main(job)
    except LabError as error:
        say(str(error))
        sys.exit(1)
    except Exception as error:
        if sentence := sentence_about(error):
            say(sentence)
            sys.exit(1)
        logging.getLogger("minilab").error("%s", traceback.format_exc())
        sys.exit(1)
