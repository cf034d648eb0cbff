"""The captions of Snakemake's report, reStructuredText of a sentence or two, read as plain text for other pages."""

import re
from pathlib import Path

LITERAL = re.compile(r"``([^`]+)``")


def read_caption(path: str | Path) -> str:
    """A caption as one paragraph, its ``literals`` in single backticks."""
    return LITERAL.sub(r"`\1`", " ".join(Path(path).read_text().split()))
