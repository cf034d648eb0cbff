"""The result of `diff_compiles` for people: results/25/diff.md, by `templates/capture_diff.md`."""

import re

import jinja2


def described(diff: dict) -> str:
    """A diff in Markdown.

    Args:
        diff: as `minicompile.lowering.capture_diff.diff_compiles` returns it.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("minicompile"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["count"] = lambda value: "not known" if value is None else f"{value:,}"
    return re.sub(r"\n{3,}", "\n\n", environment.get_template("capture_diff.md").render(diff)).strip() + "\n"
