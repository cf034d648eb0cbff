"""The lab's front door as a reader meets it, in a real browser."""

import pytest
from front_door import RULES, make_page

REPORT, NOTES, PICTURE = "results/24/README.md", "results/24/other/NOTES.md", "results/24/roofline.png"
BENCH = "results/24/cpu/bench.json"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return make_page(tmp_path_factory.mktemp("lab"))


@pytest.fixture
def door(opened, page):
    """The page, open."""
    opened.go(page)
    return opened


def panel(door):
    return door.page.locator("#panel")


def reader(door):
    return door.page.locator("#reader")


def files_under(door, title):
    """The files in a list of the panel, by the list's title."""
    found = door.page.locator("#panel-body section", has=door.page.get_by_role("heading", name=title, exact=True))
    return [link.get_attribute("data-file") for link in found.locator("a.file").all()]


def open_rule(door, name):
    """Open a rule, and what it is folded into, as a reader does."""
    for fold in ("#behind", ".rules"):
        summary = door.page.locator(f"{fold}:not([open]):has(#rule-{name}) > summary")
        if summary.count():
            summary.click()
    door.page.locator(f"#rule-{name} > summary").click()


def file_of_rule(door, rule, path):
    return door.page.locator(f"#rule-{rule} a.file[data-file='{path}']").first


def test_a_click_on_a_file_shows_what_it_is_made_of_and_what_it_feeds(door):
    open_rule(door, "bench")
    file_of_rule(door, "bench", BENCH).click()
    assert door.page.locator("#panel-title").inner_text() == BENCH
    assert files_under(door, "Made of") == ["src/kernel.cu"]
    assert files_under(door, "Feeds") == [PICTURE]


def test_one_can_walk_from_file_to_file(door):
    open_rule(door, "bench")
    file_of_rule(door, "bench", BENCH).click()
    panel(door).locator(f"a.file[data-file='{PICTURE}']").click()
    assert files_under(door, "Made of") == [BENCH, "results/24/h200/bench.json"]
    assert files_under(door, "Feeds") == [REPORT, NOTES]
    assert "params changed" in panel(door).inner_text()


def test_escape_closes_the_panel_and_gives_the_focus_back(door):
    open_rule(door, "bench")
    file_of_rule(door, "bench", BENCH).click()
    door.page.keyboard.press("Escape")
    assert not panel(door).is_visible()
    assert door.page.evaluate("document.activeElement.dataset.file") == BENCH


def test_a_file_can_be_shared_by_the_pages_address(opened, page):
    opened.go(page, f"#file={BENCH}")
    assert opened.page.locator("#panel-title").inner_text() == BENCH


def test_a_report_is_read_in_place_and_leads_to_the_next(door):
    door.page.locator(f".readings a[data-file='{REPORT}']").first.click()
    assert reader(door).get_by_role("heading", name="What was found").is_visible()
    assert reader(door).locator("td", has_text="594").is_visible()
    reader(door).get_by_role("link", name="another page").click()
    assert door.page.locator("#reader-title").inner_text() == NOTES


def test_the_pictures_of_a_report_are_found(door):
    door.page.locator(f".readings a[data-file='{REPORT}']").first.click()
    picture = reader(door).locator("img")
    picture.scroll_into_view_if_needed()
    for _ in range(2400):
        if picture.evaluate("(image) => image.complete"):
            break
        door.page.wait_for_timeout(50)
    assert picture.evaluate("(image) => image.naturalWidth") == 1200


@pytest.mark.parametrize(
    "opened", [{"viewport": {"width": w, "height": h}} for w, h in ((390, 844), (800, 900), (1440, 900))], indirect=True
)
def test_three_things_to_click_are_above_the_fold_and_what_is_long_is_folded(door):
    ends = door.page.locator(".choices li").evaluate_all(
        "(all) => all.map((one) => one.getBoundingClientRect().bottom)"
    )
    assert len(ends) == 3
    assert max(ends) <= door.page.viewport_size["height"]
    assert door.page.locator("main details[open]").count() == 0
    assert not door.page.locator("#graph svg").first.is_visible()


def test_the_graph_leads_to_a_rule(door):
    door.page.locator("#graph > summary").click()
    door.page.locator("#graph .drawing a", has_text="roofline").first.click()
    door.page.locator("#rule-roofline[open]").wait_for()


def test_a_reader_without_a_mouse_finds_a_rule(door):
    door.page.keyboard.press("/")
    door.page.keyboard.type("contest")
    door.page.keyboard.press("ArrowDown")
    door.page.keyboard.press("Enter")
    door.page.locator("#rule-contest[open]").wait_for()  # the address changes, and the page answers that
    assert door.page.evaluate("document.activeElement.parentElement.id") == "rule-contest"


def test_a_search_finds_files_and_counts(door):
    door.page.locator("#query").fill("bench json")
    assert door.page.locator("#found").inner_text() == "3 found"
    assert door.page.locator("#hits b").all_inner_texts().count(BENCH) == 1


@pytest.mark.parametrize("opened", [{"color_scheme": "light"}, {"color_scheme": "dark"}], indirect=True)
def test_the_button_changes_to_the_other_theme(door):
    paper = "getComputedStyle(document.querySelector('.card')).backgroundColor"
    before = door.page.evaluate(paper)
    door.page.locator("#theme").click()
    assert door.page.evaluate(paper) != before


@pytest.mark.parametrize(
    "opened", [{"viewport": {"width": w, "height": 900}} for w in (400, 800, 1280, 1920)], indirect=True
)
def test_nothing_is_wider_than_the_window(door):
    for name in ("bench", "contest", "restore"):
        open_rule(door, name)
    width = door.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1]


def test_all_is_there_without_javascript(browser, page):
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(page.as_uri())
    for fold in ("#behind", ".rules"):
        for one in tab.locator(f"{fold} > summary").all():
            one.click()
    assert [tab.locator(f"#rule-{rule.name} .says").is_visible() for rule in RULES] == [True] * len(RULES)
    context.close()


def test_print_opens_every_rule_and_leaves_the_controls_out(door):
    door.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    door.page.emulate_media(media="print")
    assert door.page.locator("main details:not([open])").count() == 0
    assert not door.page.locator("#finder").is_visible()
    assert not door.page.locator("#theme").is_visible()


def test_a_files_name_leads_to_the_file_or_to_the_pages_own_entry_of_one_that_is_missing(door):
    open_rule(door, "bench")
    file_of_rule(door, "bench", BENCH).click()
    assert panel(door).locator("a.file[data-file='src/kernel.cu']").get_attribute("href") == "../src/kernel.cu"
    assert panel(door).locator("a.open").get_attribute("href") == "24/cpu/bench.json"
    door.page.goto(f"{door.page.url.split('#')[0]}#file=results/24/lost.json")
    door.page.locator("#panel-title", has_text="results/24/lost.json").wait_for()
    assert panel(door).locator("a.open").count() == 0
    open_rule(door, "lost")
    link = file_of_rule(door, "lost", "results/24/lost.json")
    assert link.get_attribute("href") == "#file=results%2F24%2Flost.json"


def test_where_reports_cannot_be_unpacked_a_link_leads_to_the_report_itself(opened, page):
    opened.page.add_init_script("delete globalThis.DecompressionStream")
    opened.go(page)
    opened.page.evaluate(
        "addEventListener('click', (event) => { kept = event.defaultPrevented; event.preventDefault(); })"
    )
    opened.page.locator(f".readings a[data-file='{REPORT}']").first.click()
    assert opened.page.evaluate("kept") is False
    assert not reader(opened).is_visible()
