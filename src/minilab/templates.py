"""The reports' templates: Jinja2, with an error for whatever a template asks for and nobody gives."""

from typing import Any

import jinja2


def environment(package: str, **options: Any) -> jinja2.Environment:
    """Where the templates of a package's `templates` folder are loaded; `options` are Jinja2's own."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        **options,
    )
