"""The page of a what-if: what it says follows from the numbers that it is given."""

import copy
import re

import pytest
from what_if_models import found

from minicompile.explain.what_if import render_what_if, summary
from minicompile.explain.what_if.claims import direction, found_of_time, label
from minicompile.knobs import KNOBS
from minilab.pages.translations import LANGUAGES, Translations

TIME = {"before_us": 10.0, "after_us": 8.0, "difference_us": -2.0, "noise_us": 0.5, "verdict": "faster", "samples": {}}


@pytest.fixture(scope="module")
def fusion() -> dict:
    return found("fusion")


def page(tmp_path, one: dict, language: str = "en") -> str:
    render_what_if(one, tmp_path / "page.html", language)
    return (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("before", "after", "way"), [(3, 5, "more"), (5, 3, "fewer"), (3, 3, "same"), (None, 3, "unknown")]
)
def test_which_way_a_count_went(before, after, way):
    assert direction(before, after) == way


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_switch_without_words_of_its_own_says_what_it_is_set_to(tmp_path, fusion, language):
    one = {**fusion, "knob": {**fusion["knob"], "name": "triton.some_switch"}}
    one["after"] = {**fusion["after"], "settings": {"triton.some_switch": "True"}}
    assert ": triton.some_switch=True\n" in summary(one, language)
    assert page(tmp_path, one, language).count("triton.some_switch=True") == 4  # twice in a title, once told, once set


@pytest.mark.parametrize("verdict", ["faster", "slower", None])
def test_no_verdict_is_said_within_the_noise(fusion, verdict):
    one = {**fusion, "time": {**TIME, "verdict": verdict}}
    assert found_of_time(one) == (verdict or "noise")
    said = summary(one)
    assert ("is faster" in said, "is slower" in said) == (verdict == "faster", verdict == "slower")
    assert ("No difference in time can be told" in said) == (verdict is None)


def test_code_for_a_device_that_is_not_here_has_no_time_and_says_why(fusion):
    assert "a GPU that is not here, so nothing has run" in summary(fusion)


def test_the_question_comes_before_the_answer(tmp_path, fusion):
    html = page(tmp_path, fusion)
    assert html.index("Before: 1 call of generated kernels") < html.index("More: 1 call")
    assert 'data-direction="more"' in html


def test_both_sides_code_is_whole_and_changed_kernels_are_marked(tmp_path, fusion):
    graphs = [graph for side in ("before", "after") for graph in fusion[side]["graphs"]]
    changed = [kernel for graph in graphs for kernel in graph["kernels"] if kernel["changed"]]
    shown = re.findall(r'<span class="line( changed)?"', page(tmp_path, fusion))
    assert len(shown) == sum(len(graph["lines"]) for graph in graphs)
    assert shown.count(" changed") == sum(kernel["last"] - kernel["first"] + 1 for kernel in changed) > 0


def test_nothing_is_asked_of_the_network(tmp_path, fusion):
    html = page(tmp_path, fusion)
    assert not re.findall(r"(?:src|href)=\"(?!#|data:)", html)
    assert "default-src 'none'" in html


def test_code_cannot_become_markup(tmp_path, fusion):
    one = copy.deepcopy(fusion)
    one["before"]["graphs"][0]["lines"][0] = "<script>alert(1)</script>"
    assert "<script>alert" not in page(tmp_path, one)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("knob", KNOBS)
def test_every_knob_and_count_has_words(knob: str, language: str):
    text = Translations("minicompile.explain", "what_if", language)
    asks = KNOBS[knob].asks
    keys = [f"knob.{knob}.title", f"knob.{knob}.does", f"count.{asks}", f"counted.{asks}"]
    change = KNOBS[knob].change
    keys += [f"change.{change}.{side}" for side in ("before", "after")] if change else []
    assert [key for key in keys if key not in text] == []


def test_the_page_speaks_spanish(tmp_path, fusion):
    html = page(tmp_path, fusion, "es")
    assert '<html lang="es">' in html
    assert "Adivina primero" in html
    assert "Guess first" not in html


@pytest.mark.parametrize("bound", [(True, False), (False, True)])
def test_bytes_that_are_a_bound_on_one_side_are_called_a_bound(bound):
    sides = dict(zip(("before", "after"), ({"bytes_at_most": one} for one in bound), strict=True))
    assert label(sides, "bytes") == "bytes_at_most"
