"""Run a Python script, unchanged, and show what torch.compile made in it."""

import argparse
import runpy
import sys
from pathlib import Path

from minicompile.exploring import explore
from minilab import LabError
from minilab.translations import LANGUAGES

OUT = Path("explored")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help=f"where to write (default: {OUT})")
    parser.add_argument("--language", choices=LANGUAGES, default="en", help="of the pages")
    parser.add_argument("script", type=Path, help="a Python file, run as python would run it")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="the script's own arguments")


def run(arguments: argparse.Namespace) -> int:
    """Run the script as `__main__`; its exit status and its exceptions are kept, and what was seen is written."""
    script: Path = arguments.script
    if not script.is_file():
        raise LabError(f"{script} does not exist; give the path of a Python script.")
    before = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments.args]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        with explore(arguments.out, language=arguments.language) as seen:
            runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.argv, sys.path[:] = before
        if seen.index is not None:
            print(f"minicompile: {seen.index} tells what was compiled", file=sys.stderr)
    return 0
