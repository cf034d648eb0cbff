"""A page's text as sentences, each with the section that it stands in."""

import re
from dataclasses import dataclass

NOTED = re.compile(r"\b[Bb]y Inductor's notes:? ?")


@dataclass(frozen=True)
class Sentence:
    """A sentence of a page.

    Attributes:
        section: the number of its section; 0 is the head, -1 the code at the end.
        kind: `text`, `item` of a list, `row` of a table, or `comment` in the code.
        text: its words, without those that say that notes tell it.
        noted: whether it is told by Inductor's notes alone.
        over: for a row or an item, the last text above it.
    """

    section: int
    kind: str
    text: str
    noted: bool = False
    over: str = ""


def sentences(page: str) -> list[Sentence]:
    """All that a page says, in order."""
    made: list[Sentence] = []
    section, over, code = 0, "", False
    for line in page.split("\n"):
        text = line.strip()
        if text.startswith("```"):
            code = not code
        elif code:
            if match := re.match(r"(?://|#) (\d+: .*)", text) or re.search(r"  (?://|#) (\d+: .*)$", text):
                made.append(Sentence(-1, "comment", match[1]))
        elif text.startswith("#"):
            match = re.match(r"## (\d)\.", text)
            section, over = int(match[1]) if match else (0 if text.startswith("# ") else 9), ""
        elif text.startswith("|"):
            if not re.fullmatch(r"[|\- ]+", text) and not text.startswith("| operation |"):
                made.append(_told(section, "row", text, over))
        elif text.startswith("- "):
            made.append(_told(section, "item", text[2:], over))
        elif text:
            for one in _apart(text.removeprefix("> ")):
                if not one.endswith(":"):  # what follows says it
                    made.append(_told(section, "text", one, ""))
            over = text
    return made


def _told(section: int, kind: str, text: str, over: str) -> Sentence:
    noted = bool(NOTED.search(text)) or bool(NOTED.search(over))
    return Sentence(section, kind, NOTED.sub("", text), noted, NOTED.sub("", over))


def _apart(text: str) -> list[str]:
    """The sentences of a paragraph; code has full stops of its own."""
    kept: list[str] = []
    hidden = re.sub(r"`[^`]*`", lambda match: kept.append(match[0]) or f"\0{len(kept) - 1}\0", text)
    parts = re.split(r"(?<=[.!?]) (?=[A-Z\0])", hidden)
    return [re.sub(r"\0(\d+)\0", lambda match: kept[int(match[1])], one) for one in parts]
