"""What the page says of the intrinsics in kernels: those of data/intrinsics.yaml that the captures' kernels use."""

import re
from functools import cache
from importlib import resources

import yaml

from minicompile.lowering.captured import Capture
from minilab.pages.translations import Translations


@cache
def table() -> list[dict[str, str]]:
    """Every intrinsic: its `key`, the `language` of the kernels that have it, and the `pattern` of its text."""
    file = resources.files("minicompile.explain").joinpath("data", "intrinsics.yaml")
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def used(captures: list[Capture], language: str) -> list[dict[str, str]]:
    """The intrinsics that occur in kernels, with `text`, what each does, in a language; patterns are JavaScript's too.

    Args:
        captures: as in schemas/capture.schema.yaml.
        language: en or es.
    """
    words = Translations("minicompile.explain", "intrinsics", language)
    texts: dict[str, set[str]] = {}
    for capture in captures:
        lines = {pane["id"]: pane["lines"] for pane in capture["panes"] if pane["kind"] == "code"}
        for graph in capture["graphs"]:
            for kernel in graph["kernels"]:
                body = lines[graph["panes"]["code"]][kernel["first"] - 1 : kernel["last"]]
                texts.setdefault(kernel["language"], set()).update(body)
    return [
        {**entry, "text": words(entry["key"])}
        for entry in table()
        if any(re.search(entry["pattern"], line) for line in texts.get(entry["language"], ()))
    ]
