"""Results that stand inside the front door: captions as plain text, pictures made small, Markdown reports as HTML."""

import base64
import gzip
import io
import json
import posixpath
import re
import warnings
from pathlib import Path
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from PIL import Image

from minilab.errors import LabError

LITERAL = re.compile(r"``([^`]+)``")
WIDTH = 400  # pixels of a thumbnail: a card shows it at about half of that, and a dense screen shows all of it
QUALITY = 70  # of WebP: two thirds of the bytes of a PNG of 64 colours, and the lines keep their colours
MOST_PIXELS = 50_000_000  # of a picture to make small; the lab's own have some 3 million
FOLDS = re.compile(r"<p>&lt;(?:details&gt;&lt;summary&gt;(?P<summary>.*?)&lt;/summary|/details)&gt;</p>")


def read_caption(path: str | Path) -> str:
    """Read a caption of Snakemake's report as one paragraph, its ``literals`` in single backticks."""
    return LITERAL.sub(r"`\1`", " ".join(Path(path).read_text(encoding="utf-8").split()))


def data_url(data: bytes, kind: str) -> str:
    """Write bytes of a media type (`image/png`) as an address that holds them."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def thumbnail(path: str | Path) -> tuple[str, int, int]:
    """Make a PNG small: its data URL, and its width and height in pixels.

    Raises:
        LabError: it is no whole picture, or claims more than `MOST_PIXELS`.
    """
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(path, formats=["PNG"]) as picture:
            if picture.width * picture.height > MOST_PIXELS:
                raise ValueError(f"it claims {picture.width} by {picture.height} pixels")
            small = picture.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise LabError(
            f"{path} is not a whole picture ({error}); delete it and build it again with `snakemake --cores 4 {path}`."
        ) from None
    with small:
        small.thumbnail((WIDTH, 2 * WIDTH), Image.Resampling.LANCZOS)
        buffer = io.BytesIO()
        small.save(buffer, "WEBP", quality=QUALITY, method=6)
    return data_url(buffer.getvalue(), "image/webp"), *small.size


def packed_json(data: object) -> str:
    """Write data as JSON, compressed by gzip and in base64, which the page's program undoes."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def readdressed(address: str, source: str, target: str) -> str:
    """Rewrite a relative address in `source` so that it leads to the same file from `target`; others stay unchanged.

    Args:
        address: as it stands in a link of `source`.
        source, target: paths of two files, from one root.
    """
    parts = urlsplit(address)
    if parts.scheme or parts.netloc or not parts.path:
        return address
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), parts.path))
    return parts._replace(path=posixpath.relpath(path, posixpath.dirname(target))).geturl()


def report_html(path: str, page: str) -> str:
    """Render a Markdown report as HTML: tables, code, headings one level down. HTML in it stays text, but for
    `<details>` and its `<summary>`, each on a line of its own, which fold a part of it away.

    Args:
        path: the report's file, from the project's root.
        page: the file that the HTML will stand in, likewise.
    """
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(Path(path).read_text(encoding="utf-8"))
    for token in _all_tokens(tokens):
        if token.type == "link_open":
            token.attrs["href"] = readdressed(str(token.attrs["href"]), path, page)
        elif token.type == "image":
            token.attrs["src"] = readdressed(str(token.attrs["src"]), path, page)
            token.attrs["loading"] = "lazy"
        elif token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + 1, 6)}"
        elif token.type == "th_open":
            token.attrs["scope"] = "col"
    return FOLDS.sub(_fold, markdown.renderer.render(tokens, markdown.options, {}))


def _fold(found: re.Match) -> str:
    return f"<details><summary>{found['summary']}</summary>" if found["summary"] else "</details>"


def _all_tokens(tokens: list[Token]) -> list[Token]:
    return [each for token in tokens for each in (token, *_all_tokens(token.children or []))]
