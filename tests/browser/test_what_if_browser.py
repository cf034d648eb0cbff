"""The page of a what-if in a browser: the guess, the answer, keyboard and accessibility."""

import pytest
from what_if_models import found

from minicompile.explain.what_if import render_what_if

LOOKS = [
    {
        "viewport": {"width": width, "height": 900},
        "color_scheme": scheme,
        "bypass_csp": True,
        "reduced_motion": "reduce",
    }
    for width, scheme in ((400, "light"), (1280, "dark"))
]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("what_if") / "fusion.html"
    render_what_if(found("fusion"), path)
    return path


def test_the_answer_waits_for_the_guess(opened, page):
    opened.go(page)
    assert not opened.page.locator("#answer").is_visible()
    opened.page.locator("input[value=fewer]").focus()
    opened.page.keyboard.press("ArrowDown")
    opened.page.keyboard.press("ArrowDown")  # fewer, as many, more
    opened.page.keyboard.press("Tab")
    opened.page.keyboard.type("7")
    opened.page.keyboard.press("Enter")
    assert opened.page.locator("#answer").is_visible()
    assert opened.page.locator("#verdict").inner_text() == "Your guess was right. You guessed 7; it is 2."
    assert opened.page.evaluate("document.activeElement.id") == "answer-title"


@pytest.mark.parametrize(("way", "said"), [("fewer", "Your guess was another way."), (None, "You made no guess.")])
def test_a_wrong_guess_and_none_are_told(opened, page, way, said):
    opened.go(page)
    if way:
        opened.page.locator(f"input[value={way}]").check()
    opened.page.locator("form button").click()
    assert opened.page.locator("#verdict").inner_text() == said


def test_a_changed_kernel_is_a_link_into_the_code(opened, page):
    opened.go(page)
    opened.page.locator("form button").click()
    opened.page.locator("summary").first.click()
    opened.page.locator(".side a").first.click()
    assert opened.page.locator(":target").is_visible()


@pytest.mark.parametrize("opened", LOOKS, indirect=True, ids=lambda look: f"{look['viewport']['width']}")
def test_axe_finds_nothing(opened, page):
    pytest.importorskip("axe_playwright_python", reason="no axe: pip install axe-playwright-python")
    from test_accessibility import violations

    opened.go(page)
    for press in ("#theme", "form button", "summary"):
        assert violations(opened) == []
        opened.page.locator(press).first.click()
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
