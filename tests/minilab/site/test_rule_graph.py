"""The rule graph: Snakemake's own, easier to read."""

import re
from dataclasses import replace

from front_door import rule

from minilab.site.rule_graph import draw_rule_graph, rule_graph_in_mermaid

STAGES = {"corpus": "17", "train": "17", "port": "24"}
RULES = [rule(name, f"results/{name}.json") for name in STAGES]
GPU = [
    rule("prove", "results/24/{device}/proof/{kernel}.json"),
    rule("restore", "results/24/{device}/{file}.json"),
    rule("restore_another", "results/24/{device}/{file}.json"),
    rule("autotune", "results/24/{device}/autotune.json", needs_gpu=True, inputs=("results/24/{device}/proof/a.json",)),
    rule("contest", "results/24/{device}/contest.json", needs_gpu=True, inputs=("results/24/{device}/autotune.json",)),
    rule("gemv", "results/25/{device}/gemv.json", needs_gpu=True),
    rule("roofline", "results/24/roofline.png", inputs=("results/24/h200/contest.json",)),
]


def edges(svg: str) -> set[str]:
    return set(re.findall(r"<title>(\w+&#45;&gt;\w+)</title>", svg))


def test_arrows_that_follow_from_others_and_the_target_are_left_out():
    dot = (
        'digraph { 0[label="all"]; 1[label="corpus"]; 2[label="train"]; 3[label="port"]; '
        "1->2; 2->3; 1->3; 3->0; 1->0; }"
    )
    svg = draw_rule_graph(dot, RULES, STAGES)
    assert edges(svg) == {"corpus&#45;&gt;train", "train&#45;&gt;port"}
    assert ">all<" not in svg


def test_a_rule_leads_to_its_place_in_the_page_and_says_what_it_does():
    svg = draw_rule_graph('digraph { 1[label="corpus"]; 2[label="train"]; 1->2; }', RULES, STAGES)
    assert 'xlink:href="lab.html#rule-train" xlink:title="What train does, in `code`."' in svg


def test_a_figure_in_what_a_rule_does_is_left_as_it_is():
    exact = [replace(each, docstring="Waits 0.125 s.") for each in RULES]
    svg = draw_rule_graph('digraph { 1[label="corpus"]; }', exact, STAGES)
    assert 'xlink:title="Waits 0.125 s."' in svg


def test_a_rule_and_an_arrow_cost_what_draws_them():
    names = [f"rule_number_{number}" for number in range(21)]
    rules = [rule(name, f"results/{name}.json") for name in names]

    def drawn(count: int) -> int:
        arrows = "".join(f"{number}->{number + 1};" for number in range(count - 1))
        nodes = "".join(f'{number}[label="{name}"];' for number, name in enumerate(names[:count]))
        return len(draw_rule_graph(f"digraph {{ {nodes} {arrows} }}", rules, dict.fromkeys(names, "24")))

    assert (drawn(21) - drawn(1)) / 20 < 800  # bytes: 732 where this was written, 1,105 as Graphviz writes them


def test_rules_of_one_stage_have_one_colour():
    svg = draw_rule_graph('digraph { 1[label="corpus"]; 2[label="train"]; 3[label="port"]; }', RULES, STAGES)
    colours = dict(re.findall(r'<title>(\w+)</title>.*?<path [^>]*stroke="(#\w+)"', svg, re.S))
    assert colours["corpus"] == colours["train"] != colours["port"]


def test_a_graph_with_a_cycle_is_drawn_as_it_is():
    dot = 'digraph { 1[label="corpus"]; 2[label="train"]; 1->2; 2->1; }'
    assert len(edges(draw_rule_graph(dot, RULES, STAGES))) == 2


def test_rules_of_a_gpu_that_is_not_here_are_drawn_dashed_where_their_results_are_read():
    dot = 'digraph { 1[label="prove"]; 2[label="restore"]; 3[label="roofline"]; '
    dot += '4[label="restore_another"]; 1->3; 2->3; }'
    svg = draw_rule_graph(dot, GPU, {each.name: "24" for each in GPU})
    drawn = {f"{source}&#45;&gt;{target}" for source, target in (
        ("prove", "autotune"), ("restore", "autotune"), ("autotune", "contest"), ("contest", "roofline"),
    )}  # fmt: skip
    assert edges(svg) == drawn
    dashed = re.findall(r"<title>(\w+)</title>\s*<g[^>]*><a[^>]*>\s*<path[^>]*stroke-dasharray", svg)
    assert sorted(dashed) == ["autotune", "contest"]


def test_in_mermaid_each_rule_is_a_node_and_every_arrow_stays():
    dot = 'digraph { 0[label="all"]; 1[label="corpus"]; 2[label="end"]; 1->2; 2->0; 1->0; }'
    lines = rule_graph_in_mermaid(dot).splitlines()
    assert lines[0] == "flowchart TB"
    said = ["id0[all]", "id1[corpus]", "id2[end]", "id1 --> id2", "id2 --> id0", "id1 --> id0"]
    assert sorted(map(str.strip, lines[1:])) == sorted(said)
