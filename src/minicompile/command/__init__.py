"""The command `minicompile`: what torch.compile makes of a model, for a shell.

It knows how each question is asked in a shell, and refuses in one sentence. It does not know the answers, which the
modules of the package find. Each subcommand is a module with a docstring, whose first line is its help,
`add_arguments(parser)` and `run(arguments)`. It is imported when it is asked for, or for `--help`.
"""

import argparse
import importlib
import os
import platform
import sys
from collections.abc import Iterable
from importlib import metadata
from types import ModuleType

from minilab import LabError

TARGETS = {"cpu": "C++", "cuda": "Triton, on the GPU here", "simulated": "Triton for an H200 that is not here"}
COMMANDS = {
    "show": "minicompile.command.show",
    "explore": "minicompile.command.explore",
    "capture": "minicompile.command.capture",
    "annotate": "minicompile.command.annotate",
    "diff": "minicompile.command.diff",
    "open": "minicompile.command.open",
    "over-time": "minicompile.command.over_time",
    "step": "minicompile.step",
    "what-if": "minicompile.flipping",
    "switches": "minicompile.command.switches",
    "doctor": "minicompile.command.doctor",
}

PROJECT = "minigpt-lab"  # as it is installed
ENOUGH_SEEN = 141  # the exit status of a program that nobody reads on, as a shell gives it


def add_target(parser: argparse.ArgumentParser, among: Iterable[str] = tuple(TARGETS)) -> None:
    """Add the option --target, which takes one of `TARGETS`."""
    said = ", ".join(f"{target} ({what})" for target, what in TARGETS.items() if target in among)
    parser.add_argument("--target", default="cpu", choices=tuple(among), help=f"compile for {said}; default: cpu")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="minicompile", description="Show what torch.compile makes of a model.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {version()}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    asked = COMMANDS.keys() & set(given[:1]) or COMMANDS  # of one command its module alone is imported
    if given[:1] == ["--version"]:
        asked = set()
    for name in COMMANDS:
        if name in asked:
            _added(subparsers, name, importlib.import_module(COMMANDS[name]))
    chosen = parser.parse_args(given)
    try:
        if getattr(chosen, "out", None) is not None:
            importlib.import_module("minicompile.exploring").made_folder(chosen.out)
        status = int(importlib.import_module(COMMANDS[chosen.command]).run(chosen) or 0)
        sys.stdout.flush()
        return status
    except LabError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes at its end
        return ENOUGH_SEEN


def version() -> str:
    """The lab's version, and torch's and Python's, as they are installed: nothing is imported."""
    found = {}
    for name in (PROJECT, "torch"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "that is not installed"
    return f"{found[PROJECT]} (torch {found['torch']}, Python {platform.python_version()})"


def _added(subparsers: "argparse._SubParsersAction", name: str, module: ModuleType) -> None:
    first = (module.__doc__ or "").strip().split("\n")[0]
    parser = subparsers.add_parser(name, help=first, description=first)
    module.add_arguments(parser)
