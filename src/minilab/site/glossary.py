"""The glossary: what the lab's words mean, and a link to it where each word first stands on a page.

The words are in `minilab/locale/{language}/glossary.yaml`; `python -m docs.build glossary` writes the pages from them.
"""

import posixpath
import re
from pathlib import Path
from textwrap import fill

from minilab.files import write_text
from minilab.pages.translations import Translations

FILE = {"en": "docs/glossary.md", "es": "docs/glossary.es.md"}
COLUMNS = 120  # of a line of the page
# What a link must not be put into: code, comments, headings, what folds, pictures, links, the row of a table.
SKIPPED = r"```.*?```|`[^`\n]*`|<!--.*?-->|^[#<|][^\n]*|!?\[[^\]]*\]\([^)]*\)"


def glossary_page(language: str = "en") -> str:
    """Write the glossary's page in Markdown, a heading for each term, in the alphabet's order."""
    text = _words(language)
    parts = [f"# {text('title')}", text("lead")]
    for term, means in sorted(((text(f"{key}.term"), text(f"{key}.means")) for key in _keys(text)), key=_alphabetical):
        parts += [f"## {term}", fill(f"{means[0].upper()}{means[1:]}.", COLUMNS, break_on_hyphens=False)]
    return "\n\n".join(parts) + "\n"


def linked(page: str, path: str, language: str = "en") -> str:
    """Link each term of the glossary where it first stands in a page's prose.

    Args:
        page: Markdown.
        path: the page's file, from the project's root.
        language: of the page.
    """
    text = _words(language)
    home = posixpath.relpath(FILE[language], posixpath.dirname(path) or ".")
    anchors = {
        name.strip().lower(): _anchor(text(f"{key}.term"))
        for key in _keys(text)
        for name in text(f"{key}.names").split(",")
        if name.strip()
    }
    names = "|".join(
        re.escape(name).replace(r"\ ", r"\s+") for name in sorted(anchors, key=len, reverse=True)
    )  # a line may end within a name
    pattern = re.compile(rf"(?P<skipped>{SKIPPED})|(?<![\w./-])(?P<name>{names})(?![\w/-]|\.\w)", re.S | re.M | re.I)
    seen: set[str] = set()

    def link(found: re.Match[str]) -> str:
        if found["name"] is None:
            return found[0]
        anchor = anchors[" ".join(found["name"].lower().split())]
        if anchor in seen:
            return found[0]
        seen.add(anchor)
        return f"[{found['name']}]({home}#{anchor})"

    return pattern.sub(link, page)


def write_linked(path: str | Path, page: str, language: str) -> None:
    """Write a page, a Markdown file in the project's root or below, with its terms `linked`."""
    write_text(path, linked(page, Path(path).as_posix(), language))


def _words(language: str) -> Translations:
    return Translations("minilab", "glossary", language)


def _keys(text: Translations) -> list[str]:
    return [f"terms.{key.removesuffix('.term')}" for key in text.under("terms") if key.endswith(".term")]


def _anchor(term: str) -> str:
    """The address that Markdown's readers give a heading."""
    return re.sub(r"[^\w\- ]", "", term.lower()).replace(" ", "-")


def _alphabetical(entry: tuple[str, str]) -> str:
    return entry[0].lower()
