"""The rule graph: Snakemake's own, easier to read."""

import re

from minilab.site.rule_graph import draw_rule_graph

STAGES = {"corpus": "17", "train": "17", "port": "24"}
WORDS = {"corpus": "Sample.", "train": "Train.", "port": "Port."}


def edges(svg: str) -> set[str]:
    return set(re.findall(r"<title>(\w+&#45;&gt;\w+)</title>", svg))


def test_arrows_that_follow_from_others_and_the_target_are_left_out():
    dot = (
        'digraph { 0[label="all"]; 1[label="corpus"]; 2[label="train"]; 3[label="port"]; '
        "1->2; 2->3; 1->3; 3->0; 1->0; }"
    )
    svg = draw_rule_graph(dot, STAGES, WORDS)
    assert edges(svg) == {"corpus&#45;&gt;train", "train&#45;&gt;port"}
    assert ">all<" not in svg


def test_a_rule_leads_to_its_place_in_the_page_and_says_what_it_does():
    svg = draw_rule_graph('digraph { 1[label="corpus"]; 2[label="train"]; 1->2; }', STAGES, WORDS)
    assert 'xlink:href="lab.html#rule-train" xlink:title="Train."' in svg


def test_rules_of_one_stage_have_one_colour():
    svg = draw_rule_graph('digraph { 1[label="corpus"]; 2[label="train"]; 3[label="port"]; }', STAGES, WORDS)
    colours = dict(re.findall(r'<title>(\w+)</title>.*?<path [^>]*stroke="(#\w+)"', svg, re.S))
    assert colours["corpus"] == colours["train"] != colours["port"]


def test_a_graph_with_a_cycle_is_drawn_as_it_is():
    dot = 'digraph { 1[label="corpus"]; 2[label="train"]; 1->2; 2->1; }'
    assert len(edges(draw_rule_graph(dot, STAGES, WORDS))) == 2
