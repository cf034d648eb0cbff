"""How the report of stage 24 writes numbers, shapes and places, in one language: the filters of its templates."""

from collections.abc import Callable, Iterable
from itertools import groupby

from minikernel.reasons import in_words
from minilab.pages.translations import Translations
from minilab.records.words import worded

LONGEST_CELL = 140  # characters of somebody else's words in a table


def filters(text: Translations) -> dict[str, Callable]:
    """Name of a filter -> what it makes of a value, in the language of `text`, the report's words."""
    number = text.number

    def shape(sizes: Iterable[int]) -> str:
        return " x ".join(number(size, ",") for size in sizes)

    def place(row: dict) -> str:
        return shape((row["rows"], row["cols"]))

    def microseconds(value: float) -> str:
        return number(value, ",.1f" if value < 1000 else ",.0f")

    def places(rows: list[dict]) -> str:
        """Shapes and dtypes in words: `32,768 x 600 (float32, bfloat16), 64 x 600 (float32)`."""
        rows = sorted(rows, key=lambda row: (row["cols"], row["rows"]))
        held = [(at, dict.fromkeys(row["dtype"] for row in same)) for at, same in groupby(rows, key=place)]
        return ", ".join(f"{at} ({', '.join(dtypes)})" for at, dtypes in held)

    def span(ends: tuple[float, float] | None, form: str) -> str:
        """The least and the most of something, once where they read the same."""
        if ends is None:
            return text("not_measured")
        least, most = (number(end, form) for end in ends)
        return least if least == most else text("span", least=least, most=most)

    def share(row: dict) -> str:
        """A row's share of a copy's bandwidth; no number where it is more than there can be."""
        return text("above_roof") if row["above_roof"] else number(row["fraction_of_copy"], ".0%")

    def value(measured: float | None) -> str:
        if measured is None:
            return text("not_measured")
        return number(measured, ".3f" if measured >= 0.001 else ".1e")

    def error(cases: tuple[str, list[dict]]) -> str:
        dtype, rows = cases
        return text("error_in", error=number(max(row["max_rel_err"] for row in rows), ".1e"), dtype=dtype)

    return {
        "number": number,
        "shape": shape,
        "microseconds": microseconds,
        "configuration": lambda config: ", ".join(f"{name} {number(value)}" for name, value in config.items()),
        "places": places,
        "span": span,
        "share": share,
        "value": value,
        "cell": cell,
        "reason": lambda reason: in_words(reason, text.language),
        "stale_reason": lambda reason: worded(reason, text.language),
        "distrusted": lambda row: text("distrusted", kernel=row["kernel"], shape=place(row)),
        "miss": lambda at: (
            text("missed_at", rows=number(at["rows"], ","), by=number(at["by"], ".1%"))
            + (text("within_noise") if at["within_noise"] else "")
        ),
        "word": lambda word: f"{word['word']} ({number(word['probability'], '.3f')})",
        "error": error,
        "head_error": lambda named: f"`{named[0]}` {number(named[1]['max_rel_err'], '.1e')}",
    }


def cell(words: str) -> str:
    """Somebody else's words in a table: one line, not too long, no bar that would end the cell."""
    short = " ".join(words.split())
    return (short if len(short) <= LONGEST_CELL else short[: LONGEST_CELL - 1] + "…").replace("|", "\\|")
