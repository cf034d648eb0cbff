"""The explorer as a reader meets it, in a real browser."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from explored import profile_of, tiny_head, tiny_head_simulated, with_backward
from layered import layered
from recorded_pages import recorded, watched
from zoo_models import captured

from minicompile import render_explorer
from minicompile.explain.explorer.links import Links
from minicompile.explain.explorer.questions import questions
from minicompile.explain.standalone import script
from minicompile.lowering.capture import as_capture

SOFTMAX = "return F.softmax(logits"
TABLET = {"viewport": {"width": 1024, "height": 768}, "has_touch": True}


def widths(*pixels):
    return [{"viewport": {"width": width, "height": 800}} for width in pixels]


def appears(locator) -> None:
    """Exactly one such element comes to be; panes draw their lines only when they are scrolled to."""
    locator.wait_for(state="attached")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Written once: one capture, with its profile; one with a backward; two side by side."""
    folder = tmp_path_factory.mktemp("explorer")
    cpu, simulated = tiny_head(), tiny_head_simulated()
    render_explorer(cpu, folder / "cpu.html", profile=profile_of(cpu))
    render_explorer(simulated, folder / "simulated.html")
    render_explorer(with_backward(cpu), folder / "backward.html")
    render_explorer([cpu, simulated], folder / "both.html")
    render_explorer(cpu, folder / "plain.html", compress=False)
    render_explorer(layered(), folder / "layered.html")
    render_explorer(captured("small_variance", "simulated").capture, folder / "parts.html")
    render_explorer([cpu, simulated], folder / "spanish.html", profile=[profile_of(cpu), None], language="es")
    return folder


def line_of(capture, kind, text):
    """Pane and number of the first line of a kind of pane that has a text in it."""
    return next(
        (pane["id"], number)
        for pane in capture["panes"]
        if pane["kind"] == kind
        for number, line in enumerate(pane["lines"], 1)
        if text in line
    )


def pane(opened, title):
    return opened.page.locator(f"section.pane[aria-label='{title}']")


def line(opened, title, text):
    return pane(opened, title).locator(".line", has_text=text).first


def in_view(opened, title, text):
    """Whether a line can be seen in its pane."""
    box, view = line(opened, title, text).bounding_box(), pane(opened, title).locator(".scroller").bounding_box()
    return view["y"] <= box["y"] and box["y"] + box["height"] <= view["y"] + view["height"]


def state(opened, title, text):
    classes = line(opened, title, text).get_attribute("class").split()
    return " ".join(each for each in classes if each in ("chosen", "exact", "caller", "context"))


def why(opened):
    return opened.page.locator("#why").inner_text()


def until(opened, condition):
    """Wait until an expression holds. (Playwright's own way compiles a string, which the page's policy forbids.)"""
    for _ in range(6000):
        if opened.page.evaluate(condition):
            return
        opened.page.wait_for_timeout(20)
    raise AssertionError(f"{condition} did not come true within 120 s")


def choose(opened, capture, kind, text):
    """Go to a line through the page's address, as a shared link does."""
    name, number = line_of(capture, kind, text)
    opened.page.evaluate(f"location.hash = '#0/{name}:{number}'")
    until(opened, f"app.chosen?.line === '{name}:{number}'")


@pytest.mark.parametrize("name", ["cpu", "plain"])
def test_a_click_on_a_source_line_lights_its_counterparts_in_every_open_pane_and_shows_them(opened, pages, name):
    opened.go(pages / f"{name}.html")
    line(opened, "Source", SOFTMAX).click()
    until(opened, "app.chosen !== null")
    assert state(opened, "Source", SOFTMAX) == "chosen"
    assert state(opened, "ATen", "aten.exp.default") == "exact"
    assert state(opened, "ATen", "aten.addmm.default") == ""
    assert state(opened, "Kernel code", ".exp()") == "exact"
    for title, text in [("ATen", "aten.amax.default"), ("Kernel code", "at::vec::maximum(tmp_acc0_vec")]:
        assert in_view(opened, title, text)


def test_hovering_lights_and_leaving_puts_out(opened, pages):
    opened.go(pages / "cpu.html")
    line(opened, "ATen", "aten.exp.default").hover()
    until(opened, "app.chosen.line.startsWith('aten')")
    assert state(opened, "Source", SOFTMAX) == "exact"
    opened.page.mouse.move(5, 5)
    until(opened, "app.chosen === null")
    assert opened.page.locator(".line.exact").count() == 0


def test_a_click_keeps_a_line_while_others_are_hovered_and_a_second_click_lets_go(opened, pages):
    opened.go(pages / "cpu.html")
    line(opened, "ATen", "aten.exp.default").click()
    line(opened, "ATen", "aten.addmm.default").hover()
    opened.page.wait_for_timeout(200)
    assert state(opened, "ATen", "aten.exp.default") == "chosen"
    line(opened, "ATen", "aten.exp.default").click()
    assert opened.page.evaluate("app.pinned") is False


