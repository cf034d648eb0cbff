"""Pictures small enough to be carried inside a page."""

import base64
import io
from pathlib import Path

from PIL import Image

WIDTH = 400  # pixels: a card shows them at half of that or a little more, on a dense screen with all of it
COLOURS = 64


def data_url(data: bytes, kind: str) -> str:
    """Bytes as an address that holds them."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def thumbnail(path: str | Path) -> tuple[str, int, int]:
    """A PNG made small, as a data URL, with its width and height in pixels."""
    with Image.open(path) as picture:
        small = picture.convert("RGB")
        small.thumbnail((WIDTH, 2 * WIDTH), Image.Resampling.LANCZOS)
        few = small.quantize(COLOURS)
        buffer = io.BytesIO()
        few.save(buffer, "PNG", optimize=True)
    return data_url(buffer.getvalue(), "image/png"), *small.size
