"""The result of `diff_compiles` for people: results/25/diff.md, by `templates/capture_diff.md`."""

import re

from minicompile.explain.wording import Wording
from minilab.pages.templates import render


def described(diff: dict, language: str = "en") -> str:
    """A diff in Markdown.

    Args:
        diff: as `minicompile.explain.capture_diff.diff_compiles` returns it.
        language: of the text.
    """
    filters = Wording(language).filters()
    text = render("minicompile.explain", "capture_diff", language, diff, filters=filters, trimmed=True)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