@pytest.mark.parametrize("make", [tiny_head, tiny_head_simulated])
def test_the_page_follows_the_links_as_the_package_does(opened, pages, make):
    capture = make()
    opened.go(pages / f"{'cpu' if make is tiny_head else 'simulated'}.html")
    links = Links(capture)
    every = [(each["id"], number) for each in capture["panes"] for number in range(1, len(each["lines"]) + 1)]
    wanted = {f"{name}:{n}": sorted(f"{a}:{b}" for a, b in links.counterparts((name, n))) for name, n in every}
    reached = opened.page.evaluate(
        """(lines) => Object.fromEntries(lines.map((line) => { const capture = app.captures[0];
        const all = new Set([...capture.up([line], true), ...capture.down([line], true)]);
        all.delete(line); return [line, [...all].sort()]; }))""",
        list(wanted),
    )
    assert any(reached.values())
    assert reached == wanted


def test_a_kernel_line_shows_its_loop_group_and_call_as_what_it_belongs_to(opened, pages):
    opened.go(pages / "cpu.html")
    choose(opened, tiny_head(), "code", "tmp3 = tmp0 - tmp2")
    lit = opened.page.evaluate("[...app.states[0]].filter(([, how]) => how === 'context').map(([line]) => line)")
    kinds = {each.split(".")[0] for each in lit}
    assert {"groups", "ir_before", "ir_after", "code"} <= kinds


def test_the_why_box_names_lowering_fate_decisions_and_memory(opened, pages):
    opened.go(pages / "cpu.html")
    choose(opened, tiny_head(), "aten", "aten.exp.default")
    text = why(opened)
    assert re.search(r"torch/_inductor/lowering\.py:\d+", text)
    assert "fused away" in text
    assert "4,800 bytes are not written" in text
    assert "Taken" in text
    assert "Refused" in text
    assert "intermediate nodes between node1 & node2" in text
    assert "reads" in text
    moved = next(call["bytes"] for call in tiny_head()["graphs"][0]["calls"] if not call["extern"])
    assert f"reads and writes {moved:,} bytes, each address once" in text


def test_the_why_box_tells_a_configuration_that_a_clock_chose_from_a_heuristics_first(opened, tmp_path):
    simulated = as_capture(watched("25/minigpt/watched_simulated.json.xz"))
    for capture, said in ((recorded("25/minigpt/capture.json"), "the fastest of 3"), (simulated, "the first of 3")):
        opened.go(render_explorer(capture, tmp_path / "page.html"))
        choose(opened, capture, "code", "tl.load(")
        assert f"; {said} configurations" in why(opened)


def test_the_why_box_says_whose_result_a_part_is_and_where_it_lies(opened, pages):
    capture = captured("small_variance", "simulated").capture
    opened.go(pages / "parts.html")
    places = {node["name"]: node["buffer"] for node in capture["graphs"][0]["nodes"]}
    for name, said in (("getitem_4", ""), ("getitem_5", f", in memory as {places['getitem_5']}")):
        choose(opened, capture, "aten", f"{name}: ")
        assert f"one of the results of var_mean_2{said}\n" in f"{why(opened)}\n"
        assert line(opened, "ATen", f"{name}: ").locator("abbr").get_attribute("title") == "one of several results"


def test_what_a_template_hands_on_is_not_said_to_be_spared(opened, tmp_path):
    capture = captured("products_in_templates", "cpu").capture
    render_explorer(capture, tmp_path / "templates.html")
    opened.go(tmp_path / "templates.html")
    choose(opened, capture, "aten", "bmm: ")
    assert "fused away: buf0 until its reader joined the same kernel and took it tile by tile\n" in f"{why(opened)}\n"
    assert "No kernel stores buf0 (16,384 bytes)." in why(opened)
    assert "not written" not in why(opened)


def test_a_profile_gives_time_bandwidth_and_a_dot_on_the_roofline(opened, pages):
    opened.go(pages / "cpu.html")
    choose(opened, tiny_head(), "aten", "aten.exp.default")
    assert "5.5 µs, 12 GB/s, 40 % of a copy" in why(opened)
    appears(opened.page.locator("#why svg.roofline .dot.chosen"))


@pytest.mark.parametrize(
    ("restored", "said"),
    [
        ({}, ""),
        ({"stale": False}, " (a record, not measured here)"),
        ({"stale": True}, " (a stale record, not measured here)"),
    ],
)
def test_times_of_a_record_are_said_to_be_so_and_whether_it_is_stale(opened, tmp_path, restored, said):
    profile = {**profile_of(tiny_head()), **({"restored": restored} if restored else {})}
    render_explorer(tiny_head(), tmp_path / "page.html", profile=profile)
    opened.go(tmp_path / "page.html")
    choose(opened, tiny_head(), "aten", "aten.exp.default")
    assert f"40 % of a copy{said}\n" in why(opened)
    assert f"Roofline: a processor{said}\n" in why(opened)


def test_without_a_profile_nothing_is_said_to_be_measured(opened, pages):
    opened.go(pages / "simulated.html")
    choose(opened, tiny_head_simulated(), "aten", "aten.exp.default")
    assert "Measured" not in why(opened)
    assert "Never run" in why(opened)
    assert opened.page.locator("svg.roofline").count() == 0


