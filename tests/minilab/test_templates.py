"""Templates are filled in, and compiled once in a process."""

from unittest import mock

import jinja2
import pytest

from minilab.pages.templates import environment


def page(text: str) -> jinja2.Template:
    made = environment("minilab.site")
    made.loader = jinja2.DictLoader({"page.md": text})
    return made.get_template("page.md")


def test_a_page_is_compiled_once_and_filled_in_anew():
    with mock.patch.object(
        jinja2.Environment, "_generate", autospec=True, side_effect=jinja2.Environment._generate
    ) as compiled:
        pages = [page("# {{ title }}, compiled once\n").render(title=title) for title in ("first", "second")]
    assert pages == ["# first, compiled once\n", "# second, compiled once\n"]
    assert compiled.call_count == 1


def test_a_page_that_has_changed_is_compiled_again():
    assert page("{{ title }} of before\n").render(title="a") == "a of before\n"
    assert page("{{ title }} of now\n").render(title="a") == "a of now\n"


def test_a_name_that_nobody_gives_is_an_error():
    with pytest.raises(jinja2.UndefinedError, match="kernel"):
        page("{{ kernel }}").render()
