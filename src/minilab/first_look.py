"""The command `python -m minilab.first_look`: one page of what the records show; nothing is trained or compiled for it.

What it shows is in `minicompile.report.first_look`, above this package; of the whole lab only the name is here.
"""

import argparse
import sys
from contextlib import chdir
from pathlib import Path

from minicompile.report.first_look.page import PAGE, write_first_look
from minicompile.report.first_look.records import is_checkout, recorded
from minilab.config.check import check_config, read_schema
from minilab.errors import LabError
from minilab.pages.translations import LANGUAGES
from minilab.yaml_files import read_yaml

CONFIG = Path("config.yaml")
BROUGHT = Path(__file__).parent / "lab"  # what an installed package brings of a checkout: its configuration and records


def main(arguments: list[str] | None = None) -> int:
    """Run the command, in the lab's folder or wherever the package is installed; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m minilab.first_look", description=(__doc__ or "").split(": ", 1)[1])
    parser.add_argument("--page", type=Path, default=PAGE, metavar="FILE", help=f"what to write (default: {PAGE})")
    parser.add_argument("--language", choices=LANGUAGES, help="of the page (default: the configuration's)")
    given = parser.parse_args(arguments)
    page = given.page.absolute()
    try:
        with chdir(BROUGHT if not CONFIG.exists() and BROUGHT.exists() else "."):
            if not CONFIG.exists():
                raise LabError(
                    f"there is no {CONFIG} in {Path.cwd()}; run it in the lab's folder, as `git clone` made it."
                )
            config = read_yaml(CONFIG)
            if is_checkout():
                check_config(config, read_schema("schemas/config.schema.yaml"))
            write_first_look(recorded(config), config, page, given.language)
    except LabError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    print(given.page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