def test_a_line_of_the_kernels_structure_is_called_so(opened, pages):
    opened.go(pages / "cpu.html")
    choose(opened, tiny_head(), "code", "#pragma omp parallel")
    assert "structure of cpp_fused__softmax_0" in why(opened)


def test_a_pane_is_wide_enough_to_be_read(opened, pages):
    opened.go(pages / "cpu.html")
    widths_ = opened.page.locator("section.pane").evaluate_all("(all) => all.map((one) => one.clientWidth)")
    assert len(widths_) == 3
    assert min(widths_) >= 300  # of 1,280


@pytest.mark.parametrize("opened", widths(1600), indirect=True)
def test_arrows_and_letters_move_within_a_pane_and_between_panes(opened, pages):
    opened.go(pages / "cpu.html")
    line(opened, "ATen", "aten.amax.default").click()
    for key, text in [("j", "aten.sub.Tensor"), ("ArrowDown", "aten.exp.default"), ("k", "aten.sub.Tensor")]:
        opened.page.keyboard.press(key)
        assert state(opened, "ATen", text) == "chosen"
    opened.page.keyboard.press("ArrowRight")
    assert opened.page.evaluate("document.activeElement.getAttribute('aria-label')") == "IR after fusion"
    opened.page.keyboard.press("h")
    assert opened.page.evaluate("document.activeElement.getAttribute('aria-label')") == "ATen"


@pytest.mark.parametrize("opened", widths(1600), indirect=True)
def test_tab_reaches_every_pane_and_an_active_line_is_announced(opened, pages):
    opened.go(pages / "cpu.html")
    seen = set()
    for _ in range(40):
        opened.page.keyboard.press("Tab")
        seen.add(
            opened.page.evaluate(
                "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"
            )
        )
    assert {"Source", "ATen", "IR after fusion", "Kernel code"} <= seen
    opened.page.locator("section.aten .scroller").focus()
    opened.page.keyboard.press("j")
    announced = opened.page.evaluate("document.activeElement.getAttribute('aria-activedescendant')")
    assert opened.page.locator(f"[id='{announced}']").get_attribute("aria-selected") == "true"


def test_search_finds_in_all_panes_and_n_goes_on(opened, pages):
    opened.go(pages / "cpu.html")
    opened.page.keyboard.press("/")
    opened.page.keyboard.type("aten.sum")
    opened.page.keyboard.press("Enter")
    capture = tiny_head()
    wanted = sum("aten.sum" in text for each in capture["panes"] for text in each["lines"])
    assert opened.page.locator("#found").inner_text() == f"1 of {wanted}"
    first = opened.page.evaluate("app.chosen.line")
    appears(opened.page.locator("mark", has_text="aten.sum").first)
    opened.page.keyboard.press("n")
    assert opened.page.evaluate("app.chosen.line") != first
    opened.page.keyboard.press("Shift+N")
    assert opened.page.evaluate("app.chosen.line") == first


def test_search_for_what_is_not_there_says_so(opened, pages):
    opened.go(pages / "cpu.html")
    opened.page.locator("#query").fill("no such text anywhere")
    until(opened, "document.getElementById('found').textContent !== ''")
    assert opened.page.locator("#found").inner_text() == "0 found"


def test_search_marks_exactly_what_was_searched_for(opened, pages):
    opened.go(pages / "cpu.html")
    opened.page.locator("#query").fill("SOFTMAX(LOG")
    until(opened, "document.querySelector('mark') !== null")
    whole = line(opened, "Source", SOFTMAX)
    assert "".join(whole.locator("mark").all_inner_texts()) == "softmax(log"


def test_escape_lets_go_and_question_mark_helps(opened, pages):
    opened.go(pages / "cpu.html")
    line(opened, "ATen", "aten.exp.default").click()
    opened.page.keyboard.press("?")
    assert opened.page.locator("#help").is_visible()
    opened.page.keyboard.press("Escape")
    assert not opened.page.locator("#help").is_visible()
    assert opened.page.evaluate("app.pinned") is True
    opened.page.keyboard.press("Escape")
    assert opened.page.evaluate("app.chosen") is None


def test_the_switch_shows_the_backward_graph_and_the_shared_panes_stay(opened, pages):
    opened.go(pages / "backward.html")
    opened.page.get_by_role("button", name="Backward", exact=True).click()
    shown = opened.page.evaluate("app.columns.map((column) => column.view.pane.id)")
    assert {"code.0.backward", "aten.0.backward", "source.0"} <= set(shown)
    assert not any(each.endswith("forward") for each in shown)
    line(opened, "Source", SOFTMAX).click()
    appears(pane(opened, "Kernel code").locator(".line.exact").first)
    opened.page.keyboard.press("b")
    assert "code.0.forward" in opened.page.evaluate("app.columns.map((column) => column.view.pane.id)")


def test_a_capture_without_backward_has_no_switch(opened, pages):
    opened.go(pages / "cpu.html")
    assert opened.page.locator("#graphs button").count() == 0


