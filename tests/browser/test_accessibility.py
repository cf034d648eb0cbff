"""Every page against WCAG 2.1 AA, by axe-core, in light and dark, in each state that a reader meets."""

import pytest
from chosen import tuned
from explored import profile_of, tiny_head, tiny_head_simulated
from front_door import make_page

from minicompile import render_explorer

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe: pip install axe-playwright-python")

RULES = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]},
    "resultTypes": ["violations"],  # of the rest, one place each
}
LOOKS = [
    {"viewport": {"width": width, "height": 900}, "color_scheme": scheme, "bypass_csp": True}
    for width, scheme in ((800, "dark"), (1280, "light"), (1920, "dark"))
]
in_every_look = pytest.mark.parametrize(
    "opened", LOOKS, indirect=True, ids=lambda look: f"{look['viewport']['width']} {look['color_scheme']}"
)


@pytest.fixture(scope="module")
def front_door(tmp_path_factory):
    return make_page(tmp_path_factory.mktemp("lab"))


@pytest.fixture(scope="module")
def explorer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explorer")
    cpu = tiny_head()
    render_explorer([cpu, tiny_head_simulated()], folder / "both.html", profile=[profile_of(cpu), None])
    return folder / "both.html"


def violations(opened) -> list[str]:
    """What axe finds wrong with the page as it is, each with its first place; it must have looked at contrasts."""
    found = axe.Axe().run(opened.page, options=RULES).response
    assert "color-contrast" in {rule["id"] for rule in [*found["passes"], *found["violations"]]}
    return [f"{rule['id']}: {rule['nodes'][0]['html'][:200]}" for rule in found["violations"]]


def test_a_flaw_would_be_seen(opened, front_door):
    opened.go(front_door)
    opened.page.evaluate("document.querySelector('.lead').style.color = 'light-dark(#ccc, #444)'")
    opened.page.evaluate("document.querySelector('figure img').removeAttribute('alt')")
    assert {violation.split(":")[0] for violation in violations(opened)} == {
        "color-contrast",
        "image-alt",
        "link-name",  # its only content was that picture
    }


@in_every_look
def test_the_front_door(opened, front_door):
    opened.go(front_door)
    assert violations(opened) == []
    opened.page.evaluate("for (const fold of document.querySelectorAll('main details')) fold.open = true")
    opened.page.locator("#rule-bench td a.file").first.click()
    opened.page.locator("#query").fill("bench")
    assert violations(opened) == []
    opened.page.keyboard.press("Escape")
    opened.page.locator(".readings a.file").first.click()
    assert violations(opened) == []


@in_every_look
def test_the_explorer(opened, explorer):
    opened.go(explorer)
    assert violations(opened) == []
    opened.page.locator(".pane .line").nth(3).click()
    assert violations(opened) == []
    opened.page.locator("#open-help").click()
    assert violations(opened) == []


@in_every_look
def test_the_choices(opened, tmp_path):
    render_explorer([tuned("cpu"), tuned("simulated")], tmp_path / "choices.html")
    opened.go(tmp_path / "choices.html")
    opened.page.locator("#open-choices").click()
    opened.page.evaluate("for (const one of document.querySelectorAll('#choices details')) one.open = true")
    opened.page.locator("#choices pre").first.wait_for()
    # what the dialog covers would be taken to overlap it
    opened.page.evaluate("for (const one of document.body.children) if (one.id !== 'choices') one.hidden = true")
    opened.page.add_style_tag(content="[hidden] { display: none !important; }")
    assert violations(opened) == []
