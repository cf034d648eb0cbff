"""Inductor's reasons for not fusing, each in a sentence for people who do not read its source.

`data/fusion_reasons.yaml` holds them as patterns, first match first. A reason that it does not know, as a newer
torch may give one, is quoted as it stands rather than guessed at.
"""

import re
from functools import cache
from pathlib import Path

import yaml

DATA = Path(__file__).parent / "data" / "fusion_reasons.yaml"
TAKEN = "Fused: one kernel computes both, so what the first hands to the second need not pass through memory."
UNGIVEN = "Not fused, and Inductor gives no reason."


@cache
def reasons() -> list[tuple[re.Pattern, str]]:
    """(pattern, sentence) pairs, in order."""
    return [(re.compile(entry["reason"]), entry["sentence"]) for entry in yaml.safe_load(DATA.read_text())]


def sentence(taken: bool, given: list[str]) -> str:
    """A plain sentence about one decision; the last reason given is the one that decided."""
    if taken:
        return TAKEN
    if not given:
        return UNGIVEN
    for pattern, text in reasons():
        if pattern.search(given[-1]):
            return text
    return f"Not fused; Inductor's reason, in its own words: {given[-1]}."
