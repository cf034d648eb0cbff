"""The static site in a browser, opened as files: widths, search, and explorers that open at a line."""

import re
from pathlib import Path

import pytest

from docs.build import site

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(once) -> Path:
    return once("site", lambda folder: site.build(ROOT, folder))


@pytest.mark.parametrize("width", [390, 800, 1440])
def test_pages_fit_and_ask_no_server(built, opened, width):
    opened.page.set_viewport_size({"width": width, "height": 900})
    for page in ("index.html", "explorers.html", "docs/faults.html", "docs/concepts/reducing_a_row.html"):
        opened.page.goto((built / page).as_uri())
        opened.page.wait_for_selector(".md-content h1")
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width, page


def test_the_search_finds_words_without_a_server(built, opened):
    opened.page.goto((built / "docs/glossary.html").as_uri())
    opened.page.fill("input[name=query]", "roofline", force=True)
    opened.page.focus("input[name=query]")
    opened.page.wait_for_selector(".md-search-result__item", state="attached")
    assert "Reading a roofline" in opened.page.inner_text(".md-search-result")


def test_a_link_opens_the_explorer_at_its_line(built, opened):
    opened.page.goto((built / "explorers.html").as_uri())
    opened.page.click("text=The scheduler fuses")
    opened.page.wait_for_selector("html[data-ready]")
    assert "#0/groups." in opened.page.url
    assert opened.page.evaluate("app.pinned") is True


@pytest.mark.parametrize("question", ["kernels here?", "Why this configuration of"])
def test_a_question_on_the_first_page_opens_the_explorer_at_its_answer(built, opened, question):
    opened.page.goto((built / "index.html").as_uri())
    opened.page.click(f"text={question}")
    opened.page.wait_for_selector("html[data-ready]")
    assert "explorer.html#ask/" in opened.page.url
    assert question in opened.page.inner_text("#tour-title")
    assert opened.page.is_visible("#tour-text")
    assert opened.page.evaluate("app.pinned") is True


def test_no_page_opens_an_explorer_without_a_question_or_a_line(built):
    bare = re.compile(r'href="[^"]*explorer\.html"')
    pages = [path for path in built.rglob("*.html") if path.name != "explorer.html"]
    assert not {str(page.relative_to(built)) for page in pages if bare.search(page.read_text())}
