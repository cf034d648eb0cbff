"""What a marked exercise says: the steps that are done, what to try next, and the report.

`minikernel.exercise` finds the marks out; which sentences of `locale/*/exercise.yaml` are said follows from them.
"""

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import yaml

from minilab import templates
from minilab.translations import Retold, Translations

ONE_PASS = 1.05  # reads and writes of each element up to which a kernel takes one pass
HINTS_AT_ONCE = 3  # a learner mends one thing at a time
BORROWED = ("aten::_softmax", "aten::_log_softmax", "aten::logsumexp")  # torch's own, which is not the learner's
NEAR_COPY, FAR_FROM_COPY = 0.9, 0.5  # shares of a copy's bandwidth between which different advice helps
INTERPRETER = "triton-interpreter"


class Step(NamedTuple):
    """One step of the exercise; `done` is None where it could not be judged, `why` says what decided."""

    number: int
    title: str
    done: bool | None
    why: str


@cache
def step_of_case() -> dict[str, int]:
    """Case of the proof -> the step that it belongs to, from `data/exercise.yaml`."""
    return yaml.safe_load((files("minikernel.exercise") / "data/exercise.yaml").read_text())


def words(language: str) -> Translations:
    """The words of the exercise's report."""
    return Translations("minikernel.report", "exercise", language)


def wrong_cases(marks: dict, step: int) -> list[dict]:
    """The cases that belong to a step and are wrong."""
    return [row for row in marks["cases"] if row["reason"] and step_of_case()[row["case"]] == step]


def is_right(marks: dict) -> bool:
    """Whether every case was judged and none is wrong."""
    return bool(marks["cases"]) and not any(row["reason"] for row in marks["cases"])


def borrowed(marks: dict) -> list[str]:
    """Which of torch's own softmaxes the function calls: what they do is not the learner's."""
    called = {operation for row in marks["traffic"] for operation in row["operations"]}
    return sorted(name.removeprefix("aten::") for name in called if name.startswith(BORROWED))


def steps(marks: dict, language: str = "en") -> list[Step]:
    """The four steps, each with whether it is done and what decided it.

    Args:
        marks: as `minikernel.exercise.exercise.mark` gives them.
        language: of the sentences.
    """
    text = words(language)
    judged = [_right(marks, 1, text), _right(marks, 2, text), _one_pass(marks, text), _fast(marks, text)]
    return [Step(number, text(f"step.{number}"), *verdict) for number, verdict in enumerate(judged, 1)]


def _right(marks: dict, step: int, text: Translations) -> tuple[bool, str]:
    if not marks["cases"]:
        return False, _told(marks["unfilled"] or marks["ended"], text)
    wrong, of = len(wrong_cases(marks, step)), sum(step_of_case()[row["case"]] == step for row in marks["cases"])
    return not wrong, text("why.cases", right=of - wrong, of=of)


def _one_pass(marks: dict, text: Translations) -> tuple[bool | None, str]:
    if not is_right(marks):
        return False, text("why.later")
    if borrowed(marks):
        return False, text("why.borrowed", names=", ".join(borrowed(marks)))
    if not _moves(marks):
        return None, text("why.uncounted")
    row = marks["traffic"][0]
    reads, writes = text.number(row["reads"], ".3g"), text.number(row["writes"], ".3g")
    said = text("why.passes", reads=reads, writes=writes, cols=text.number(row["cols"], ","))
    return row["reads"] <= ONE_PASS and row["writes"] <= ONE_PASS, said


def _fast(marks: dict, text: Translations) -> tuple[bool | None, str]:
    if not is_right(marks):
        return False, text("why.later")
    if borrowed(marks):
        return False, text("why.not_yours")
    if not marks["timed"]:
        return None, text("why.interpreted") if marks["executed_by"] == INTERPRETER else marks["untimed"]
    row = marks["timed"][-1]
    ratio, noise = text.number(row["ratio_to_reference"], ".2f"), text.number(row["noise_floor"], ".1%")
    return _as_fast(row), text("why.speed", ratio=ratio, shape=_shape(row, text), noise=noise)


