"""Run a function in a process of its own, because a user's kernel inside it may crash it, hang it or poison the GPU.

A segmentation fault, `sys.exit`, or an illegal address that ruins a CUDA context ends that process and nothing
else; one that does not return is ended, with all that it started, at a time limit. What became of it comes back
as a reason, with what it printed in the log.

Nothing uses it any more: users' kernels are judged from outside, by `minikernel.judge`. Until the bench is measured
again it stays, with the branch of `scripts/bench_kernel.py` and `bench_users_kernel` of `minikernel.measure.bench` that
name it, because the records of the bench hold its digest.
"""

import faulthandler
import importlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

from minikernel.reasons import Reason, of_exception, place_in_words
from minilab import LabError
from minilab.files import read_json, write_json

GRACE_SECONDS = 5  # after its limit the process ends itself and says where it was; a little later it is killed
REAPING_SECONDS = 60  # a GPU takes a while to drop what a killed process was running
PRINTED_BYTES = 1 << 13  # of the last that it printed, kept for the log
CALL, WHERE, RESULT = "call.json", "where.json", "result.json"  # in the sandbox's folder
log = logging.getLogger("minilab")


class Outcome(NamedTuple):
    """What a function returned, or the reason why it did not."""

    value: Any
    reason: Reason | None


def run_in_sandbox(
    function: str, arguments: dict, kernel: str, device: str, time_limit_seconds: float, knob: str
) -> Outcome:
    """Call a function in a fresh process and wait for it, however it ends.

    Args:
        function: `module:name` of a function that returns plain data. It is called with `arguments` and with
            `announce`, which it calls with the place of what it is about to do; a reason names the last one.
        arguments: keyword arguments, plain data.
        kernel, device: the user's kernel and the torch device that it runs on, for the reason and the log.
        time_limit_seconds: the process is ended there.
        knob: the key of the configuration that holds the limit, for the reason.

    Raises:
        LabError: the process cannot be ended, so that nothing measured beside it could be trusted.
    """
    subject = place_in_words({"code": "subject", "kernel": kernel, "device": device})
    with tempfile.TemporaryDirectory(prefix="sandbox-") as folder:
        where, result = Path(folder, WHERE), Path(folder, RESULT)
        call = {"function": function, "arguments": arguments, "time_limit_seconds": time_limit_seconds}
        write_json(Path(folder, CALL), call)
        write_json(where, {"code": "begin", "kernel": kernel, "device": device})
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "minikernel.proof.sandbox", folder],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdout is not None
        printed = bytearray()
        reader = threading.Thread(target=_keep_tail, args=(process.stdout, printed), daemon=True)
        reader.start()
        try:
            with suppress(subprocess.TimeoutExpired):
                process.wait(time_limit_seconds + GRACE_SECONDS)
        finally:
            hung = time.monotonic() - began >= time_limit_seconds
            _end(process, subject)
        reader.join(GRACE_SECONDS)
        if printed:
            log.info("%s printed:\n%s", subject, printed.decode(errors="replace").strip())
        if result.exists():
            return Outcome(**read_json(result))
        ending = {"code": "timed_out", "seconds": time_limit_seconds, "knob": knob} if hung else _ending(process)
        return Outcome(None, {**ending, "at": read_json(where)})


def _keep_tail(stream: IO[bytes], tail: bytearray) -> None:
    """Read a stream to its end, so that its writer never waits, and keep the last of it."""
    for piece in iter(partial(os.read, stream.fileno(), PRINTED_BYTES), b""):
        tail += piece
        del tail[:-PRINTED_BYTES]


def _end(process: subprocess.Popen, subject: str) -> None:
    """Kill whatever is left of a process and of what it started, and wait until it is gone."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(REAPING_SECONDS)
    except subprocess.TimeoutExpired:
        raise LabError(
            f"{subject} hangs in process {process.pid}, which cannot be ended, and nothing can be measured beside "
            "it; free the device, then mend the kernel or take it out of the configuration."
        ) from None


def _ending(process: subprocess.Popen) -> Reason:
    """The reason of a process that ended without a result."""
    status = process.returncode
    if status >= 0:
        return {"code": "exited", "status": status}
    name = signal.Signals(-status).name
    return {"code": "killed" if name == "SIGKILL" else "crashed", "signal": name}


def _call(folder: Path) -> None:
    """Make the call that `folder` describes and leave its outcome there; the process is the sandbox."""
    call = read_json(folder / CALL)
    faulthandler.enable()
    # Also when nobody is left to kill it; a thread of C runs this, so that code that holds the GIL cannot stop it.
    faulthandler.dump_traceback_later(call["time_limit_seconds"], exit=True)
    module, name = call["function"].split(":")
    value, reason = None, None
    try:
        function = getattr(importlib.import_module(module), name)
        value = function(**call["arguments"], announce=partial(write_json, folder / WHERE))
    except LabError as refusal:
        if refusal.__cause__:  # what the kernel itself raised, with the place in its file
            traceback.print_exception(refusal.__cause__)
        reason = of_exception(refusal)
    except (Exception, SystemExit) as failure:
        traceback.print_exc()
        reason = {**of_exception(failure), "at": read_json(folder / WHERE)}
    write_json(folder / RESULT, {"value": value, "reason": reason})
    os._exit(0)  # what the kernel left to be done at exit is its own affair


if __name__ == "__main__":
    _call(Path(sys.argv[1]))