@pytest.mark.parametrize("opened", [{"viewport": {"width": 1920, "height": 1080}}], indirect=True)
def test_side_by_side_a_line_of_one_backend_lights_the_other(opened, pages):
    opened.go(pages / "both.html")
    assert opened.page.locator("section.pane.code").count() == 2
    choose(opened, tiny_head(), "code", "= at::vec::maximum(")
    appears(pane(opened, "Kernel code, C++").locator(".line.chosen"))
    appears(pane(opened, "Kernel code, Triton").locator(".line.exact", has_text="triton_helpers.max2"))
    appears(pane(opened, "Source").locator(".line.exact", has_text=SOFTMAX))


def test_side_by_side_a_source_line_is_explained_for_both(opened, pages):
    opened.go(pages / "both.html")
    choose(opened, tiny_head(), "source", SOFTMAX)
    assert "cpp_fused__softmax_0" in why(opened)
    assert "triton_per_fused__softmax" in why(opened)


def test_two_captures_of_one_backend_are_told_apart(opened, tmp_path):
    after = tiny_head()
    after["target"]["device"] = "cpu-other"
    for name, second in [("devices", after), ("edits", tiny_head())]:
        render_explorer([tiny_head(), second], tmp_path / f"{name}.html")
        opened.go(tmp_path / f"{name}.html")
        titles = opened.page.evaluate("app.columns.map((column) => column.title)")
        assert sum("Kernel code" in title for title in titles) == 2
        assert len(titles) == len(set(titles))


def test_a_graph_that_only_one_of_two_captures_has_shows_that_one_alone(opened, tmp_path):
    render_explorer([with_backward(tiny_head()), tiny_head_simulated()], tmp_path / "page.html")
    opened.go(tmp_path / "page.html")
    opened.page.get_by_role("button", name="Backward", exact=True).click()
    assert pane(opened, "Kernel code, C++").is_visible()
    assert opened.page.get_by_text("Kernel code, Triton").count() == 0
    assert "not captured" in why(opened)
    line(opened, "Kernel code, C++", ".exp()").click()
    assert "cpp_fused__softmax_0" in why(opened)


def test_the_simulated_target_is_named_wherever_its_code_is_shown(opened, pages):
    opened.go(pages / "both.html")
    assert "Simulated" in opened.page.locator("#targets").inner_text()
    labels = opened.page.evaluate(
        """app.columns.map((column) => [column.capture.target.simulated && Boolean(column.view.pane.graph),
        Boolean(column.view.element.querySelector('.badge'))])"""
    )
    assert any(simulated for simulated, _ in labels)
    assert all(simulated == badge for simulated, badge in labels)


def test_closed_panes_open_and_the_least_used_closes_when_there_is_no_room(opened, pages):
    opened.go(pages / "cpu.html")
    line(opened, "Source", SOFTMAX).click()
    before = opened.page.locator("section.pane").count()
    opened.page.get_by_role("button", name="Dynamo FX").click()
    assert opened.page.locator("section.pane").count() == before
    assert pane(opened, "Source").is_visible()
    assert state(opened, "Dynamo FX", "torch.nn.functional.softmax") == "exact"


@pytest.mark.parametrize("opened", widths(800, 1100, 1280), indirect=True)
@pytest.mark.parametrize("name", ["backward", "both"])
def test_the_tour_leads_through_all_its_stops(opened, pages, name):
    opened.go(pages / f"{name}.html")
    opened.page.get_by_role("button", name="Tour").click()
    stops = opened.page.evaluate("app.tour.stops.length")
    assert stops >= 6
    for number in range(1, stops + 1):
        assert opened.page.locator("#tour-step").inner_text() == f"Stop {number} of {stops}"
        appears(opened.page.locator(".pane.pointed").locator(".line.chosen, .line.exact").first)
        opened.page.locator("#tour-next").click()
    assert not opened.page.locator("#tour").is_visible()


@pytest.mark.parametrize("opened", widths(390, 1280), indirect=True)
@pytest.mark.parametrize(("name", "language"), [("simulated", "en"), ("both", "en"), ("spanish", "es")])
def test_an_address_opens_at_a_question_with_its_answer(opened, pages, name, language):
    capture = tiny_head_simulated() if name == "simulated" else tiny_head()
    for number, one in enumerate(questions(capture, language), 1):
        opened.go(pages / "cpu.html")  # which has other questions, so that the page is loaded anew
        opened.go(pages / f"{name}.html", f"#ask/{one.name}")
        page = opened.page
        assert page.locator("#tour-title").inner_text() == one.question.replace("`", "")
        assert page.locator("#tour-text").inner_text() == one.answer.replace("`", "")
        assert re.search(rf"\b{number}\b", page.locator("#tour-step").inner_text())
        assert page.evaluate("app.chosen.line") == f"{one.pane}:{one.line}"
        assert page.url.endswith(f"#ask/{one.name}")
        assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
        page.locator("#tour-end").click()
        assert page.evaluate("document.activeElement.id") == "start-questions"


