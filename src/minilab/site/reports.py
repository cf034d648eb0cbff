"""The lab's Markdown reports as HTML that stands in a page, their links made to hold from there."""

import posixpath
from pathlib import Path
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token


def _all_tokens(tokens: list[Token]) -> list[Token]:
    return [each for token in tokens for each in (token, *_all_tokens(token.children or []))]


def moved(address: str, source: str, target: str) -> str:
    """A relative address in `source` as it must be written in `target`, both paths from one root; others unchanged."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc or not parts.path:
        return address
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), parts.path))
    return parts._replace(path=posixpath.relpath(path, posixpath.dirname(target))).geturl()


def report_html(path: str, page: str) -> str:
    """A Markdown report as HTML: tables, code, headings one level down; HTML in it stays text.

    Args:
        path: the report's file, from the project's root.
        page: the file that the HTML will stand in, likewise.
    """
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(Path(path).read_text())
    for token in _all_tokens(tokens):
        if token.type == "link_open":
            token.attrs["href"] = moved(str(token.attrs["href"]), path, page)
        elif token.type == "image":
            token.attrs["src"] = moved(str(token.attrs["src"]), path, page)
            token.attrs["loading"] = "lazy"
        elif token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + 1, 6)}"
        elif token.type == "th_open":
            token.attrs["scope"] = "col"
    return markdown.renderer.render(tokens, markdown.options, {})
