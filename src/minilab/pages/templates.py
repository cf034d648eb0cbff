"""Load and fill in the templates of reports with Jinja2; a name that a template uses and nobody gives is an error.

A page that is mostly prose has a template of its own for each language, side by side in its package's `templates`
folder: `report_25.md` is English, `report_25.es.md` Spanish. Tests hold the twins to the same figures, conditions and
headings.
"""

import re
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

import jinja2
from jinja2.bccache import Bucket

from minilab.pages.translations import is_number, number


class _Compiled(jinja2.BytecodeCache):
    """Templates as Python's bytecode, kept in this process: compiling one takes longer than filling it in."""

    def __init__(self) -> None:
        self._codes: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self._codes:
            bucket.bytecode_from_string(self._codes[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._codes[bucket.key] = bucket.bytecode_to_string()


@cache
def _compiled(**_options: Any) -> _Compiled:
    """What is compiled for the same language and Jinja2's options, which the bytecode depends on."""
    return _Compiled()


def environment(package: str, language: str = "en", **options: Any) -> jinja2.Environment:
    """Make the Jinja2 environment that loads from a package's `templates` folder; `options` are Jinja2's own.

    Where a template prints a number as it is, it is written as the language does.
    """
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: number(language, value) if is_number(value) else value,
        keep_trailing_newline=True,
        bytecode_cache=_compiled(language=language, **options),
        **options,
    )


def twin(language: str, page: str) -> str:
    """Name the file of a page in a language: `report_25` is `report_25.md` in English, `report_25.es.md` in Spanish."""
    return f"{page}.md" if language == "en" else f"{page}.{language}.md"


def render(
    package: str,
    page: str,
    language: str,
    values: dict,
    *,
    filters: dict[str, Callable] | None = None,
    trimmed: bool = False,
) -> str:
    """Fill in a page of a package, in Markdown.

    Args:
        package: has the page in its `templates` folder.
        page: the template's name, without language and ending.
        language: of the text.
        values: what the template asks for. Beside them it has `number`, as `Translations.number`, and `twin`, the
            file of another page in the same language, to import from it.
        filters: more filters, by name.
        trimmed: whether lines that hold a statement alone vanish.

    Raises:
        jinja2.UndefinedError: the template asks for what is not given.
    """
    templates = _environment_of(language, package, filters, trim_blocks=trimmed, lstrip_blocks=trimmed)
    return templates.get_template(twin(language, page)).render(values)


def sentences(
    package: str, page: str, language: str, findings: Iterable[dict], *, filters: dict[str, Callable] | None = None
) -> list[str]:
    """Word findings, each in a sentence or two on one line.

    Args:
        package, page, language, filters: as of `render`; the page is a collection of macros.
        findings: each has a `code`, the name of the macro that words it, and the fields that this macro asks for.
    """
    macros = _environment_of(language, package, filters).get_template(twin(language, page)).module
    # Only blanks and line ends are folded: the spaces within a number are of another kind, and stay.
    return [re.sub(r"[ \n]+", " ", getattr(macros, finding["code"])(finding)).strip() for finding in findings]


def _environment_of(
    language: str, package: str, filters: dict[str, Callable] | None, **options: Any
) -> jinja2.Environment:
    made = environment(package, language, **options)
    made.globals.update(number=partial(number, language), twin=partial(twin, language))
    made.filters.update(filters or {})
    return made
