"""The result of `diff_compiles` for people: results/25/diff.md, by `templates/capture_diff.md`."""

import re

from minilab import templates


def described(diff: dict) -> str:
    """A diff in Markdown.

    Args:
        diff: as `minicompile.lowering.capture_diff.diff_compiles` returns it.
    """
    environment = templates.environment("minicompile", trim_blocks=True, lstrip_blocks=True)
    environment.filters["count"] = lambda value: "not known" if value is None else f"{value:,}"
    return re.sub(r"\n{3,}", "\n\n", environment.get_template("capture_diff.md").render(diff)).strip() + "\n"
