"""The report of a marked exercise: the steps that are done, what to try next, and the marks themselves.

`minikernel.exercise.marks` judges, in codes with fields; `locale/*/exercise.yaml` has their sentences.
"""

from collections.abc import Mapping
from typing import Any

from minikernel.exercise.marks import Marks, Step, next_steps, steps
from minikernel.reasons import in_words
from minilab import templates
from minilab.translations import Translations, is_number

# How a number of a sentence is written, where not as it is.
FORMS = {
    "cols": ",", "rows": ",", "moved": ".3g", "noise": ".1%", "ratio": ".2f", "reads": ".3g", "share": ".0%",
    "writes": ".3g",
}  # fmt: skip


def words(language: str) -> Translations:
    """The words of the exercise's report."""
    return Translations("minikernel.report", "exercise", language)


def why_in_words(step: Step, source: str, language: str = "en") -> str:
    """Say what decided a step; `source` is the learner's file."""
    why = step.why
    if why["code"] in ("ended", "untimed"):
        return in_words(why["reason"], language)
    return _worded("why", {**why, "source": source} if why["code"] == "unfilled" else why, words(language))


def advice_in_words(marks: Marks, language: str = "en") -> list[str]:
    """Say what to try next, a sentence or two each."""
    return [_worded("next", advice, words(language)) for advice in next_steps(marks)]


def _worded(group: str, coded: Mapping[str, Any], text: Translations) -> str:
    fields = {name: _written(name, value, text) for name, value in coded.items() if name != "code"}
    if coded["code"] == "hint":
        fields = {"case": text(f"case.{coded['case']}"), "hint": text(f"hint.{coded['case']}")}
    return text(f"{group}.{coded['code']}", **fields)


def _written(name: str, value: Any, text: Translations) -> str:
    if name == "shape":
        return " x ".join(text.number(size, ",") for size in value)
    if name == "names":
        return ", ".join(value)
    return text.number(value, FORMS.get(name, "")) if is_number(value) else str(value)


def report(marks: Marks, device: str, picture: str, language: str = "en") -> str:
    """The marked exercise in Markdown, from `templates/exercise.md` or its twin.

    Args:
        marks: as `minikernel.exercise.exercise.mark` gives them.
        device: slug of the machine that marked it.
        picture: the roofline's path, relative to the report.
        language: of the words.
    """
    text = words(language)
    values = {
        "text": text,
        "marks": marks,
        "ended": in_words(marks["ended"], language) if marks["ended"] else None,
        "device": device,
        "steps": [
            (step, text(f"step.{step.number}"), why_in_words(step, marks["source"], language)) for step in steps(marks)
        ],
        "advice": advice_in_words(marks, language),
        "picture": picture,
        "cases": list(dict.fromkeys(row["case"] for row in marks["cases"])),
        "widths": sorted({row["cols"] for row in marks["cases"]}),
        "at": {(row["case"], row["cols"]): row for row in marks["cases"]},
        "wrong": {row["case"]: in_words(row["reason"], language) for row in reversed(marks["cases"]) if row["reason"]},
    }
    filters = {"number": text.number}
    return templates.render("minikernel.report", "exercise", language, values, filters=filters, trimmed=True)
