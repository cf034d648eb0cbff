"""Load the reports' templates with Jinja2; a name that a template uses and nobody gives is an error."""

from typing import Any

import jinja2


def environment(package: str, **options: Any) -> jinja2.Environment:
    """Make the Jinja2 environment that loads from a package's `templates` folder; `options` are Jinja2's own."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        **options,
    )
