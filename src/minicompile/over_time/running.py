"""What runs in an environment: a capture of the model by the lab's own command, and a question to torch's settings."""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten

import minicompile
from minilab import LabError

PACKAGES = ("minilab", "minimodel", "minikernel", "minicompile")
SETTINGS = "import json; from minicompile.torch_private.settings import defaults; print(json.dumps(defaults()))"
OF_TORCH = ("TORCH", "TRITON", "PYTORCH")  # begin what sets torch's settings from outside


@contextmanager
def lab_on_path() -> Iterator[str]:
    """A folder to put on an interpreter's path, in which the lab is, and nothing else.

    Where it is installed beside this interpreter's torch, that torch would come along, so that links stand in.
    """
    root = Path(minicompile.__file__).parents[1]
    if not (root / "torch").exists():
        yield str(root)
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in PACKAGES:
            (Path(folder) / name).symlink_to(root / name)
        yield folder


def captured(python: Path, model: str, folder: Path, options: list[str]) -> Path:
    """Capture a model with an interpreter's torch; returns the file of what was watched.

    Args:
        python: the interpreter.
        model: as `minicompile capture` takes it.
        folder: where the capture and its pages are written.
        options: of that command.

    Raises:
        LabError: the capture fails, in the command's own sentence.
    """
    with lab_on_path() as path:
        _run(python, ["-m", "minicompile", "capture", model, "--out", str(folder), *options], path, os.environ)
    return folder / "watched.json.xz"


def settings(python: Path) -> dict[str, str]:
    """Inductor's settings where nobody sets any, by name, as `minicompile.torch_private.settings.defaults` tells them.

    Raises:
        LabError: the torch there cannot be asked.
    """
    unset = {name: value for name, value in os.environ.items() if not name.startswith(OF_TORCH)}
    with lab_on_path() as path:
        return json.loads(_run(python, ["-c", SETTINGS], path, unset).splitlines()[-1])


def _run(python: Path, arguments: list[str], path: str, environment) -> str:
    beside = [place for place in (environment.get("PYTHONPATH"),) if place]
    around = {**environment, "PYTHONPATH": os.pathsep.join([path, *beside])}
    done = subprocess.run([str(python), *arguments], capture_output=True, text=True, env=around)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or [f"it ended with {done.returncode}"]
        if lacking := re.match(r"ModuleNotFoundError: No module named '(\w+)", lines[-1]):
            raise LabError(
                f"{python} has no package {lacking[1]}, which the lab needs; install it there, or name the version "
                "alone, so that an environment is made for it."
            )
        raise LabError(shorten(lines[-1].removeprefix("Error: "), 400, placeholder=" …"))
    return done.stdout