@pytest.mark.parametrize("opened", widths(390), indirect=True)
def test_a_line_of_several_layers_fits_on_a_phone(opened, pages):
    opened.go(pages / "layered.html")
    page = opened.page
    found = [pane for pane in layered()["panes"] if pane["kind"] == "source"]
    for pane_, number in ((each["id"], at) for each in found for at in range(1, len(each["lines"]) + 1)):
        page.evaluate(f"app.choose(app.captures[0], '{pane_}:{number}')")
        if page.locator("#loop-label").is_visible():
            break
    assert page.locator("#loop-label").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_an_address_of_no_question_opens_as_any_other(opened, pages):
    opened.go(pages / "cpu.html", "#ask/nothing")
    assert not opened.page.locator("#tour").is_visible()
    assert opened.page.evaluate("app.chosen !== null")


def test_the_page_speaks_spanish_wherever_the_tour_leads(opened, pages):
    opened.go(pages / "spanish.html")
    page = opened.page
    page.keyboard.press("Escape")
    assert "se convirtieron en" in page.locator("#why-body").inner_text()
    page.locator("#start-tour").click()
    stops = page.evaluate("app.tour.stops.length")
    for number in range(1, stops + 1):
        assert page.locator("#tour-step").inner_text() == f"Parada {number} de {stops}"
        said = page.locator("#why").inner_text()
        assert ", línea " in said
        assert not re.search(r"\b(?:line|Fusion|fused|written|calls?|bytes read)\b", said)
        page.locator("#tour-next").click()
    page.locator("#open-about").click()
    assert "compilación" in page.locator("#about-body").inner_text()


@pytest.mark.parametrize("opened", [TABLET], indirect=True)
@pytest.mark.parametrize("name", ["cpu", "both"])
def test_on_a_tablet_a_tap_lights_and_nothing_hangs_over_the_edge(opened, pages, name):
    opened.go(pages / f"{name}.html")
    opened.page.locator("section.code .scroller").first.tap()
    assert opened.page.evaluate("app.pinned") is True
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert opened.page.evaluate("document.getElementById('columns').scrollWidth <= innerWidth")


@pytest.mark.parametrize("opened", [{"color_scheme": "light"}, {"color_scheme": "dark"}], indirect=True)
def test_all_text_has_the_contrast_that_wcag_aa_asks_for(opened, pages):
    opened.go(pages / "simulated.html")
    choose(opened, tiny_head_simulated(), "aten", "aten.exp.default")
    found = opened.page.evaluate((Path(__file__).parent / "contrast.js").read_text().partition("\n")[2])
    assert len(found) > 60
    assert [each for each in found if each[1] < 4.5] == []


def test_the_theme_follows_the_system_until_the_button_is_pressed(opened, pages):
    opened.go(pages / "cpu.html")
    paper = "getComputedStyle(document.querySelector('.pane')).backgroundColor"
    light = opened.page.evaluate(paper)
    opened.page.get_by_role("button", name="Dark").click()
    dark = opened.page.evaluate(paper)
    assert dark != light
    opened.page.emulate_media(color_scheme="dark")
    opened.page.get_by_role("button", name="Light").click()
    assert opened.page.evaluate(paper) == light


def test_the_address_names_the_line_and_leads_back_to_it(opened, pages):
    opened.go(pages / "cpu.html")
    line(opened, "ATen", "aten.exp.default").click()
    address = opened.page.evaluate("location.hash")
    opened.page.goto("about:blank")
    opened.go(pages / "cpu.html", address)
    assert state(opened, "ATen", "aten.exp.default") == "chosen"


@pytest.mark.parametrize("address", ["#0/nowhere:3", "#7/source.0:1", "#0/source.0:999999", "#%00"])
def test_an_address_that_names_no_line_is_ignored(opened, pages, address):
    opened.go(pages / "cpu.html")
    first = opened.page.evaluate("app.chosen.line")
    opened.go(pages / "cpu.html", address)
    assert opened.page.evaluate("[app.chosen.line, app.pinned]") == [first, False]


def test_only_lines_in_view_are_in_the_document(opened, tmp_path):
    capture = tiny_head()
    code = next(each for each in capture["panes"] if each["kind"] == "code")
    code["lines"] += [f"# {number}" for number in range(30_000)]
    render_explorer(capture, tmp_path / "long.html")
    opened.go(tmp_path / "long.html")
    pane(opened, "Kernel code").locator(".scroller").focus()
    opened.page.keyboard.press("End")
    assert pane(opened, "Kernel code").locator(".line.chosen").inner_text().endswith("# 29999")
    assert pane(opened, "Kernel code").locator(".line").count() < 200


def test_paper_gets_the_lit_lines_of_the_open_panes(opened, pages):
    opened.go(pages / "cpu.html")
    line(opened, "ATen", "aten.exp.default").click()
    opened.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    opened.page.emulate_media(media="print")
    text = opened.page.locator("#print").inner_text()
    assert "aten.exp.default" in text
    assert SOFTMAX in text
    assert not opened.page.locator("#columns").is_visible()


def test_about_tells_versions_and_how_complete_the_links_are(opened, pages):
    opened.go(pages / "simulated.html")
    opened.page.get_by_role("button", name="About").click()
    text = opened.page.locator("#about").inner_text()
    assert f"torch {tiny_head()['environment']['versions']['torch']}" in text
    assert re.search(r"compute nodes \d+ of \d+", text)
    assert "simulated target" in text


