"""What the lab's web pages share: the base style sheet and palette, and how files and data are put into a page.

The explorer and the front door are each one file that works offline, so styles, programs and data are embedded.
"""

import json
from importlib import resources

from markupsafe import Markup

from minilab.pages.style import FAINT, INK, PALETTE


def asset(package: str, name: str) -> str:
    """Read a file in a package's `page` folder."""
    return resources.files(package).joinpath("page", name).read_text(encoding="utf-8")


def base_style() -> Markup:
    """Write the style sheet that every page starts from, with the pictures' palette as its variables."""
    hues = {"ink": INK, "faint": FAINT, **{name.lower().replace(".", "-"): hue for name, hue in PALETTE.items()}}
    variables = " ".join(f"--{name}: {hue};" for name, hue in hues.items())
    return Markup(f":root {{ {variables} }}\n{asset('minilab.pages', 'base.css')}")


def script_text(*parts: tuple[str, str]) -> Markup:
    """Join programs out of several packages' `page` folders, given as (package, name) each."""
    return Markup("\n".join(asset(package, name) for package, name in parts))


def embedded_json(data: object) -> Markup:
    """Write data as JSON that can stand inside a script element: no text in it ends the element."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))
