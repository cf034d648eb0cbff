"""The glossary: each term linked once, where it first stands in prose, and every link leads to a heading."""

import re
from pathlib import Path

import pytest

from minilab.pages.translations import LANGUAGES
from minilab.site.glossary import FILE, glossary_page, linked

ROOT = Path(__file__).parents[3]


def test_a_term_is_linked_where_it_first_stands_and_nowhere_else():
    page = "A warp waits.\n\nTwo warps wait, and a Warp.\n"
    assert linked(page, "results/24/README.md") == (
        "A [warp](../../docs/glossary.md#warp) waits.\n\nTwo warps wait, and a Warp.\n"
    )


@pytest.mark.parametrize(
    "page",
    [
        "# The roofline\n",
        "`roofline`\n",
        "![Roofline](roofline.png)\n",
        "[the roofline](a.md)\n",
        "| roofline |\n",
        "```\nroofline\n```\n",
        "roofline.png and a-roofline\n",
    ],
)
def test_no_link_is_put_into_code_headings_pictures_links_tables_or_names(page):
    assert linked(page, "README.md") == page


def test_a_term_that_a_line_ends_within_is_found_and_the_longest_name_wins():
    said = linked("the LM\nhead; shared memory\n", "docs/x.md")
    assert said == "the [LM\nhead](glossary.md#lm-head); [shared memory](glossary.md#shared-memory)\n"


def test_a_page_in_spanish_leads_to_the_spanish_glossary():
    assert "(../docs/glossary.es.md#fallo-de-página)" in linked("Dos fallos de página.", "results/x.md", "es")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_name_leads_to_a_heading_of_the_glossary(language):
    page = glossary_page(language)
    headings = {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^## (.+)$", page, re.M)
    }
    prose = "\n\n".join(line for line in page.splitlines() if not line.startswith("#"))
    anchors = set(re.findall(r"\(\S*#([^)]+)\)", linked(prose, FILE[language], language)))
    assert len(anchors) > 10
    assert anchors <= headings


def test_what_folds_a_part_of_a_page_away_has_no_link():
    page = "<details><summary>Time, and the roofline</summary>\n"
    assert linked(page, "README.md") == page


RULE = re.compile(r"^rule (\w+):\n(.*?)(?=^rule |\Z)", re.S | re.M)
PAGES = {
    name
    for file in (ROOT / "rules").glob("*.smk")
    for name, rule in RULE.findall(file.read_text())
    if re.search(r'^ {8}\w+=(?:shown\()?"results/\S*\.md"', rule, re.M)
}


@pytest.mark.parametrize("name", sorted(PAGES))
def test_every_rule_that_writes_a_page_links_its_terms(name):
    script = (ROOT / f"scripts/{name}.py").read_text()
    assert re.search(r"from minilab\.site\.glossary import (write_)?linked$", script, re.M)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_in_docs_is_the_one_that_is_written(language):
    assert Path(FILE[language]).read_text() == glossary_page(language)
