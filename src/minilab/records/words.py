"""Reasons of records in words: artefacts hold codes with their fields, pages and logs say them."""

from collections.abc import Mapping

from minilab.pages.translations import Translations


def worded(reason: Mapping, language: str = "en") -> str:
    """A reason in words.

    Args:
        reason: its `code` with the fields of that, as `minilab.records` gives them; a kernel's own names the `kernel`.
        language: of the words.
    """
    fields = {name: value for name, value in reason.items() if name not in ("code", "kernel")}
    said = Translations("minilab", "records", language)(reason["code"], **fields)
    return f"{reason['kernel']}: {said}" if "kernel" in reason else said