@pytest.mark.parametrize(("kept", "said"), [([], False), (["GUARD a", "GUARD b"], True)])
def test_about_tells_of_guards_where_some_were_kept(opened, tmp_path, kept, said):
    render_explorer({**tiny_head(), "guards": kept}, tmp_path / "guards.html")
    opened.go(tmp_path / "guards.html")
    opened.page.get_by_role("button", name="About").click()
    assert ("2 lines, in capture.json" in opened.page.locator("#about").inner_text()) == said
    assert opened.page.get_by_role("rowheader", name="guards").count() == said


@pytest.mark.parametrize("opened", widths(1000, 1180, 1280), indirect=True)
def test_what_a_capture_was_made_for_is_not_cut(opened, tmp_path):
    capture = tiny_head_simulated()
    capture["target"] |= {"kind": "cuda", "device": "h200", "gpu": "NVIDIA H200", "simulated": False}
    capture |= {"restored": {"stale": False}, "provenance": {"date": "2026-11-24T00:00:00+00:00"}}
    render_explorer(capture, tmp_path / "h200.html")
    opened.go(tmp_path / "h200.html")
    label = opened.page.locator("#targets .target")
    assert "2026-11-24" in label.inner_text()
    assert label.evaluate("(e) => [e.scrollWidth <= e.clientWidth, e.scrollHeight <= e.clientHeight]") == [True, True]


def test_the_page_opens_with_the_first_stop_lit_and_leaves_the_focus_alone(opened, pages):
    opened.go(pages / "cpu.html")
    stop = opened.page.evaluate("`${app.tour.stops[0].pane}:${app.tour.stops[0].line}`")
    assert opened.page.evaluate("[app.chosen.line, app.pinned, document.activeElement.tagName]") == [
        stop,
        False,
        "BODY",
    ]
    assert state(opened, "Kernel code", ".exp()") == "exact"
    assert not opened.page.locator("#tour").is_visible()
    assert opened.page.evaluate("location.hash") == ""


@pytest.mark.parametrize("opened", widths(640, 800, 1100), indirect=True)
@pytest.mark.parametrize("name", ["cpu", "both"])
def test_every_strip_opens_its_pane_in_a_narrow_window(opened, pages, name):
    opened.go(pages / f"{name}.html")
    titles = opened.page.evaluate("app.columns.map((column) => column.title)")
    for title in titles:
        strip = opened.page.get_by_role("button", name=title).and_(opened.page.locator(".strip"))
        if strip.count():
            strip.first.click()
        assert pane(opened, title).is_visible()
        assert opened.page.evaluate("app.layout.opened.length <= app.layout.room()")
        assert opened.page.evaluate("document.getElementById('columns').scrollWidth <= innerWidth")


def test_panes_are_resized_by_dragging_and_by_keys(opened, pages):
    opened.go(pages / "cpu.html")
    separator = opened.page.get_by_role("separator").first
    width = "document.querySelector('section.pane').offsetWidth"
    before, box = opened.page.evaluate(width), separator.bounding_box()
    opened.page.mouse.move(box["x"] + 3, box["y"] + 50)
    opened.page.mouse.down()
    opened.page.mouse.move(box["x"] + 63, box["y"] + 50, steps=3)
    opened.page.mouse.up()
    dragged = opened.page.evaluate(width)
    assert abs(dragged - before - 60) <= 3
    part = int(separator.get_attribute("aria-valuenow"))
    separator.press("ArrowLeft")
    assert opened.page.evaluate(width) < dragged
    assert int(separator.get_attribute("aria-valuenow")) < part
    separator.press("Enter")
    assert abs(opened.page.evaluate(width) - before) <= 1
    tall = opened.page.locator("#why").bounding_box()["height"]
    opened.page.locator(".separator.horizontal").press("ArrowUp")
    assert opened.page.locator("#why").bounding_box()["height"] > tall


@pytest.mark.parametrize("opened", [{"viewport": {"width": 800, "height": 900}}], indirect=True)
def test_wrapped_lines_show_all_their_text_one_below_the_other(opened, pages):
    opened.go(pages / "cpu.html")
    opened.page.get_by_role("button", name="Wrap").click()
    found = opened.page.evaluate(
        """[...document.querySelectorAll('.pane.code .line')].map((line) => { const text = document.createRange();
        text.selectNodeContents(line); const box = line.getBoundingClientRect(), inner = text.getBoundingClientRect();
        return [box.top, box.bottom, inner.bottom, inner.right - box.right, box.height]; })"""
    )
    assert max(height for *_, height in found) > min(height for *_, height in found)
    for (_, bottom, inner, over, _), (top, *_) in pairwise(found):
        assert bottom == pytest.approx(top)
        assert inner <= bottom + 1
        assert over <= 1
    opened.page.locator(".pane.code .scroller").focus()
    opened.page.keyboard.press("End")
    assert opened.page.evaluate("app.chosen.view.cursor === app.chosen.view.pane.lines.length")
    appears(opened.page.locator(".pane.code .line.chosen"))


