"""The result of `diff_compiles` for people: results/25/diff.md, by `templates/capture_diff.md`."""

import re

from minicompile.pages import render


def described(diff: dict, language: str = "en") -> str:
    """A diff in Markdown.

    Args:
        diff: as `minicompile.explain.capture_diff.diff_compiles` returns it.
        language: of the text.
    """
    return re.sub(r"\n{3,}", "\n\n", render("capture_diff", language, diff, trimmed=True)).strip() + "\n"
