"""The choices of a capture as a reader meets them: bars, code of candidates, ways to the lines, all by keyboard."""

import pytest
from chosen import tuned
from explored import tiny_head

from minicompile import render_explorer


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("choices")
    render_explorer([tuned("cpu"), tuned("simulated")], folder / "both.html")
    render_explorer([tuned("cpu"), tuned("simulated")], folder / "spanish.html", language="es")
    render_explorer({**tiny_head(), "choices": []}, folder / "without.html")
    return folder


def algorithm(target: str) -> dict:
    return next(choice for choice in tuned(target)["choices"] if choice["kind"] == "algorithm")


def test_each_candidate_has_a_bar_as_long_as_its_time_and_the_chosen_one_is_marked(opened, pages):
    opened.go(pages / "both.html")
    opened.page.locator("#open-choices").click()
    rows = opened.page.locator("#choices .algorithm").first.locator(".bars > li")
    candidates = algorithm("cpu")["candidates"]
    assert rows.count() == len(candidates)
    times = [one["milliseconds"] for one in candidates]
    for place, one in enumerate(candidates):
        row = rows.nth(place)
        width = row.locator(".bar").evaluate("bar => parseFloat(bar.style.width)")
        assert width == pytest.approx(100 * one["milliseconds"] / max(times), rel=1e-3)
        assert ("won" in (row.get_attribute("class") or "")) is one["chosen"]
        assert row.locator(".badge").count() == one["chosen"]


def test_what_was_not_timed_is_listed_with_the_reason(opened, pages):
    opened.go(pages / "both.html")
    opened.page.locator("#open-choices").click()
    rows = opened.page.locator("#choices .algorithm").nth(1).locator(".bars > li")
    assert rows.count() == len(algorithm("simulated")["candidates"]) > 2
    assert rows.locator(".bar").count() == 0
    begins = {"no_device": "not timed: the GPU is simulated", "not_offered": "never offered: Inductor's "}
    reasons = [one["reason"]["code"] for one in algorithm("simulated")["candidates"]]
    assert set(reasons) == set(begins)
    for note, reason in zip(rows.locator(".note").all(), reasons, strict=True):
        assert note.inner_text().startswith(begins[reason])


def test_what_a_real_device_would_time_besides_is_told_where_it_would(opened, pages):
    opened.go(pages / "both.html")
    opened.page.locator("#open-choices").click()
    told = [one.inner_text() for one in opened.page.locator("#choices .algorithm article > p:first-of-type").all()]
    beside = "also time a Triton template with what can be fused to it against the two apart"
    assert [beside in text for text in told] == [algorithm("cpu")["deferred"], algorithm("simulated")["deferred"]]
    assert algorithm("simulated")["deferred"]


def test_the_code_of_a_candidate_and_the_line_of_a_node_are_reached_by_keyboard(opened, pages):
    opened.go(pages / "both.html")
    page = opened.page
    page.locator("#open-choices").focus()
    page.keyboard.press("Enter")
    code = page.locator("#choices .bars details").first
    code.locator("summary").focus()
    page.keyboard.press("Enter")
    code.locator("pre").wait_for()
    source = algorithm("cpu")["candidates"][0]["source"]
    assert code.locator("pre").text_content() == tuned("cpu")["candidate_sources"][source]
    node = page.locator("#choices .algorithm .link").first
    node.focus()
    page.keyboard.press("Enter")
    assert not page.locator("#choices").is_visible()
    line = algorithm("cpu")["lines"][0]
    assert page.evaluate("app.chosen.line") == f"aten.0.forward:{line}"


def test_a_capture_without_choices_offers_none(opened, pages):
    opened.go(pages / "without.html")
    assert opened.page.locator("#open-choices").count() == 0


@pytest.mark.parametrize("language", ["both", "spanish"])
def test_every_section_can_be_opened(opened, pages, language):
    opened.go(pages / f"{language}.html")
    opened.page.locator("#open-choices").click()
    opened.page.evaluate("for (const one of document.querySelectorAll('#choices details')) one.open = true")
    text = opened.page.locator("#choices").inner_text()
    assert "undefined" not in text
    assert "NaN" not in text