def test_a_source_line_lends_its_tint_to_what_was_made_from_it_alone(opened, pages):
    opened.go(pages / "cpu.html")
    opened.page.keyboard.press("Escape")
    tint = "(element) => element.classList.contains('tint') ? getComputedStyle(element).backgroundColor : null"
    places = [("Source", SOFTMAX), ("ATen", "aten.exp.default"), ("Kernel code", ".exp()")]
    softmax = {line(opened, title, text).evaluate(tint) for title, text in places}
    assert len(softmax) == 1
    assert None not in softmax
    assert line(opened, "ATen", "aten.addmm.default").evaluate(tint) not in {None, *softmax}
    opened.page.get_by_role("button", name="Colours").click()
    assert opened.page.locator(".line.tint, .line.bands").count() == 0


@pytest.mark.parametrize("opened", [{"color_scheme": "light"}, {"color_scheme": "dark"}], indirect=True)
def test_text_stands_out_from_every_tint(opened, pages):
    opened.go(pages / "cpu.html")
    contrast = (Path(__file__).parent / "contrast.js").read_text().partition("\n")[2]
    for hue in range(0, 360, 15):
        opened.page.evaluate("(hue) => document.documentElement.style.setProperty('--hue', hue)", hue)
        found = [each for each in opened.page.evaluate(contrast) if each[0].startswith("tint")]
        assert len(found) > 8
        assert [each for each in found if each[1] < 4.5] == []


@pytest.mark.parametrize("opened", [TABLET], indirect=True)
def test_on_a_tablet_a_second_tap_lets_go_and_what_is_tapped_is_large_enough(opened, pages):
    opened.go(pages / "cpu.html")
    first = line(opened, "Source", SOFTMAX)
    first.tap()
    assert opened.page.evaluate("app.pinned") is True
    sizes = opened.page.evaluate(
        """[...document.querySelectorAll('button, select, input, summary, .separator, .line')]
        .filter((each) => each.getClientRects().length && !each.closest('[hidden]'))
        .map((each) => { const box = each.getBoundingClientRect(); const hit = getComputedStyle(each, '::before');
        const size = (side) => Math.max(box[side], parseFloat(hit[side]) || 0);
        return [each.outerHTML.slice(0, 80), size('width'), size('height')]; })"""
    )
    assert [each for each in sizes if min(each[1:]) < 24] == []
    first.tap()
    assert opened.page.evaluate("app.chosen") is None


LAYER_OF = """(path) => app.captures[0].graphs.flatMap((graph) => graph.nodes.filter((node) => node.fate
    && within(node.layer, path)).map((node) => `${graph.panes.aten}:${node.line}`))"""


def test_a_layer_is_lit_in_every_pane_and_the_rest_is_dimmed(opened, pages):
    opened.go(pages / "layered.html")
    opened.page.locator("#layer").select_option("blocks.1")
    lit = set(opened.page.evaluate("[...app.states[0].keys()]"))
    mine, other = (set(opened.page.evaluate(LAYER_OF, path)) for path in ("blocks.1", "blocks.0"))
    assert mine
    assert mine <= lit
    assert not other & lit
    assert {each.split(".")[0] for each in lit} >= {"source", "dynamo", "joint", "aten", "ir_after", "groups", "code"}
    assert "outside" in line(opened, "Source", "class Layered").get_attribute("class")
    assert state(opened, "Source", "F.gelu(self.mix") == "exact"
    assert state(opened, "Source", "self.head(x).mean()") == ""
    opened.page.locator("#layer").select_option("")
    assert opened.page.locator(".line.outside").count() == 0


def test_a_source_line_in_a_loop_over_layers_lights_one_of_them_or_all(opened, pages):
    opened.go(pages / "layered.html")
    line(opened, "Source", "F.gelu(self.mix").click()
    first, second = (set(opened.page.evaluate(LAYER_OF, path)) for path in ("blocks.0", "blocks.1"))

    def lit():
        return set(
            opened.page.evaluate("[...app.states[0]].filter(([, how]) => how === 'exact').map(([line]) => line)")
        )

    assert first & lit()
    assert not (second - first) & lit()
    opened.page.locator("#loop").select_option("blocks.1")
    assert second & lit()
    assert not (first - second) & lit()
    opened.page.locator("#loop").select_option("")
    assert first & lit()
    assert second & lit()
    opened.page.keyboard.press("Escape")
    choose(opened, layered(), "source", "self.head(x).mean()")
    assert not opened.page.locator("#loop-label").is_visible()


def test_a_line_lights_the_layer_that_was_chosen(opened, pages):
    opened.go(pages / "layered.html")
    opened.page.locator("#layer").select_option("blocks.1.mix")
    line(opened, "Source", "F.gelu(self.mix").click()
    until(opened, "document.querySelector('#loop').value === 'blocks.1'")


def test_a_kernel_is_copied_as_the_script_that_the_package_writes(opened, pages):
    opened.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened.go(pages / "cpu.html")
    choose(opened, tiny_head(), "aten", "aten.exp.default")
    opened.page.get_by_role("button", name="Copy as a script").click()
    until(opened, "document.querySelector('.copy').textContent === 'Copied'")
    assert opened.page.evaluate("navigator.clipboard.readText()") == script(tiny_head(), "cpp_fused__softmax_0")


