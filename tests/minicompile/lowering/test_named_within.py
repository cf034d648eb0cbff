"""Names in choices are those of the graph that they were made in: the graph itself, or a branch within it."""

import re
from pathlib import Path

import pytest
from zoo_models import captured_anew

from minicompile.explain.annotation.annotate import annotate
from minicompile.lowering.named_within import NamedWithin

CASES = Path(__file__).parents[1] / "cases"


@pytest.fixture(scope="module")
def gated() -> dict:
    return captured_anew("gated_product", "simulated", CASES).capture


def test_a_pattern_within_a_branch_is_told_of_the_branchs_kernel_alone(gated):
    [graph] = gated["graphs"]
    told = {}
    for call in graph["calls"]:
        if not call["extern"]:
            lines = [line for line in annotate(gated, kernel=call["id"]).splitlines() if "The pattern" in line]
            told[call.get("within"), call["id"]] = [re.findall("`(.*?)`", line) for line in lines]
    # by the graph that a kernel stands in, the prefixes of all that its patterns are about
    for (within, _), patterns in told.items():
        names = [name for _, *names in patterns for name in names]
        assert {name.rpartition(".")[0] for name in names} <= {within or ""}
    taken = [pattern for (within, _), found in told.items() if within == "true_graph_0" for pattern in found]
    assert {pattern for pattern, *_ in taken} == {"prepare_softmax_pattern", "unfuse_bias_add_to_pointwise"}
    outer = [pattern for (within, _), found in told.items() if within is None for pattern in found]
    # each bias is told once, of the product that it was added to
    assert len(outer) == 2
    assert len({tuple(names) for _, *names in outer}) == 2


def test_the_lines_of_a_branchs_pattern_are_the_branchs(gated):
    texts = {pane["id"]: pane["lines"] for pane in gated["panes"]}
    matches = [one for one in gated["choices"] if one["kind"] == "pattern"]
    assert len(matches) == 4
    for node in (node for match in matches for side in ("before", "after") for node in match[side]):
        above = texts[node["pane"]][: node["line"]]
        classes = [line.split()[1].partition("(")[0] for line in above if line.lstrip().startswith("class ")]
        assert classes[-1] == (node["name"].rpartition(".")[0] or classes[0])
        assert re.match(rf" *{node['name'].rpartition('.')[2]}\b", above[-1])


def named(name: str, origin: str, target: str = "aten.mm.default") -> dict:
    return {"name": name, "target": target, "origins": [[origin, 0]]}


def test_of_a_name_that_several_graphs_have_the_origins_tell_whose_it_is_or_nobody_knows():
    lowered = {"aten": {"nodes": [named("mm", "one"), named("branch_0.mm", "two"), named("branch_0.relu", "two")]}}
    joint = [named("addmm", "one"), named("branch_0.addmm", "two")]
    match = {"before": [{"name": "addmm", "target": "aten.addmm.default"}], "after": [{"name": "mm", "target": ""}]}
    both = NamedWithin(lowered, joint).match(match)
    assert not both["placed"]  # the product has the origin in either
    other = NamedWithin(lowered, [named("addmm", "three"), joint[1]]).match(match)
    assert (other["after"][0]["name"], other["before"][0]["name"]) == ("branch_0.mm", "branch_0.addmm")
    gone = NamedWithin(lowered, [*joint, named("branch_0.addmm_1", "two")])
    later = {"before": [{"name": "addmm_1", "target": ""}], "after": [{"name": "mm_default", "target": ""}]}
    assert gone.match(later)["before"][0]["name"] == "branch_0.addmm_1"


def test_a_demand_on_a_layout_is_its_graphs_by_the_buffers_name():
    within = NamedWithin({"aten": {"nodes": [named("mm", "one"), named("branch_0.mm", "two")]}}, [])
    demand = {"node": "mm", "target": "aten.mm.default", "buffer": "branch_0_buf3"}
    assert within.demand(demand)["node"] == "branch_0.mm"
    assert within.demand({**demand, "buffer": "buf3"})["node"] == "mm"
    assert within.demand({**demand, "buffer": None})["node"] is None
    assert within.asked({"node": "mm"})["node"] is None
