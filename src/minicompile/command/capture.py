"""Capture one model: write what was watched, its capture.json, its explorer and an annotation."""

import argparse
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch

from minicompile.command import add_target
from minicompile.exploring import write_pages
from minicompile.lowering.capture import as_capture
from minicompile.models import FORMS, CapturedModel, named
from minicompile.watching.model import call_arguments, watch_model
from minicompile.watching.watched import Watched
from minilab import LabError
from minilab.device import cpp_compiler, has_cpp_compiler
from minilab.pages.translations import LANGUAGES
from minimodel.writing.shipped import WEIGHTS, at_hand


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help=FORMS)
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: explored/MODEL)")
    add_target(parser)
    parser.add_argument("--train", action="store_true", help="compile the backward pass too")
    parser.add_argument("--dynamic", action="store_true", help="take all sizes as symbols from the start")
    parser.add_argument("--checkpoint", type=Path, help=WEIGHTS)
    parser.add_argument("--language", choices=LANGUAGES, default="en", help="language of the pages")


def run(arguments: argparse.Namespace) -> None:
    model = named(arguments.model, arguments.checkpoint or at_hand())
    asked = {"train": arguments.train, "dynamic": arguments.dynamic}
    settings = {**model.settings, **{name: True for name, given in asked.items() if given}}
    watched = watched_at_command(
        model, f"model {model.name}", target=arguments.target, assembly=True, verify=True, **settings
    )
    folder = arguments.out or Path("explored") / model.name
    print(write_pages([(watched, as_capture(watched))], folder, arguments.language))


def watched_at_command(model: CapturedModel, what: str, *, target: str, **settings: Any) -> Watched:
    """Watch the compile of a model that somebody names at a command; `watch_model` says which `settings` there are.

    Raises:
        LabError: the target is not here, no C++ compiler is, or the model fails without torch.compile too; the
            sentence calls it `what`. What torch.compile alone cannot do keeps its exception.
    """
    if target == "cpu" and not has_cpp_compiler():
        raise LabError(
            f"torch.compile needs a C++ compiler for this CPU, and {cpp_compiler()} is not here; install g++, name "
            "another in CXX, or ask for --target simulated, which builds no C++."
        )
    if target == "cuda" and torch.cuda.is_available():  # where it is not, watch_model says so
        model = model.to("cuda")
    try:
        return watch_model(model.module, model.inputs, target=target, **settings)
    except LabError:
        raise
    except Exception:
        refuse_what_fails_eager(model, what)
        raise


def refuse_what_fails_eager(model: CapturedModel, what: str) -> None:
    """Call the model without torch.compile. Raises `LabError` where that fails as well."""
    args, kwargs = call_arguments(model.module, model.inputs, model.kwargs)
    try:
        model.module(*args, **kwargs)
    except (Exception, SystemExit) as error:
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        raise LabError(
            f"{what} fails without torch.compile too: {shorten(said, 200, placeholder=' …')}; mend it or its inputs."
        ) from error
