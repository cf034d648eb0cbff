"""Runs a script and kills it, as `kill -9` does, at its so many-th call of a C function since it began to write.

    python killed_at.py COUNT MOMENT script.py argument ...

COUNT is a file that gets the number of these calls where the script ends by itself, as it does where MOMENT is `none`.
So a moment is a place in what the script does, the same on every machine.
"""

import os
import runpy
import signal
import sys
import threading
from pathlib import Path

count, moment, script = sys.argv[1:4]
sys.argv = sys.argv[3:]
last = None if moment == "none" else int(moment)
calls = 0


def profile(frame: object, event: str, argument: object) -> None:
    """Count a call, and end with it when it is the last."""
    global calls
    if event == "c_call":
        calls += 1
        if calls == last:
            os.kill(os.getpid(), signal.SIGKILL)


def writes(event: str, arguments: tuple) -> None:
    """Begin to count where a file is opened to be written under the working directory."""
    if event == "open" and isinstance(arguments[0], str) and isinstance(arguments[2], int):
        inside = os.path.abspath(arguments[0]).startswith(os.getcwd() + os.sep)
        if inside and arguments[2] & (os.O_WRONLY | os.O_RDWR) and "__pycache__" not in arguments[0]:
            sys.setprofile(profile)
            threading.setprofile(profile)


sys.addaudithook(writes)
sys.path[0] = str(Path(script).resolve().parent)
runpy.run_path(script, run_name="__main__")
sys.setprofile(None)
Path(count).write_text(str(calls))
