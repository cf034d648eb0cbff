"""Find every switch of Inductor's that changes the code of some models, by trying each."""

import argparse
from pathlib import Path

from minicompile.command import add_target
from minicompile.models import FORMS, named
from minicompile.switches import found_switches
from minilab.files import write_json
from minilab.pages.translations import LANGUAGES, Translations
from minimodel.writing.shipped import WEIGHTS, at_hand


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", metavar="MODEL", help=f"{FORMS}; the smallest first")
    add_target(parser, ("cpu", "simulated"))
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="tries at the same time (default: 1)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="also write switches.json there")
    parser.add_argument("--checkpoint", type=Path, help=WEIGHTS)
    parser.add_argument("--language", choices=LANGUAGES, default="en", help="language of the output")


def run(arguments: argparse.Namespace) -> None:
    words = Translations("minicompile.explain", "switches", arguments.language)
    models = [named(text, arguments.checkpoint or at_hand()) for text in arguments.models]
    found = found_switches(models, arguments.target, max(arguments.at_once, 1))
    for one in found["changes"]:
        moved = {f"{what}_{side}": one[what][place] for what in ("lines", "kernels") for place, side in enumerate("ab")}
        print(words("change", **one | moved))
    for one in found["fails"]:
        print(words("fail", **one))
    asks = ", ".join(f"{one['name']} {one['asks']}" for one in found["models"])
    print(words("told", torch=found["torch"], switches=found["switches"], asks=asks, count=len(found["changes"])))
    if arguments.out:
        write_json(arguments.out / "switches.json", found)
        print(arguments.out / "switches.json")
