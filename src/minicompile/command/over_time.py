"""Compile one model under several versions of torch, each in its environment, and tell what changed and why."""

import argparse
import re
import sys
from pathlib import Path

from minicompile.command import add_target
from minicompile.explain.capture_diff import diff_compiles
from minicompile.explain.capture_diff_text import described
from minicompile.explain.over_time import over_time, render_over_time, told
from minicompile.explain.over_time.compared import Made
from minicompile.explain.reading import captures
from minicompile.over_time.environments import Wanted, interpreter, kept_in, wanted
from minicompile.over_time.running import captured, settings
from minilab import LabError
from minilab.files import write_json, write_text
from minilab.pages.translations import LANGUAGES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", metavar="MODEL", help="as `minicompile capture` takes it: tiny_head, or FILE.py:FACTORY"
    )
    parser.add_argument(
        "--torch",
        required=True,
        metavar="VERSIONS",
        help="2.11,2.13,2.15, say; of 2.15=/path/to/python that interpreter's torch is taken",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: explored/over_time/MODEL)")
    parser.add_argument(
        "--environments",
        type=Path,
        metavar="DIR",
        help=f"where the environments are kept (default: {kept_in()})",
    )
    add_target(parser)
    parser.add_argument("--train", action="store_true", help="compile the backward pass too")
    parser.add_argument("--dynamic", action="store_true", help="take all sizes as symbols from the start")
    parser.add_argument("--checkpoint", type=Path, help="weights of MiniGPT, as `minicompile capture` takes them")
    parser.add_argument("--language", choices=LANGUAGES, default="en", help="language of pages and output")


def run(arguments: argparse.Namespace) -> int:
    """Write each version's capture, their comparison as data and as a page; 1 where a version has no capture."""
    versions = wanted(arguments.torch)
    out = arguments.out or Path("explored/over_time") / (re.sub(r"\W+", "_", arguments.model).strip("_") or "model")
    kept = (arguments.environments or kept_in()).expanduser().absolute()
    made = [_made(one, arguments, out, kept) for one in versions]
    if all(one["capture"] is None for one in made):
        said = dict.fromkeys(str(one["failed"]) for one in made)
        raise LabError(said.popitem()[0] if len(said) == 1 else "no version has a capture: " + " ".join(said))
    found = over_time(made)
    there = {one["asked"]: one["capture"] for one in made if one["capture"] is not None}
    for step in found["steps"]:
        step["diff"] = f"{step['before']}_{step['after']}.md"
        diff = diff_compiles(there[step["before"]], there[step["after"]])
        write_text(out / step["diff"], described(diff, arguments.language))
    write_json(out / "over_time.json", found)
    render_over_time(found, out / "over_time.html", arguments.language)
    print(told(found, arguments.language))
    print(out / "over_time.html")
    return int(any(one["failed"] for one in made))


def _made(one: Wanted, arguments: argparse.Namespace, out: Path, kept: Path) -> Made:
    """What became of one version; a failure is told at once, and the others go on."""
    options = ["--target", arguments.target, "--language", arguments.language]
    options += [f"--{name}" for name in ("train", "dynamic") if getattr(arguments, name)]
    options += ["--checkpoint", str(arguments.checkpoint)] if arguments.checkpoint else []
    try:
        python = interpreter(one, kept)
        print(f"torch {one.version}: {python}", file=sys.stderr)
        watched = captured(python, arguments.model, out / one.version, options)
        with captures(watched) as (capture,):
            made: Made = {"asked": one.version, "capture": capture, "failed": None}
        made["explorer"] = f"{one.version}/explorer.html"
    except LabError as error:
        print(f"torch {one.version}: {error}", file=sys.stderr)
        return {"asked": one.version, "capture": None, "failed": str(error)}
    try:
        made["settings"] = settings(python)
    except LabError as error:  # a torch whose settings are kept elsewhere: its capture stands
        print(f"torch {one.version}: its settings cannot be read: {error}", file=sys.stderr)
    return made