def _as_fast(row: dict) -> bool:
    """Whether a timed row takes no longer than F.softmax, but for the noise."""
    return row["ratio_to_reference"] <= 1 + row["noise_floor"]


def _moves(marks: dict) -> bool:
    return bool(marks["traffic"]) and marks["traffic"][0]["reads"] > 0


def _shape(row: dict, text: Translations) -> str:
    return f"{text.number(row['rows'], ',')} x {text.number(row['cols'], ',')}"


def _told(sentence: str, text: Translations) -> str:
    return Retold("minikernel.report", "told", text.language)(sentence)


def moved_bytes_ratio(marks: dict) -> float | None:
    """Bytes moved at the lab's width over the fewest possible, one read and one write; None where they are unknown."""
    if not _moves(marks) or not is_right(marks) or borrowed(marks):
        return None
    return max(1.0, (marks["traffic"][0]["reads"] + marks["traffic"][0]["writes"]) / 2)


def next_steps(marks: dict, language: str = "en") -> list[str]:
    """What to try next, a sentence or two each, from what was measured; the most pressing first."""
    text = words(language)
    if marks["unfilled"]:
        return [text("next.begin")]
    if marks["ended"]:
        return [text("next.ended")]
    wrong = {row["case"] for step in (1, 2) for row in wrong_cases(marks, step)}
    if wrong:
        cases = [case for case in step_of_case() if case in wrong][:HINTS_AT_ONCE]
        return [text("next.hint", case=text(f"case.{case}"), hint=text(f"hint.{case}")) for case in cases]
    if borrowed(marks):
        return [text("next.borrowed")]
    return _about_passes(marks, text) or _about_speed(marks, text)


def _about_passes(marks: dict, text: Translations) -> list[str]:
    if not _moves(marks):
        return []
    row = marks["traffic"][0]
    ratio = (row["reads"] + row["writes"]) / 2
    if ratio <= ONE_PASS:
        return []
    moved = text.number(ratio, ".3g")
    if row["operations"]:
        return [text("next.operations", count=len(row["operations"]), moved=moved)]
    return [text("next.passes", moved=moved, share=text.number(1 / ratio, ".0%"))]


def _about_speed(marks: dict, text: Translations) -> list[str]:
    if not marks["timed"]:
        return [text("next.gpu"), *_about_long_rows(marks, text)]
    small, large = marks["timed"][0], marks["timed"][-1]
    if _as_fast(large):
        advice = [text("next.register"), *_about_long_rows(marks, text)]
        if not _as_fast(small):
            ratio = text.number(small["ratio_to_reference"], ".2f")
            advice.append(text("next.small", rows=text.number(small["rows"], ","), ratio=ratio))
        return advice
    share = large["fraction_of_copy"]
    how_near = "far" if share < FAR_FROM_COPY else "middle" if share < NEAR_COPY else "near"
    return [text(f"next.{how_near}", shape=_shape(large, text), share=text.number(share, ".0%"))]


def _about_long_rows(marks: dict, text: Translations) -> list[str]:
    row = marks["traffic"][-1] if _moves(marks) else None
    if row is None or row["reads"] <= ONE_PASS:
        return []
    return [text("next.long_rows", cols=text.number(row["cols"], ","), reads=text.number(row["reads"], ".3g"))]


def report(marks: dict, device: str, picture: str, language: str = "en") -> str:
    """The marked exercise in Markdown, from `templates/exercise.md`.

    Args:
        marks: as `minikernel.exercise.exercise.mark` gives them.
        device: slug of the machine that marked it.
        picture: the roofline's path, relative to the report.
        language: of the words.
    """
    text = words(language)
    environment = templates.environment("minikernel.report", trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"number": text.number, "told": lambda sentence: _told(sentence, text)}
    return environment.get_template("exercise.md").render(
        text=text,
        marks=marks,
        device=device,
        steps=steps(marks, language),
        advice=next_steps(marks, language),
        picture=picture,
        cases=list(dict.fromkeys(row["case"] for row in marks["cases"])),
        widths=sorted({row["cols"] for row in marks["cases"]}),
        at={(row["case"], row["cols"]): row for row in marks["cases"]},
        wrong={row["case"]: row["reason"] for row in reversed(marks["cases"]) if row["reason"]},
    )
