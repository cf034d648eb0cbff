"""Write results/grade/index.html: a class's marks for its teacher, in one file that asks nothing of the network."""

import re
from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from minikernel.reasons import in_words
from minikernel.report.exercise_report import words
from minilab.pages.translations import Translations
from minilab.pages.web_page import asset, base_style, embedded_json, script_text

PACKAGE = "minikernel.report"
STUMBLES = 3  # of an exercise that are shown
# Verdict -> how it is shown: its colour's class, and a mark that does without colour.
SHOWN = {
    "done": ("good", "✓"), "unpredicted": ("part", "?"), "traffic": ("part", "≫"), "uncounted": ("part", "?"),
    "borrowed": ("bad", "="), "wrong": ("bad", "✗"), "ended": ("bad", "!"), "unmarked": ("bad", "!"),
    "link": ("bad", "!"), "no_file": ("bad", "!"), "too_large": ("bad", "!"), "unreadable": ("bad", "!"),
    "unfilled": ("none", "·"), "missing": ("none", "–"), "unjudged": ("none", "·"),
}  # fmt: skip
PROBLEMS = {"bad"}
FIRST_CLAUSE = re.compile(r"[.:;](?= |$)")


def grade_page(book: Mapping[str, Any], language: str = "en") -> str:
    """The page of a class.

    Args:
        book: as `minikernel.exercise.grading.gradebook.gradebook` gives it (schemas/grades.schema.yaml).
        language: of the page.
    """
    text, exercise = Translations(PACKAGE, "grade", language), words(language)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    found = {row["exercises"][name]["verdict"] for row in book["students"] for name in book["exercises"]}
    return environment.from_string(asset(PACKAGE, "grade.html")).render(
        text=text,
        language=language,
        book=book,
        exercises=[_exercise(book, name, exercise) for name in book["exercises"]],
        rows=[_row(row, book["exercises"], text, exercise, language) for row in book["students"]],
        legend=[{**_shown(verdict, text), "means": text(f"means.{verdict}")} for verdict in SHOWN if verdict in found],
        base=base_style(),
        style=Markup(asset(PACKAGE, "grade.css")),
        program=script_text(("minilab.pages", "theme.js"), (PACKAGE, "grade.js")),
        sentences=embedded_json(text.under("program")),
    )


def _shown(verdict: str, text: Translations) -> dict[str, str]:
    kind, mark = SHOWN[verdict]
    return {"kind": kind, "mark": mark, "verdict": text(f"verdict.{verdict}")}


def _exercise(book: Mapping[str, Any], name: str, exercise: Translations) -> dict[str, Any]:
    """An exercise: how many students have done it, and where the others stumble."""
    done = sum(row["exercises"][name]["verdict"] == "done" for row in book["students"])
    stumbles = [
        {**one, "said": FIRST_CLAUSE.split(sentence := exercise(f"hint.{one['hint']}"))[0], "sentence": sentence}
        for one in book["stumbles"][name][:STUMBLES]
    ]
    title = exercise(f"title.{name}")
    share = 100 * done / max(1, len(book["students"]))
    return {"title": title, "short": _short(name), "done": done, "percent": round(share), "stumbles": stumbles}


def _short(name: str) -> str:
    return name.replace("_", " ")


def _row(
    row: Mapping[str, Any], names: list[str], text: Translations, exercise: Translations, language: str
) -> dict[str, Any]:
    cells = [
        {
            **_shown(row["exercises"][name]["verdict"], text),
            "short": _short(name),
            "said": _said(row["exercises"][name], text, exercise, language),
        }
        for name in names
    ]
    problem = any(cell["kind"] in PROBLEMS for cell in cells)
    return {"student": row["student"], "done": row["done"], "cells": cells, "problem": problem}


def _said(cell: Mapping[str, Any], text: Translations, exercise: Translations, language: str) -> list[str]:
    """What is known of a cell besides its verdict, a sentence each."""
    said = []
    if cell["reason"]:
        said.append(f"{in_words(cell['reason'], language)}.")
    said += [exercise(f"hint.{hint}") for hint in cell["hints"][:1]]
    if cell["traffic"]:
        said.append(text("moves", **{name: text.number(value, ".3g") for name, value in cell["traffic"].items()}))
    if cell["held"] is not None:
        said.append(text("held", count=cell["held"], of=len(cell["predicted"])))
    if cell["speed"]:
        ratio, noise = text.number(cell["speed"]["ratio"], ".2f"), text.number(cell["speed"]["noise"], ".0%")
        said.append(text("speed", ratio=ratio, noise=noise))
    if cell["alike"]:
        said.append(text("alike", names=", ".join(cell["alike"])))
    return said
