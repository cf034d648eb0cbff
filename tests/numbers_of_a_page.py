"""Hold each number on a page against where it comes from: a figure goes through `minilab.translations.number`.

`tagged` marks what that function writes, while a page is made; `untagged` finds the numbers of the page without a mark.
A number that a template's author typed is one of those.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from minilab import templates, translations

OPEN, CLOSE = "\N{LEFT-POINTING ANGLE BRACKET}", "\N{RIGHT-POINTING ANGLE BRACKET}"
# Digits that are no figure: code, addresses, dates, versions, digests of a commit, and names with digits in them.
NO_FIGURE = re.compile(
    r"```.*?```|`[^`\n]*`|\]\([^)]*\)|^#[^\n]*|\d{4}-\d\d-\d\d(?:T[\d:.+]+)?|\d+(?:\.\w+){2,}|[A-Za-zµ_][\w.]*",
    re.S | re.M,
)
WORDS_WITH_DIGITS = ("stage 24", "etapa 24")


class Tags(list):
    """The figures that were written while a page was made: (value, text)."""

    def in_prose(self, page: str) -> set[float]:
        """The fractions among them that stand in a page's prose, tables, headings and code left out."""
        prose = re.sub(r"^[|#][^\n]*|```.*?```", "", page, flags=re.S | re.M)
        shown = {int(index) for index in re.findall(rf"{OPEN}(\d+):", prose)}
        return {self[index][0] for index in shown if self[index][0] % 1}


@contextmanager
def tagged() -> Iterator[Tags]:
    """Mark every figure that is written inside, as ⟨index:text⟩."""
    plain, tags = translations.number, Tags()

    def number(language: str, value: float, form: str = "") -> str:
        tags.append((value, plain(language, value, form)))
        return f"{OPEN}{len(tags) - 1}:{tags[-1][1]}{CLOSE}"

    translations.number = templates.number = number
    try:
        yield tags
    finally:
        translations.number = templates.number = plain


def untagged(page: str, allowed: tuple[str, ...] = ()) -> list[str]:
    """The numbers of a page that no figure wrote, in the page's order."""
    left = re.sub(rf"{OPEN}\d+:[^{CLOSE}]*{CLOSE}", "", page)
    for words in allowed:
        left = left.replace(words, "")
    return re.findall(r"\d+(?:[.,]\d+)*", NO_FIGURE.sub("", left))
