"""Faults, declared by the tests that cause them; `tests/faults/faults.py` writes docs/faults.md of what is declared.

    @fault("the checkpoint is cut short", says="... is refused ...", then="Nothing is written.")
    def test_a_truncated_checkpoint(tiny, says): ...

`says` is what the user reads, on one line, `...` standing for anything; the fixture of that name hands it to the test,
which holds what was said against it. A case of a test declares a fault as well, among its `marks`.
"""

import html
import re
from pathlib import Path

import pytest


def fault(what: str, says: str | None, then: str) -> pytest.MarkDecorator:
    """Declare the fault that a test, or a case of one, causes.

    Args:
        what: what goes wrong.
        says: what the user reads; None where nothing is said.
        then: what is kept, and how to go on.
    """
    return pytest.mark.fault(what, says, then)


def told(what: str, then: str, *case: object) -> object:
    """A case of a test whose last value is the sentence that it is held against, names in braces put in by the test."""
    return pytest.param(*case, marks=fault(what, re.sub(r"{\w+}", "...", str(case[-1])), then))


def words_of(page: Path) -> str:
    """What a page says, the text of each element on a line of its own."""
    return html.unescape(re.sub(r"<[^>]*>", "\n", re.sub(r"\s*\n\s*", " ", page.read_text(encoding="utf-8"))))


def check_says(output: str, says: str) -> None:
    """Hold what was said against the sentence: exactly there on one line, and no traceback beside it."""
    pattern = re.escape(says).replace(r"\.\.\.", ".*")
    lines = {line.strip().removeprefix("Error: ") for line in output.splitlines()}
    assert any(re.fullmatch(pattern, line) for line in lines), f"nothing like {says!r} in\n{output}"
    assert "Traceback (most recent call last)" not in output, output
