"""The explorer's picture in the README: the recorded page of MiniGPT, opened at a line, as a browser shows it.

The file notes the digest of what lays the page out, so that a test finds out a picture of an older tool bar.
"""

import shutil
import subprocess
import tempfile
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from minicompile.explain.explorer import render_explorer
from minicompile.lowering.captured import Capture
from minilab import LabError
from minilab.files import digest, replacing

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SIZE = (1500, 800)  # pixels
SECONDS = 120
OPENED_AT = "aten.exp.default"  # of the last softmax: it is inlined, fused and recomputed, so every pane has something
COLOURS = 256
LAYOUT = ("explorer.html", "explorer.css")


def laid_out() -> str:
    """The digest of what lays the explorer out: its frame with the tool bar, and its style."""
    page = files("minicompile.explain.explorer") / "page"
    return digest([(page / name).read_text() for name in LAYOUT])


def address(capture: Capture) -> str:
    """The part of the address that opens a capture's explorer at the line of the last such operation."""
    graph = capture["graphs"][0]
    line = [node["line"] for node in graph["nodes"] if node["target"] == OPENED_AT][-1]
    return quote(f"0/{graph['panes']['aten']}:{line}")


def take(capture: Capture, png: Path) -> None:
    """Open a capture's explorer in a browser without a window, and keep what it shows.

    Args:
        capture: that the explorer shows.
        png: where the picture goes.

    Raises:
        LabError: there is no Chromium here, or it shows nothing.
    """
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        raise LabError(
            "the explorer's picture needs a browser: `apt-get install chromium`, then the same command again."
        )
    with tempfile.TemporaryDirectory() as folder:
        shot, page = Path(folder, "shot.png"), render_explorer(capture, Path(folder, "explorer.html"))
        subprocess.run(
            [
                browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                "--virtual-time-budget=20000", f"--user-data-dir={folder}", f"--window-size={SIZE[0]},{SIZE[1]}",
                f"--screenshot={shot}", f"{page.resolve().as_uri()}#{address(capture)}",
            ],
            capture_output=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        if not shot.exists():
            raise LabError(f"{browser} made no picture of the explorer; open the page there by hand to see why.")
        note = PngInfo()
        note.add_text("Description", laid_out())
        with Image.open(shot) as image, replacing(png) as target:
            image.convert("RGB").quantize(COLOURS).save(target, "PNG", optimize=True, pnginfo=note)