def test_where_the_browser_forbids_copying_the_script_is_shown(opened, pages):
    opened.go(pages / "cpu.html")
    opened.page.evaluate("void (navigator.clipboard.writeText = () => Promise.reject(new Error('forbidden')))")
    choose(opened, tiny_head(), "aten", "aten.exp.default")
    opened.page.get_by_role("button", name="Copy as a script").click()
    assert opened.page.locator("#script-text").input_value() == script(tiny_head(), "cpp_fused__softmax_0")


def test_pointing_at_an_intrinsic_says_what_it_does_and_so_do_a_key_and_the_box(opened, pages):
    opened.go(pages / "simulated.html")
    choose(opened, tiny_head_simulated(), "code", "= triton_helpers.max2(")
    assert "NaN if an element is NaN" in why(opened)
    tip = opened.page.locator("#tip")
    assert not tip.is_visible()
    opened.page.locator("section.code .scroller").focus()
    opened.page.keyboard.press("i")
    assert "NaN if an element is NaN" in tip.inner_text()
    assert opened.page.evaluate("document.activeElement.getAttribute('aria-describedby')") == "tip"
    opened.page.keyboard.press("Escape")
    assert not tip.is_visible()
    assert opened.page.evaluate("app.pinned") is True
    place = opened.page.evaluate(
        """(() => { const { view, line } = app.chosen, number = numberOf(line);
        return view.placeOf(number, app.texts[view.pane.lines[number - 1]].indexOf("max2") + 1); })()"""
    )
    opened.page.mouse.move(place["left"], (place["top"] + place["bottom"]) / 2)
    assert "NaN if an element is NaN" in tip.inner_text()
    opened.page.mouse.move(5, 5)
    until(opened, "document.getElementById('tip').hidden")


def broken() -> dict:
    """The capture of tiny_head with a break on its softmax, a recompile, and graphs on either side."""
    capture = with_backward(tiny_head())
    name, number = line_of(capture, "source", SOFTMAX)
    frame = {"file": "models.py", "line": number, "function": "forward", "pane": name}
    where = {"after": 0, "before": 1, "stack": [{**frame, "pane": None, "line": 1}, frame], "count": 1}
    capture["graph_breaks"] = [{"reason": "Unsupported: print()", "explanation": "It prints.", **where}]
    ways = [{**capture["graph_breaks"][0], "count": 3}, {**capture["graph_breaks"][0], "after": 1, "before": None}]
    ways[1] |= {"reason": "Unsupported: item()", "stack": [frame]}
    capture["graph_breaks"].append({**ways[0], "count": 4, "ways": ways, "stack": [{**frame, "line": number + 1}]})
    capture["graph_breaks"].append({"reason": "as older captures have it", "count": 2})
    capture["recompiles"] = ["tensor 'x' size mismatch at index 0"]
    return capture


def test_a_graph_break_is_shown_on_its_line_and_in_a_list_with_the_recompiles(opened, tmp_path):
    capture = broken()
    render_explorer(capture, tmp_path / "broken.html")
    opened.go(tmp_path / "broken.html")
    assert line(opened, "Source", SOFTMAX).locator("abbr.break").get_attribute("title") == "Unsupported: print()"
    assert opened.page.locator("abbr.break").count() == 2
    opened.page.keyboard.press("Escape")
    for text in ("Between graph 0 and graph 1: Unsupported: print()", "2 times: as older captures", "size mismatch"):
        assert text in why(opened)
    assert "3 places that break the graph and 1 recompile" in why(opened)
    assert "4 times: Unsupported: print(); Unsupported: item()" in why(opened)
    opened.page.get_by_text("the 2 ways there").click()
    assert "After graph 1: Unsupported: item() It prints. models.py" in why(opened)
    opened.page.locator("#why li .link").first.click()
    assert state(opened, "Source", SOFTMAX) == "chosen"
    assert "A graph break on this line" in why(opened)


def test_many_graphs_are_a_list_by_dynamos_graph(opened, tmp_path):
    capture = broken()
    for index in (1, 2):
        for graph in capture["graphs"][:2]:
            capture["graphs"].append({**graph, "id": f"{index}.{graph['direction']}", "index": index})
        for each in [pane for pane in capture["panes"] if pane["graph"] in ("0.forward", "0.backward")]:
            renamed = {"id": each["id"].replace(".0.", f".{index}."), "graph": each["graph"].replace("0.", f"{index}.")}
            capture["panes"].append({**each, **renamed})
    render_explorer(capture, tmp_path / "many.html")
    opened.go(tmp_path / "many.html")
    assert opened.page.locator("#graph optgroup").count() == 3
    opened.page.locator("#graph").select_option("2.backward")
    assert "code.2.backward" in opened.page.evaluate("app.columns.map((column) => column.view.pane.id)")
    opened.page.locator(".scroller").first.focus()
    opened.page.keyboard.press("b")
    assert opened.page.locator("#graph").input_value() == "0.forward"
