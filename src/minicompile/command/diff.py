"""Compare two captures: what appeared, vanished or was fused differently, and why."""

import argparse
import json
from pathlib import Path

from minicompile.explain.capture_diff import diff_compiles
from minicompile.explain.capture_diff_text import described
from minicompile.explain.reading import FORMS, captures
from minilab.pages.translations import LANGUAGES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", type=Path, metavar="BEFORE", help=FORMS)
    parser.add_argument("after", type=Path, metavar="AFTER", help="the capture to compare with it")
    parser.add_argument("--json", action="store_true", help="print it as data (schemas/diff_compiles.schema.yaml)")
    parser.add_argument("--language", choices=LANGUAGES, default="en", help="language of the text")


def run(arguments: argparse.Namespace) -> None:
    with captures(arguments.before, arguments.after) as (before, after):
        found = diff_compiles(before, after)
    print(json.dumps(found, indent=1, ensure_ascii=False) if arguments.json else described(found, arguments.language))
