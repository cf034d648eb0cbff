"""A job that runs somebody's own code is run a second time inside the supervisor, which limits its time and memory.

The script that Snakemake started waits; the same script, started again with `INSIDE` in its environment, does the work.
Whatever becomes of it there, the one outside says it in one sentence that names whose code it was.
"""

import faulthandler
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from minilab.errors import LabError
from minilab.machine_failure import sentence_about
from minilab.sandbox.process import LONGEST_SECONDS, Confined, memory_limit, signal_name
from minilab.user_code import first_line

INSIDE = "MINIGPT_LAB_INSIDE"
# any number that no Python and no shell ends with by itself
SAID = 86  # the exit status of a job inside that has said what is wrong
GRACE_SECONDS = 3  # after its limit the process inside writes where it is into the log; a little later it is ended
Limits = Mapping[str, Any]  # `subject`: whose code it is; `seconds`, or None; `knob`: the key that holds them


def is_inside() -> bool:
    """Whether this process is the one inside."""
    return bool(os.environ.get(INSIDE))


def run_outside(limits: Limits, outputs: Iterable[str]) -> None:
    """Run this script again, inside, and wait for it.

    Raises:
        LabError: it ended without having done its work, and has not said why; or took more time or memory than it may.
        SystemExit: it has said why.
    """
    subject, seconds = limits["subject"], limits["seconds"] or LONGEST_SECONDS
    memory = memory_limit()
    with Confined([sys.executable, *sys.argv], memory, {**os.environ, INSIDE: "1"}) as process:
        ending = process.wait(seconds + GRACE_SECONDS)
        if ending is None:
            process.end()
            raise LabError(
                f"{subject} did not end within {seconds:g} seconds, the limit that {limits['knob']} sets; raise "
                "it, or see in the log where it was."
            )
    if ending.limit == "memory":
        raise LabError(f"{subject} took more than {memory / 1e9:,.1f} GB of memory, which is what it is given here.")
    if ending.limit == "processes":
        raise LabError(f"{subject} had more processes than a job is given.")
    # the sentence is in the log and on stderr already; a second one would hide it
    if ending.status == SAID:
        sys.exit(1)
    if ending.status is None or ending.status < 0:
        name = "SIGKILL" if ending.status is None else signal_name(ending.status)
        raise LabError(f"{subject} crashed its process ({name}); the log has where it was.")
    # 0 and no result: that code called exit() itself
    if ending.status or not all(Path(path).exists() for path in outputs):
        raise LabError(f"{subject} ended its process with exit status {ending.status}; code of yours must return.")


def say(sentence: str) -> None:
    """Log a refusal."""
    logging.getLogger("minilab").error("Error: %s", sentence)


def run_inside(main: Callable[[Any], None], job: Any, limits: Limits) -> None:
    """Do a script's work; end this process with `SAID` where it fails, in one sentence with the subject's name."""
    subject = limits["subject"]
    files = (one.stream for one in logging.getLogger().handlers if isinstance(one, logging.FileHandler))
    log: Any = next(files, sys.stderr)  # tracebacks are for the log alone, where the job has one
    faulthandler.enable(log)
    if limits["seconds"]:
        faulthandler.dump_traceback_later(min(limits["seconds"], LONGEST_SECONDS), file=log)
    try:
        main(job)
    except LabError as refusal:
        if refusal.__cause__:
            traceback.print_exception(refusal.__cause__, file=log)
        say(str(refusal) if limits["name"] in str(refusal) else f"{subject}: {refusal}")
    except (Exception, SystemExit) as failure:
        traceback.print_exc(file=log)
        sentence = sentence_about(failure)
        say(
            f"{subject}: {sentence}"
            if sentence
            else f"{subject} failed with {first_line(failure)}; the log has its traceback."
        )
    else:
        faulthandler.cancel_dump_traceback_later()
        return
    sys.stderr.flush()
    os._exit(SAID)  # what that code left to be done at exit is its own affair
