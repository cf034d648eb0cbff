"""Why a kernel is left out or refused: a code with fields, as artefacts hold it, and the sentence for people.

A reason is {"code", ...}: a key under `why` of `locale/*/reasons.yaml`, or of `minilab.user_code`'s catalogue, and the
fields of its sentence. Where it happened is a place, {"code", "kernel", "device", ...}, under `at`.
"""

import math
from collections.abc import Mapping
from typing import Any

from minilab import LabError
from minilab.pages.translations import Translations
from minilab.user_code import first_line

Reason = dict[str, Any]
Place = dict[str, Any]


class Refusal(LabError):
    """A refusal whose reason is known by its code; its text is the reason's English sentence."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        super().__init__(f"{in_words(reason)}.")


class _Number(float):
    """A number that a sentence's own format writes in the sentence's language."""

    text: Translations

    def __format__(self, form: str) -> str:
        return self.text.number(float(self), form)


def wrong(error: float, tolerance: float, code: str = "wrong") -> Reason:
    """The reason of a result whose error is beyond its tolerance; an infinite error has no number, and JSON none."""
    if not math.isfinite(error):
        return {"code": f"{code}_in_kind"}
    return {"code": code, "error": error, "tolerance": tolerance}


def of_exception(failure: BaseException) -> Reason:
    """The reason behind what was raised: its own, a refusal's sentence, or the first line of somebody else's words."""
    known = getattr(failure, "reason", None)
    if isinstance(failure, LabError):
        return known if isinstance(known, dict) else {"code": "refused", "text": str(failure).removesuffix(".")}
    return {"code": "raised", "text": first_line(failure)}


def in_words(reason: Mapping[str, Any], language: str = "en") -> str:
    """Say a reason in one sentence, without its full stop.

    Args:
        reason: as `wrong`, `of_exception` and the artefacts have it.
        language: of the sentence; what a kernel itself raised stays as it is.

    Raises:
        LabError: no such code, or a field of its sentence is missing.
    """
    users = Translations("minilab", "user_code", language)
    if reason["code"] in users:
        return users(reason["code"], **{key: str(value) for key, value in reason.items() if key != "code"}).rstrip(".")
    text = Translations("minikernel", "reasons", language)
    fields = {name: _written(name, value, text) for name, value in reason.items() if name not in ("code", "at")}
    said = text(f"why.{reason['code']}", **fields)
    return f"{place_in_words(reason['at'], language)}: {said}" if "at" in reason else said


def place_in_words(place: Mapping[str, Any], language: str = "en") -> str:
    """Say where something happened, as a sentence begins: `kernel mine on cpu, while it was loaded`."""
    text = Translations("minikernel", "reasons", language)
    fields = {name: _written(name, value, text) for name, value in place.items() if name != "code"}
    return text(f"at.{place['code']}", **fields)


def _written(name: str, value: object, text: Translations) -> object:
    """A field as sentences take it: shapes as tuples, counts of bytes in words, numbers in the language's writing."""
    if name in ("shape", "right_shape"):
        return str(tuple(value)) if isinstance(value, list | tuple) else value
    if name in ("bytes", "distance"):
        return text("bytes", count=value)
    if isinstance(value, dict):  # whose memory it is, or where beside it
        inner = {key: _written(key, part, text) for key, part in value.items() if key != "code"}
        return text(f"{name.removeprefix('right_')}.{value['code']}", **inner)
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = _Number(value)
        number.text = text
        return number
    return value
