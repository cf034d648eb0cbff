"""The reports of marked exercises: the steps that are done, what to try next, and the marks themselves.

`minikernel.exercise.marks` judges and `minikernel.exercise.diagnosis` advises, in codes with fields;
`locale/*/exercise.yaml` has their sentences.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from minikernel.exercise.diagnosis import next_steps
from minikernel.exercise.marks import Marks, Step, exercise_of, predictions, steps, verdict
from minikernel.reasons import in_words
from minilab.pages import templates
from minilab.pages.translations import Translations, is_number

# How a number of a sentence is written, where not as it is.
FORMS = {
    "calls": ",", "cols": ",", "most": ",", "most_reads": ".3g", "most_writes": ".3g",
    "moved": ".3g", "noise": ".1%", "ratio": ".2f", "reads": ".3g",
    "rows": ",", "share": ".0%", "tile": ",", "writes": ".3g",
}  # fmt: skip
PREDICTED = {"reads": ".3g", "writes": ".3g", "megabytes": ",.1f", "share_of_copy": ".0%"}
DONE = {True: "yes", False: "no", None: "unjudged"}


def words(language: str) -> Translations:
    """The words of the exercises' reports."""
    return Translations("minikernel.report", "exercise", language)


def done_in_words(step: Step, language: str = "en") -> str:
    """Say whether a step is done."""
    in_noise = step.done is None and step.why["code"] == "faster"
    return words(language)(f"steps.done.{'noise' if in_noise else DONE[step.done]}")


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
    if coded["code"] == "hint":
        return text(f"hint.{coded['name']}")
    fields = {name: _written(name, value, text) for name, value in coded.items() if name != "code"}
    return text(f"{group}.{coded['code']}", **fields)


def _written(name: str, value: Any, text: Translations) -> str:
    if name == "shape":
        return " x ".join(text.number(size, ",") for size in value)
    if name == "names":
        return ", ".join(value)
    return text.number(value, FORMS.get(name, "")) if is_number(value) else str(value)


def _values(marks: Marks, language: str) -> dict[str, Any]:
    """What a template asks for of one exercise's marks."""
    text = words(language)
    return {
        "marks": marks,
        "title": text(f"title.{marks['exercise']}"),
        "ended": in_words(marks["ended"], language) if marks["ended"] else None,
        "steps": [
            (text(f"step.{step.name}"), done_in_words(step, language), why_in_words(step, marks["source"], language))
            for step in steps(marks)
        ],
        "advice": advice_in_words(marks, language),
        "verdict": text(f"ladder.verdict.{verdict(marks)}"),
        "marked": bool(marks["cases"] or marks["ended"]),
    }


def report(marks: Marks, device: str, picture: str | None = None, language: str = "en") -> str:
    """One marked exercise in Markdown, from `templates/exercise.md` or its twin.

    Args:
        marks: as `minikernel.exercise.exercise.mark` gives them.
        device: slug of the machine that marked it.
        picture: the roofline's path, relative to the report; None where there is none.
        language: of the words.
    """
    text = words(language)
    values = {
        **_values(marks, language),
        "text": text,
        "device": device,
        "predictions": [
            (
                text(f"question.{one.question}"),
                *(None if number is None else text.number(number, PREDICTED[one.question]) for number in one[1:3]),
                text(f"holds.{'unknown' if one.holds is None else DONE[one.holds]}"),
            )
            for one in predictions(marks)
        ],
        "picture": picture,
        "cases": _cases(marks, language),
        "than": exercise_of(marks).faster_than or "F.softmax",
    }
    return _rendered("exercise", values, language)


def _cases(marks: Marks, language: str) -> list[dict[str, Any]]:
    """Each case with the widths at which it is right and wrong, its largest error, and why it is wrong."""
    by_name: dict[str, list[dict]] = {}
    for row in marks["cases"]:
        by_name.setdefault(row["case"], []).append(row)
    return [
        {
            "case": name,
            "right": [row["cols"] for row in rows if not row["reason"]],
            "wrong": [row["cols"] for row in rows if row["reason"]],
            "error": max((row["error"] for row in rows if not row["reason"]), default=None),
            "reason": next((in_words(row["reason"], language) for row in rows if row["reason"]), None),
        }
        for name, rows in by_name.items()
    ]


def ladder(all_marks: Sequence[Marks], language: str = "en") -> str:
    """Where a learner stands, in Markdown: every exercise with what has become of it, and what to do next.

    Args:
        all_marks: of each exercise, in the order in which they are done.
        language: of the words.
    """
    values = {"text": words(language), "exercises": [_values(marks, language) for marks in all_marks]}
    return _rendered("exercise_ladder", values, language)


def told(marks: Marks, report: str, language: str = "en") -> str:
    """What a learner reads in a terminal: what has become of an exercise, its steps, and what to try next.

    Args:
        marks: of the exercise.
        report: path of its report.
        language: of the words.
    """
    said, text = _values(marks, language), words(language)
    head = f"{said['title']}: {said['verdict']}"
    if marks["unfilled"]:
        return f"{head} ({marks['source']})"
    steps_ = [f"  {number}. {step}: {done} ({why})" for number, (step, done, why) in enumerate(said["steps"], 1)]
    advice = [text("told.next", advice=sentence) for sentence in said["advice"]]
    return "\n".join([head, *steps_, *advice, text("told.all", report=report)])


def _rendered(page: str, values: dict[str, Any], language: str) -> str:
    filters = {"number": words(language).number}
    return templates.render("minikernel.report", page, language, values, filters=filters, trimmed=True)
