"""Write explorer.html: data, style and program in one file that asks nothing of the network.

It is made for browsers of 2024 and later (CSS light-dark(), DecompressionStream, Map.groupBy).
"""

import base64
import gzip
import re
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from minicompile.explain.explorer.payload import payload
from minicompile.explain.summary import render_summary
from minicompile.explain.wording import Wording
from minicompile.lowering.captured import Capture
from minilab import LabError
from minilab.files import write_text
from minilab.pages.translations import MARKS, Translations
from minilab.pages.web_page import asset, base_style, embedded_json, script_text

PACKAGE = "minicompile.explain.explorer"
PROGRAM = (
    "words.js",
    "layers.js",
    "links.js",
    "rows.js",
    "colours.js",
    "pane.js",
    "layout.js",
    "facts.js",
    "intrinsics.js",
    "breaks.js",
    "roofline.js",
    "copying.js",
    "why.js",
    "about.js",
    "choices.js",
    "tour.js",
    "search.js",
    "keys.js",
    "main.js",
)
CAPTURE_FORMAT = 1


def marked(sentence: str, tag: str = "code") -> Markup:
    """A sentence as HTML, with what stands in `backquotes` as code, or another tag, and in **stars** bold."""
    html = re.sub(r"`([^`]+)`", rf"<{tag}>\1</{tag}>", str(escape(sentence)))
    return Markup(re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", html))


def _check(captures: Sequence[Capture]) -> None:
    if len(captures) not in (1, 2):
        raise LabError(f"The explorer shows one capture or two side by side, not {len(captures)}; give it one or two.")
    for capture in captures:
        if capture.get("format") != CAPTURE_FORMAT:
            raise LabError(
                f"The explorer reads captures of format {CAPTURE_FORMAT}, not {capture.get('format')!r}; capture the "
                "model again with this version of the lab."
            )
    models = {capture["model"]["name"] for capture in captures}
    if len(models) > 1:
        raise LabError(f"Two captures side by side are of one model, not of {' and '.join(sorted(models))}.")


def render_explorer(
    capture: Capture | Sequence[Capture],
    path: str | Path,
    *,
    profile: dict | None | Sequence[dict | None] = None,
    compress: bool = True,
    language: str = "en",
) -> Path:
    """Write the page that shows a capture line by line, or of one without a graph why it has none; returns its path.

    Args:
        capture: one, as `minicompile.capture` returns it (schemas/capture.schema.yaml), or two of the same model, to
            be shown side by side, such as its C++ and its Triton.
        path: of the HTML file.
        profile: what was measured of its kernels (schemas/profile.schema.yaml), or None; for two captures, one for
            each.
        compress: store the data with gzip; False stores it as plain JSON, several times larger, for a browser without
            DecompressionStream, for grep and for diff.
        language: of the page's own words; Inductor's reasons are quoted as they are.

    Raises:
        LabError: not one or two captures, of another format, or of different models.
    """
    captures = [capture] if isinstance(capture, dict) else list(capture)
    _check(captures)
    if not all(each["graphs"] for each in captures):  # there is no line to show, but why there is none
        return render_summary([{"capture": each, "files": {}} for each in captures], path, language)
    given = [profile] if isinstance(profile, dict) else profile
    profiles: list[dict | None] = [None] * len(captures) if given is None else list(given)
    if len(profiles) != len(captures):
        raise LabError(f"There are {len(captures)} captures but {len(profiles)} profiles; give one, or None, for each.")
    text = Translations("minicompile.explain", "explorer", language)
    data = embedded_json(payload(captures, profiles, language))
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters["marked"] = marked
    html = environment.from_string(asset(PACKAGE, "explorer.html")).render(
        text=text,
        language=language,
        model=captures[0]["model"]["name"],
        label=text("page.joint").join(Wording(language).label(each) for each in captures),
        notes=list(dict.fromkeys(note for each in captures for note in Wording(language).at_the_head(each))),
        base=base_style(),
        style=Markup("\n".join(asset(PACKAGE, name) for name in ("explorer.css", "choices.css"))),
        program=script_text(("minilab.pages", "theme.js"), *((PACKAGE, name) for name in PROGRAM)),
        words=embedded_json({"sentences": text.under("program"), "marks": MARKS[language]}),
        encoding="gzip" if compress else "text",
        data=Markup(base64.b64encode(gzip.compress(data.encode(), 9, mtime=0)).decode()) if compress else data,
    )
    write_text(path, html)
    return Path(path)
