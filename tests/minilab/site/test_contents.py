"""A report stands inside the front door as HTML, with its folded parts folded."""

import io
import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image

from minilab import LabError
from minilab.site.contents import report_html, thumbnail


def rendered(folder: Path, text: str) -> str:
    path = folder / "report.md"
    path.write_text(text)
    return report_html(str(path), str(folder / "lab.html"))


def test_a_folded_part_stays_folded(tmp_path: Path):
    page = rendered(tmp_path, "<details><summary>A *b*</summary>\n\n| a |\n| --- |\n| 1 |\n\n</details>\n\nafter\n")
    assert page.startswith("<details><summary>A <em>b</em></summary>")
    assert page.index("<table>") < page.index("</details>") < page.index("after")


def test_other_html_stays_text(tmp_path: Path):
    page = rendered(tmp_path, "<script>x</script>\n\n<details open><summary>A</summary>\n")
    assert "<script>" not in page
    assert "<details" not in page


def png(width: int = 30, height: int = 20) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize("data", [b"", b"no picture", png()[:-30], png()[:40], png().replace(b"IDAT", b"IDAX")])
def test_a_picture_that_is_cut_short_is_refused_in_a_sentence(tmp_path: Path, data: bytes):
    path = tmp_path / "loss.png"
    path.write_bytes(data)
    with pytest.raises(LabError, match=r"is not a whole picture .*; delete it and build it again"):
        thumbnail(path)


def test_a_picture_that_claims_too_many_pixels_is_refused_before_they_are_made(tmp_path: Path):
    head = b"IHDR" + struct.pack(">II", 60_000, 60_000) + png()[24:29]
    (tmp_path / "loss.png").write_bytes(png()[:12] + head + struct.pack(">I", zlib.crc32(head)) + png()[33:])
    with pytest.raises(LabError, match="is not a whole picture"):
        thumbnail(tmp_path / "loss.png")
    (tmp_path / "loss.png").write_bytes(png())
    assert thumbnail(tmp_path / "loss.png")[1:] == (30, 20)
