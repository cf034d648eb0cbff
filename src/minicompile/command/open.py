"""Write the page that shows a capture line by line, and open it in a browser."""

import argparse
import webbrowser
from pathlib import Path

from minicompile.explain.explorer import render_explorer
from minicompile.explain.reading import FORMS, captures
from minilab.pages.translations import LANGUAGES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("capture", type=Path, metavar="CAPTURE", help=FORMS)
    parser.add_argument("--page", type=Path, metavar="PATH", help="what to write (default: explorer.html beside it)")
    parser.add_argument("--no-browser", action="store_true", help="write the page only")
    parser.add_argument("--language", choices=LANGUAGES, default="en", help="language of the page")


def run(arguments: argparse.Namespace) -> None:
    page = arguments.page or arguments.capture.with_name("explorer.html")
    with captures(arguments.capture) as (capture,):
        made = render_explorer(capture, page, language=arguments.language)
    print(made)
    if not arguments.no_browser:
        webbrowser.open(made.resolve().as_uri())
