"""The page of a class in a browser: it finds students, fits a phone, meets WCAG, and what students wrote is text."""

import pytest
from marked_class import WRONG, book
from test_accessibility import in_every_look, violations

from minikernel.report.grade_page import grade_page


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("class") / "index.html"
    path.write_text(grade_page(book(row=WRONG)))
    return path.as_uri()


def test_a_student_is_found_and_what_a_student_is_called_is_text(opened, page):
    opened.page.goto(page)
    assert opened.page.locator("tbody tr:visible").count() == 2
    opened.page.fill("#search", "<B>")
    assert opened.page.locator("tbody tr:visible th").all_text_contents() == ["<b>Bo</b>"]
    assert opened.page.locator("#shown").text_content()


def test_a_phone_shows_all_of_it_without_scrolling_sideways(opened, page):
    opened.page.set_viewport_size({"width": 390, "height": 844})
    opened.page.goto(page)
    opened.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 390
    assert opened.page.evaluate("document.querySelector('.scroll').scrollWidth") <= 390


@in_every_look
def test_it_meets_wcag(opened, page):
    opened.page.goto(page)
    opened.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert violations(opened) == []
