"""Links that lead nowhere, in Markdown and in HTML; only what lies on this machine is looked at."""

import base64
import gzip
import json
import posixpath
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt

FINDS_ITS_PLACES = "explorer.html"  # its program knows lines and questions: tests/browser


class _Page(HTMLParser):
    """The addresses that a page asks for, and the places in it that an address can name."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("href", "src", "xlink:href") and value:
                self.addresses.append(value)
            if name in ("id", "name") and value:
                self.places.add(value)


def _heading(text: str) -> str:
    """The place that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def _read(path: Path) -> _Page:
    text, page = path.read_text(), _Page()
    if path.suffix == ".ipynb":
        text = "\n\n".join("".join(c["source"]) for c in json.loads(text)["cells"] if c["cell_type"] == "markdown")
    if path.suffix in (".md", ".ipynb"):
        tokens = MarkdownIt("commonmark").enable("table").parse(text)
        page.feed(MarkdownIt("commonmark").enable("table").render(text))
        headings = [tokens[index + 1].content for index, token in enumerate(tokens) if token.type == "heading_open"]
        page.places |= set(map(_heading, headings))
    else:
        page.feed(text)
        if data := re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S):
            held = json.loads(data[1])  # what the front door's program shows
            page.addresses += [posixpath.relpath(file, held["folder"]) for file in _there(held)]
            page.places |= {f"file={file}" for file in held.get("files", [])}
        if packed := re.search(r'id="reports">([^<]*)</script>', text):
            page.feed("".join(json.loads(gzip.decompress(base64.b64decode(packed[1]))).values()))
    return page


def _there(held: dict) -> list[str]:
    """The files that the front door's program links to: all that it names but those that it knows to be missing."""
    return [file for index, file in enumerate(held.get("files", [])) if index not in held["missing"]]


def dead_links(path: Path) -> list[str]:
    """The addresses of a file that lead to no file beside it, or to no place in the file that they name."""
    page, dead = _read(path), []
    for address in page.addresses:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)) if parts.path else path
        if not target.exists():
            dead.append(address)
        elif parts.fragment and target.suffix in (".md", ".html") and target.name != FINDS_ITS_PLACES:
            places = page.places if target == path else _read(target).places
            if unquote(parts.fragment) not in places:
                dead.append(address)
    return dead
