"""The rule graph as a picture: Snakemake's own `--rulegraph`, laid out by Graphviz (Gansner et al. 1993).

Graphviz comes with pygraphviz's wheel. What is added helps a reader: arrows that follow from others are taken out, and
a rule has its stage's colour, its docstring as a tooltip and a link to its place in lab.html.
"""

import networkx
import pygraphviz

from minilab.style import PALETTE

TARGETS = "all"  # the rule that only gathers
# Graphviz writes these in; a page that takes the picture in gives the variables its own values, light or dark.
STYLE = """<style>
.node path { fill: var(--paper, #ffffff); }
.node text, .graph text:not([fill]) { fill: var(--text, #222222); }
.edge path { stroke: var(--soft, #565b61); }
.edge polygon { stroke: var(--soft, #565b61); fill: var(--soft, #565b61); }
</style>"""


def draw_rule_graph(dot: str, stages: dict[str, str], docstrings: dict[str, str]) -> str:
    """The rule graph as SVG.

    Args:
        dot: what `snakemake --rulegraph dot` prints.
        stages: rule -> name of its stage, as the legend has it; a stage has one colour.
        docstrings: rule -> what it does.

    Returns:
        A whole SVG file, from its `<?xml`.
    """
    printed = pygraphviz.AGraph(string=dot)
    rules = {node: node.attr["label"] for node in printed.nodes()}
    arrows = networkx.DiGraph((rules[source], rules[target]) for source, target in printed.edges())
    if networkx.is_directed_acyclic_graph(arrows):  # a rule that comes before and after another makes a cycle
        arrows = networkx.transitive_reduction(arrows)
    hues = dict(zip(sorted(set(stages.values())), PALETTE.values(), strict=False))
    legend = "&#160;&#160; ".join(f'<font color="{hue}">&#9632;</font> {stage}' for stage, hue in hues.items())
    graph = pygraphviz.AGraph(directed=True, bgcolor="transparent", nodesep=0.2, ranksep=0.32)
    graph.graph_attr.update(label=f"<{legend}>", labelloc="t", fontname="DejaVu Sans", fontsize=11)
    graph.node_attr.update(
        shape="box", style="rounded,filled", fillcolor="white", fontname="DejaVu Sans", fontsize=11, penwidth=2,
        height=0.34, margin="0.12,0.04",
    )  # fmt: skip
    graph.edge_attr.update(penwidth=1.2, arrowsize=0.6)
    for rule in rules.values():
        if rule == TARGETS:
            continue
        graph.add_node(
            rule,
            color=hues[stages[rule]],
            tooltip=docstrings[rule],
            URL=f"lab.html#rule-{rule}",
        )
    graph.add_edges_from((source, target) for source, target in arrows.edges() if TARGETS not in (source, target))
    svg = graph.draw(prog="dot", format="svg").decode()
    start = svg.index(">", svg.index("<svg")) + 1
    return f"{svg[:start]}\n{STYLE}{svg[start:]}"
