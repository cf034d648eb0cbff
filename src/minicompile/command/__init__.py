"""The command `minicompile`: what torch.compile makes of a model, for a shell.

Each subcommand is a module with a docstring, whose first line is its help, `add_arguments(parser)` and
`run(arguments)`. It is imported when it is asked for, or for `--help`.
"""

import argparse
import importlib
import importlib.util
import sys
from pathlib import Path
from textwrap import shorten
from types import ModuleType

from minilab import ConfigError, LabError
from minilab.yaml_files import given_text, parse_yaml

COMMANDS = {
    "explore": "minicompile.command.explore",
    "capture": "minicompile.command.capture",
    "annotate": "minicompile.command.annotate",
    "diff": "minicompile.command.diff",
    "step": "minicompile.step",
    "what-if": "minicompile.what_if",
}

MODEL_KEYS = {"source", "factory", "train", "dynamic", "options", "kwargs"}  # of minicompile.models.user_model


def commands() -> dict[str, str]:
    """The subcommands that are there, each with its module."""
    return {name: module for name, module in COMMANDS.items() if importlib.util.find_spec(module)}


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    there = commands()
    parser = argparse.ArgumentParser(prog="minicompile", description="What torch.compile makes of a model.")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    asked = there.keys() & set(given[:1]) or there  # of one command its module alone is imported
    for name in there:
        if name in asked:
            _added(subparsers, name, importlib.import_module(there[name]))
    chosen = parser.parse_args(given)
    try:
        if hasattr(chosen, "model"):
            _refuse_bad_configuration(chosen.model)
        if getattr(chosen, "out", None) is not None:
            importlib.import_module("minicompile.exploring").made_folder(chosen.out)
        return int(importlib.import_module(there[chosen.command]).run(chosen) or 0)
    except LabError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1


def _refuse_bad_configuration(name: str) -> None:
    """Refuse a config.yaml, in whatever folder the command is called, that says nothing of a model or nonsense.

    Raises:
        ConfigError: it is no YAML, or its `models`, or the entry of the model that is asked for, cannot be.
    """
    path = Path("config.yaml")
    if ":" in name or not path.is_file():
        return
    held = parse_yaml(given_text(path, "YAML"), str(path))
    models = held.get("models") if isinstance(held, dict) else held
    entry = models.get(name) if isinstance(models, dict) else None
    for where, value in (("models", models), (f"models.{name}", entry)):
        if value is not None and not isinstance(value, dict):
            raise ConfigError(f"{path}: {where} is {shorten(repr(value), 60)}; write a mapping, or another name.")
    if entry is not None and ("source" not in entry or entry.keys() - MODEL_KEYS):
        raise ConfigError(f"{path}: models.{name} needs source, and takes {', '.join(sorted(MODEL_KEYS))}; mend it.")


def _added(subparsers: "argparse._SubParsersAction", name: str, module: ModuleType) -> None:
    first = (module.__doc__ or "").strip().split("\n")[0]
    parser = subparsers.add_parser(name, help=first, description=first)
    module.add_arguments(parser)
