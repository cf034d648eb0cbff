"""Capture one model: write its capture.json, its explorer and an annotation."""

import argparse
from pathlib import Path

from minicompile.explain.annotation.annotate import annotate
from minicompile.explain.explorer import render_explorer
from minicompile.explain.summary import render_summary
from minicompile.lowering.capture import TARGETS, capture
from minicompile.models import CHECKPOINT, FORMS, named
from minilab.files import write_json, write_text
from minilab.pages.translations import LANGUAGES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help=FORMS)
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: explored/MODEL)")
    parser.add_argument("--target", default="cpu", choices=TARGETS)
    parser.add_argument("--train", action="store_true", help="the backward pass too")
    parser.add_argument("--dynamic", action="store_true", help="sizes are symbols from the start")
    parser.add_argument("--checkpoint", type=Path, default=CHECKPOINT, help=f"of MiniGPT (default: {CHECKPOINT})")
    parser.add_argument("--language", choices=LANGUAGES, default="en", help="of the pages")


def run(arguments: argparse.Namespace) -> None:
    model = named(arguments.model, arguments.checkpoint)
    if arguments.target == "cuda":
        model = model.to("cuda")
    asked = {"train": arguments.train, "dynamic": arguments.dynamic}
    settings = {**model.settings, **{name: True for name, given in asked.items() if given}}
    made = capture(model.module, model.inputs, target=arguments.target, assembly=True, **settings)
    folder = arguments.out or Path("explored") / model.name
    write_json(folder / "capture.json", made)
    files = {"capture": "capture.json"}
    if made["graphs"]:
        files |= {"explorer": "explorer.html", "annotation": "annotation.md"}
        render_explorer(made, folder / files["explorer"], language=arguments.language)
        write_text(folder / files["annotation"], annotate(made, language=arguments.language))
    print(render_summary([{"capture": made, "files": files}], folder / "index.html", arguments.language))
