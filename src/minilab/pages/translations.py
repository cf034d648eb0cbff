"""Look up the labels and sentences of a page in a language, by key.

There is one way to translate. A page of prose is a template, and each other language has a twin of the whole template
(`report_25.md`, `report_25.es.md`). Labels, and short sentences that stand for a code in an artefact, are looked up
by key here: artefacts hold `{"code": "source_changed", "path": ...}`, and the page asks for `source_changed` with its
fields.

A package keeps one YAML catalogue for each page and language in `locale/{language}/{page}.yaml`, nested as its author
likes; a key is the path into it, joined by dots. Values have named fields in Python's format syntax. A value that
depends on a number is a mapping of `one` and `other`, chosen by the field `count`: the two categories that English
and Spanish have in the Unicode CLDR's plural rules. English is the reference: a test holds the other languages to its
keys and fields.
"""

import math
from functools import cache
from importlib import resources
from string import Formatter
from typing import Any

from minilab.errors import LabError
from minilab.yaml_files import own_yaml

LANGUAGES = ("en", "es")
PLURALS = frozenset({"one", "other"})
# What Python writes into a number -> what a language does: Spanish groups by thin spaces and sets "%" apart.
MARKS: dict[str, dict[str, str | int | None]] = {
    "en": {},
    "es": {".": ",", ",": "\N{NARROW NO-BREAK SPACE}", "%": "\N{NO-BREAK SPACE}%"},
}


def flattened(catalogue: dict, prefix: str = "") -> dict[str, str | dict[str, str]]:
    """Flatten a nested catalogue to key -> sentence, or -> the two sentences of a plural."""
    flat: dict[str, str | dict[str, str]] = {}
    for name, value in catalogue.items():
        key = f"{prefix}{name}"
        flat |= flattened(value, f"{key}.") if isinstance(value, dict) and set(value) != PLURALS else {key: value}
    return flat


@cache
def _read(package: str, page: str, language: str) -> dict[str, str | dict[str, str]]:
    file = resources.files(package).joinpath("locale", language, f"{page}.yaml")
    return flattened(own_yaml(file.read_bytes()))


def number(language: str, value: float, form: str = "", down: int | None = None) -> str:
    """Write a number as a language does: `number("es", 3.14159, ".2f")` is `3,14`, in English `3.14`.

    Args:
        down: decimals to which it is rounded down, where the page says "at least".
    """
    plain = float(value) if isinstance(value, float) else value  # not as a subclass would write itself
    said = format(plain if down is None else math.floor(plain * 10**down) / 10**down, form)
    if said.startswith("-") and not any(digit in said for digit in "123456789"):
        said = said[1:]  # what rounds to zero has no sign
    return written(plain, said.translate(str.maketrans(MARKS[language])))


def written(value: float, text: str) -> str:
    """Hand on the text of a number. Every number on a page comes by here, so tests that watch pages stand here."""
    return text


def is_number(value: object) -> bool:
    """Tell whether something is written as a number; `True` is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


class _Sentence(Formatter):
    """Fills in a sentence's fields; its numbers are written as the language does."""

    def __init__(self, language: str) -> None:
        self._language = language

    def format_field(self, value: Any, form: str) -> str:
        return number(self._language, value, form) if is_number(value) else format(value, form)


class Translations:
    """The words of a page in one language: `text = Translations("minilab", "lab", "es")`, then `text("title")`.

    Templates take it as a global: `{{ text("status.restored", device=device, date=date) }}`.
    """

    def __init__(self, package: str, page: str, language: str = "en") -> None:
        if language not in LANGUAGES:
            raise LabError(f"The lab does not speak language {language!r}; write one of {', '.join(LANGUAGES)}.")
        self.language = language
        self._page = f"{package.replace('.', '/')}/locale/{language}/{page}.yaml"
        self._sentences = _read(package, page, language)

    def __contains__(self, key: str) -> bool:
        return key in self._sentences

    def __call__(self, key: str, **fields: object) -> str:
        """Return the sentence of a key with its fields filled in; a plural is chosen by the field `count`.

        Numbers among the fields are written as the language does.

        Raises:
            LabError: no such key, or a field that the sentence names is not given.
        """
        if key not in self._sentences:
            raise LabError(f"{self._page} has no key {key!r}; add it there, as the other languages have it.")
        sentence = self._sentences[key]
        try:
            if isinstance(sentence, dict):
                sentence = sentence["one" if fields["count"] == 1 else "other"]
            return _Sentence(self.language).vformat(sentence, (), fields)
        except KeyError as missing:
            raise LabError(f"{self._page}: {key} needs the field {missing}, which its page does not give.") from None

    def under(self, prefix: str) -> dict[str, str | dict[str, str]]:
        """Return everything below a key, as rest of the key -> value, for a program that fills in the fields itself."""
        start = f"{prefix}."
        return {key.removeprefix(start): value for key, value in self._sentences.items() if key.startswith(start)}

    def number(self, value: float, form: str = "", down: int | None = None) -> str:
        """Write a number as the language does: `text.number(3.14159, ".2f")` is `3.14`, in Spanish `3,14`."""
        return number(self.language, value, form, down)
