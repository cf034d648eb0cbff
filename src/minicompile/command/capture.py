"""Capture one model: write what was watched, its capture.json, its explorer and an annotation."""

import argparse
from pathlib import Path
from textwrap import shorten

from minicompile.command import add_target
from minicompile.exploring import write_pages
from minicompile.lowering.capture import as_capture
from minicompile.models import CHECKPOINT, FORMS, CapturedModel, named
from minicompile.watching.model import call_arguments, watch_model
from minilab import LabError
from minilab.pages.translations import LANGUAGES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help=FORMS)
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: explored/MODEL)")
    add_target(parser)
    parser.add_argument("--train", action="store_true", help="compile the backward pass too")
    parser.add_argument("--dynamic", action="store_true", help="take all sizes as symbols from the start")
    parser.add_argument(
        "--checkpoint", type=Path, default=CHECKPOINT, help=f"MiniGPT's weights (default: {CHECKPOINT})"
    )
    parser.add_argument("--language", choices=LANGUAGES, default="en", help="language of the pages")


def run(arguments: argparse.Namespace) -> None:
    model = named(arguments.model, arguments.checkpoint)
    if arguments.target == "cuda":
        model = model.to("cuda")
    asked = {"train": arguments.train, "dynamic": arguments.dynamic}
    settings = {**model.settings, **{name: True for name, given in asked.items() if given}}
    try:
        watched = watch_model(model.module, model.inputs, target=arguments.target, assembly=True, **settings)
    except LabError:
        raise
    except Exception:
        _refuse_what_fails_eager(model)
        raise  # what torch.compile alone cannot do
    folder = arguments.out or Path("explored") / model.name
    print(write_pages([(watched, as_capture(watched))], folder, arguments.language))


def _refuse_what_fails_eager(model: CapturedModel) -> None:
    """Call the model without torch.compile. Raises `LabError` where that fails as well."""
    args, kwargs = call_arguments(model.module, model.inputs, model.kwargs)
    try:
        model.module(*args, **kwargs)
    except Exception as error:
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        raise LabError(
            f"model {model.name} fails without torch.compile too: {shorten(said, 200, placeholder=' …')}; mend the "
            "model or its inputs."
        ) from error
