"""Read one value out of a text that is known to hold it."""

import re

from minilab import LabError


def first_group(pattern: str, text: str, where: str) -> str:
    """Return what the first group of a pattern matches.

    Args:
        pattern: a regular expression with one group.
        text: where to search.
        where: what the text is, for the message.

    Raises:
        LabError: the text has no such place; it was written by another version.
    """
    found = re.search(pattern, text, re.M)
    if found is None:
        raise LabError(f"{where} has nothing like {pattern!r}, which the concept pages quote; mend docs/build for it.")
    return found[1]
