"""A report of stage 25 in a language: its template filled in, with the language's numbers.

A report is mostly prose, so each language has a template of its own, side by side: `report_25.md` is English,
`report_25.es.md` Spanish. A test holds them to the same figures, conditions and headings.
"""

from collections.abc import Callable
from functools import cache

from minilab import templates
from minilab.translations import Retold, Translations


@cache
def retold(language: str) -> Retold:
    """What artefacts of stage 25 say in English, told in a language."""
    return Retold("minicompile", "told", language)


def template_name(page: str, language: str) -> str:
    """The file of a report's template: `profile_25.md`, in Spanish `profile_25.es.md`."""
    return f"{page}.md" if language == "en" else f"{page}.{language}.md"


def render(
    page: str, language: str, values: dict, *, filters: dict[str, Callable] | None = None, trimmed: bool = False
) -> str:
    """A report in Markdown.

    Args:
        page: a template's name without language and ending.
        language: of the text.
        values: what the template asks for. Beside them it has `number`, as `Translations.number`, and the filter
            `told` for what artefacts say in English.
        filters: more filters, by name.
        trimmed: whether lines that hold a statement alone vanish.
    """
    environment = templates.environment("minicompile", trim_blocks=trimmed, lstrip_blocks=trimmed)
    environment.globals["number"] = Translations("minicompile", "told", language).number
    environment.filters.update(told=retold(language), **(filters or {}))
    return environment.get_template(template_name(page, language)).render(values)
