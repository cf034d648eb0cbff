"""The timeline in a browser: it zooms, pans and says what lies there, by mouse, key and finger; it meets WCAG."""

import pytest
from model_artefact import model_artefact
from test_accessibility import in_every_look, violations

from minikernel.report.model.timeline import timeline_page

VIEW = "view.map((at) => Math.round(at * 1000) / 1000)"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("timeline") / "timeline.html"
    path.write_text(timeline_page(model_artefact()))
    return path


def status(opened) -> str:
    return opened.page.locator("#status").text_content()


def test_keys_zoom_pan_and_go_from_span_to_span(opened, page):
    opened.go(page)
    whole = opened.page.evaluate(VIEW)
    opened.page.locator("#chart").focus()
    opened.page.keyboard.press("+")
    near = opened.page.evaluate(VIEW)
    assert near[1] - near[0] == pytest.approx(0.6 * (whole[1] - whole[0]), rel=0.01)
    opened.page.keyboard.press("ArrowRight")
    assert opened.page.evaluate(VIEW)[0] > near[0]
    opened.page.keyboard.press("0")
    assert opened.page.evaluate(VIEW) == whole
    opened.page.keyboard.press("ArrowDown")
    assert status(opened).startswith("compile: triton_per_fused_add_embedding")
    opened.page.keyboard.press(".")
    assert "triton_tem_fused_addmm_1" in status(opened)
    for _ in range(2):
        opened.page.keyboard.press("ArrowDown")
    assert status(opened).startswith("graph, multiprocessor 0: ")


def test_a_click_says_what_lies_there_and_a_drag_moves(opened, page):
    opened.go(page)
    chart = opened.page.locator("#chart").bounding_box()
    one = opened.page.evaluate("strips.at(-1).top + strips.at(-1).height / 2")
    opened.page.mouse.click(chart["x"] + opened.page.evaluate("x(4.0)"), chart["y"] + one)
    assert status(opened).startswith("one, multiprocessor 0: ")
    before = opened.page.evaluate(VIEW)
    opened.page.keyboard.press("Escape")
    opened.page.locator("#in").click()
    opened.page.mouse.move(chart["x"] + 600, chart["y"] + 60)
    opened.page.mouse.down()
    opened.page.mouse.move(chart["x"] + 400, chart["y"] + 60, steps=4)
    opened.page.mouse.up()
    after = opened.page.evaluate(VIEW)
    assert after[0] > before[0]
    assert status(opened).startswith("one, multiprocessor 0: ")  # a drag chooses nothing


def test_the_next_gap_is_shown_and_told(opened, page):
    opened.go(page)
    opened.page.locator("#gap").click()
    assert status(opened).startswith("compile: nothing runs from ")
    first = opened.page.evaluate(VIEW)
    opened.page.locator("#gap").click()
    assert opened.page.evaluate(VIEW)[0] > first[0]


def test_another_shape_has_its_own_table(opened, page):
    opened.go(page)
    opened.page.get_by_role("radio", name="64 x 64").check()
    tables = opened.page.locator(".figures:visible")
    assert tables.count() == 1
    assert "compile-reduce-overhead" in tables.text_content()
    assert "64 x 64" in opened.page.locator("#chart").get_attribute("aria-label")


@pytest.mark.parametrize("opened", [{"viewport": {"width": 390, "height": 844}, "has_touch": True}], indirect=True)
def test_a_phone_shows_all_of_it_and_a_finger_chooses(opened, page):
    opened.go(page)
    opened.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 390
    chart = opened.page.locator("#chart")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    across, down = opened.page.evaluate("[x(1.0), strips[0].top + 10]")
    opened.page.touchscreen.tap(box["x"] + across, box["y"] + down)
    assert status(opened).startswith("compile: triton")


@in_every_look
def test_it_meets_wcag(opened, page):
    opened.go(page)
    assert violations(opened) == []
    opened.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    opened.page.locator("#gap").click()
    assert violations(opened) == []
