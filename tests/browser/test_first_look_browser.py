"""The first look in a browser: it fits, opens the explorer at its first question and the timeline, and meets WCAG."""

from pathlib import Path

import pytest
import recorded_pages
from test_accessibility import in_every_look, violations


@pytest.fixture(scope="module")
def page(once) -> Path:
    return once("first_look", recorded_pages.first_look) / "look.html"


def framed(opened, number: int):
    """The page that a frame shows, once it has been scrolled to."""
    frame = opened.page.locator("iframe").nth(number)
    frame.scroll_into_view_if_needed()
    shown = frame.element_handle().content_frame()
    shown.wait_for_selector("html[data-ready]")
    return shown


@pytest.mark.parametrize("width", [390, 800, 1440])
def test_it_fits_and_shows_the_explorer_and_the_timeline(opened, page, width):
    opened.page.set_viewport_size({"width": width, "height": 900})
    opened.go(page)
    assert opened.page.evaluate("[document.documentElement.scrollWidth <= innerWidth, scrollY]") == [True, 0]
    explorer = framed(opened, 0)
    question = opened.page.locator("section:has(iframe) b").first.inner_text()
    assert explorer.inner_text("#tour-title") == question
    assert explorer.evaluate("app.pinned") is True
    timeline = framed(opened, 1)
    assert timeline.locator("#chart").is_visible()
    timeline.locator('a[target="_top"]').click()
    opened.page.wait_for_url(page.as_uri())


def test_it_opens_both_in_full(opened, page):
    for place in (0, 1):
        opened.go(page)
        opened.page.locator("a.open").nth(place).click()
        opened.page.wait_for_selector("html[data-ready] :is(#tour-title, #chart)")


@in_every_look
def test_it_meets_wcag(opened, page):
    opened.go(page)
    opened.page.evaluate("for (const one of document.querySelectorAll('iframe')) one.remove()")  # they have their own
    assert violations(opened) == []
