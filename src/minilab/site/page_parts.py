"""One look for all pages: the colours, fonts and controls that the explorer and the lab's front door share."""

import json
from importlib import resources

from markupsafe import Markup

from minilab.style import FAINT, INK, PALETTE


def asset(package: str, name: str) -> str:
    """The text of a file in a package's `page` folder."""
    return resources.files(package).joinpath("page", name).read_text(encoding="utf-8")


def base_style() -> Markup:
    """The style sheet that every page starts from, the pictures' palette as its variables."""
    hues = {"ink": INK, "faint": FAINT, **{name.lower().replace(".", "-"): hue for name, hue in PALETTE.items()}}
    variables = " ".join(f"--{name}: {hue};" for name, hue in hues.items())
    return Markup(f":root {{ {variables} }}\n{asset('minilab.site', 'base.css')}")


def script_text(*parts: tuple[str, str]) -> Markup:
    """Programs of several packages' `page` folders, one after the other: (package, name) each."""
    return Markup("\n".join(asset(package, name) for package, name in parts))


def embedded_json(data: object) -> Markup:
    """Data as JSON that can stand inside a script element: no text in it ends the element."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))
