"""Explain a kernel of a capture in prose."""

import argparse
from pathlib import Path

from minicompile.explain.annotation.annotate import annotate
from minicompile.explain.reading import FORMS, captures
from minilab.pages.translations import LANGUAGES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("capture", type=Path, metavar="CAPTURE", help=FORMS)
    parser.add_argument(
        "--kernel",
        metavar="NAME",
        help="a kernel's name in the generated code (default: the one that moves the most)",
    )
    parser.add_argument("--language", choices=LANGUAGES, default="en", help="language of the explanation")


def run(arguments: argparse.Namespace) -> None:
    chosen = {"kernel": arguments.kernel} if arguments.kernel else {}
    with captures(arguments.capture) as (capture,):
        print(annotate(capture, language=arguments.language, **chosen), end="")
