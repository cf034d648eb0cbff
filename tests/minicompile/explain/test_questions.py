"""An explorer's questions follow from its capture, and each opens at a line that is there."""

import copy
import re
from functools import cache

import pytest
from explored import tiny_head, tiny_head_simulated
from recorded_pages import recorded

from minicompile.explain.explorer.questions import MOST, WRITTEN_FOR, questions
from minilab.pages.translations import LANGUAGES


@cache
def minigpt() -> dict:
    return recorded("25/minigpt/capture.json")


CAPTURES = {"minigpt": minigpt, "tiny_head": tiny_head, "tiny_head, simulated": tiny_head_simulated}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", CAPTURES)
def test_each_opens_at_a_line_of_a_pane(name: str, language: str):
    capture = CAPTURES[name]()
    asked = questions(capture, language)
    assert 1 <= len(asked) <= MOST
    assert len({one.name for one in asked}) == len(asked)
    lines = {pane["id"]: len(pane["lines"]) for pane in capture["panes"]}
    for one in asked:
        assert 1 <= one.line <= lines[one.pane]
        assert one.question.endswith("?")
        assert one.answer.endswith(".")


def test_the_kernels_and_fusions_are_counted():
    first, graph = questions(minigpt())[0], minigpt()["graphs"][0]
    taken = sum(each["taken"] for each in graph["decisions"])
    assert first.question == f"Why {len(graph['kernels'])} kernels here?"
    refused = len(graph["decisions"]) - taken
    counted = rf"Inductor tried {taken + refused} fusions, took {taken} and refused {refused}, \d+ of them for one"
    assert re.match(counted, first.answer)


def test_a_line_that_ends_in_several_kernels_names_those_that_its_layer_was_computed_in():
    asked = next(one for one in questions(minigpt()) if one.name == "several")
    graph = minigpt()["graphs"][0]
    layer = re.search(r"in the layer `([\w.]+)`", asked.answer)[1]
    source = next(pane for pane in minigpt()["panes"] if pane["id"] == asked.pane)["lines"][asked.line - 1]
    assert re.search(r"`(.+?)`", asked.question)[1] in source
    named = re.search(r"is computed in (.+?)\. ", asked.answer)[1].replace("`", "").split(", ")
    assert f"in {len(named)} kernels?" in asked.question
    of_layer = {node["name"] for node in graph["nodes"] if node["layer"] == layer}
    for name in named:
        assert any(call["kernel"] == name and of_layer & {*call["aten_nodes"]} for call in graph["calls"])
    library = {call["kernel"] for call in graph["calls"] if call["extern"]}
    assert ("calls? of a library" if library & {*named} else "") in asked.answer.replace("a call", "calls?")


def test_no_refusal_is_told_twice_and_none_without_a_reason():
    found = {one.name: one.answer for one in questions(minigpt())}
    assert "refused" not in found or found["refused"] not in found["several"]
    bare = copy.deepcopy(minigpt())
    for each in bare["graphs"][0]["decisions"]:
        each["reason"] = {"code": "ungiven"}
    assert "refused" not in {one.name for one in questions(bare)}


def test_the_clock_s_choice_is_the_fastest_that_it_timed():
    chosen = next(one for one in questions(minigpt()) if "configuration" in one.question)
    kernel = re.search(r"`(\w+)`", chosen.question)[1]
    [choice] = [one for one in minigpt()["choices"] if one.get("kernel") == kernel and one["kind"] == "heuristic"]
    times = [one["milliseconds"] for one in choice["configurations"]]
    assert f"the fastest of {len(times)} by the clock: {1e3 * min(times):.1f} µs" in chosen.answer
    pane = next(pane for pane in minigpt()["panes"] if pane["id"] == chosen.pane)
    assert kernel in "".join(pane["lines"][chosen.line - 1 : chosen.line + 30])


def test_what_a_capture_has_nothing_for_is_not_asked():
    bare = copy.deepcopy(tiny_head())
    bare["choices"] = []
    for graph in bare["graphs"]:
        graph["decisions"] = []
        for node in graph["nodes"]:
            node["fate"] = "materialised"
    assert questions(bare) == []


def test_the_largest_result_that_is_in_no_memory_is_asked_about():
    capture = copy.deepcopy(tiny_head())
    spared = [node for node in capture["graphs"][0]["nodes"] if node["fate"] in WRITTEN_FOR and node["bytes"]]
    for bytes_, node in enumerate(spared, 100):
        node["bytes"] = bytes_
    assert len(spared) > 1
    (asked,) = [one for one in questions(capture) if one.name == "never_written"]
    assert asked.line == spared[-1]["line"]
