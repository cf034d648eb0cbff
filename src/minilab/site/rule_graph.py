"""The rule graph as a picture: Snakemake's own `--rulegraph`, laid out by Graphviz (Gansner et al. 1993).

Graphviz comes with pygraphviz's wheel. What is added helps a reader: arrows that follow from others are taken out, and
a rule has its stage's colour, its docstring as a tooltip and a link to its place in lab.html.
"""

import re
from collections.abc import Iterable, Mapping

import networkx
import pygraphviz

from minilab.pages.style import PALETTE
from minilab.site.account import Rule, match

TARGETS = "all"  # the rule that only gathers
# Said once of all, where Graphviz says it of each; a page that takes the picture in gives the variables its own values,
# light or dark.
STYLE = """<style>
.graph text { font: 11px "DejaVu Sans", sans-serif; }
.node path { fill: var(--paper, #ffffff); stroke-width: 2; }
.node text { text-anchor: middle; }
.node text, .graph text:not([fill]) { fill: var(--text, #222222); }
.edge path, .edge polygon { stroke: var(--soft, #565b61); stroke-width: 1.2; }
.edge path { fill: none; }
.edge polygon { fill: var(--soft, #565b61); }
</style>"""
# Nobody reads: remarks, names of groups, what STYLE says.
SAID_ONCE = re.compile(
    r'<!-- .*?-->\s*| id="(?:a_)?(?:node|edge)\d+"| xml:space="preserve"| text-anchor="\w+"'
    r'| font-(?:family|size)="[^"]*"| fill="(?:white|none|black)"| stroke="black"| stroke-width="[\d.]+"',
    re.S,
)
PLACED = re.compile(r' (?:d|points|x|y)="[^"]*"')
HUNDREDTHS = re.compile(r"(\.\d)\d+")  # of a point, which nobody sees


def draw_rule_graph(dot: str, described: Iterable[Rule], stages: Mapping[str, str]) -> str:
    """The rule graph as SVG.

    Args:
        dot: what `snakemake --rulegraph dot` prints.
        described: all rules of the workflow. Those that need a GPU that is not here, and whose results are restored,
            are drawn too, dashed.
        stages: rule -> name of its stage, as the legend has it; a stage has one colour.

    Returns:
        A whole SVG file, from its `<?xml`.
    """
    by_name = {rule.name: rule for rule in described}
    names, printed = _read(dot)
    arrows = networkx.DiGraph((names[source], names[target]) for source, target in printed)
    arrows.add_nodes_from(names.values())
    dashed = add_restored(arrows, by_name)
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
    for name in [*names.values(), *dashed]:
        if name == TARGETS:
            continue
        graph.add_node(
            name,
            color=hues[stages[name]],
            tooltip=by_name[name].docstring,
            URL=f"lab.html#rule-{name}",
            **({"style": "rounded,filled,dashed"} if name in dashed else {}),
        )
    graph.add_edges_from((source, target) for source, target in arrows.edges() if TARGETS not in (source, target))
    svg = SAID_ONCE.sub("", graph.draw(prog="dot", format="svg").decode())
    svg = PLACED.sub(lambda place: HUNDREDTHS.sub(r"\1", place[0]), svg)
    start = svg.index(">", svg.index("<svg")) + 1
    return f"{svg[:start]}\n{STYLE}{svg[start:]}"


def rule_graph_in_mermaid(dot: str) -> str:
    """The rule graph as a flowchart of Mermaid, which editors and code hosts draw.

    Args:
        dot: what `snakemake --rulegraph dot` prints.
    """
    names, arrows = _read(dot)
    nodes = [f"id{node}[{name}]" for node, name in names.items()]
    return "\n\t".join(["flowchart TB", *nodes, *(f"id{source} --> id{target}" for source, target in arrows)]) + "\n"


def _read(dot: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The nodes of a printed graph, each with its label, and its arrows from node to node."""
    printed = pygraphviz.AGraph(string=dot)
    return {node: node.attr["label"] for node in printed.nodes()}, printed.edges()


def add_restored(arrows: networkx.DiGraph, rules: Mapping[str, Rule]) -> list[str]:
    """Add the rules that need a GPU that is not here, and whose results a drawn rule reads or another of them does.

    A rule's inputs are known here as far as its Snakefile writes them as paths.

    Args:
        arrows: rule -> rule that waits for it; changed.
        rules: all of them, by name.

    Returns:
        The names of those that were added.
    """
    absent = [rule for rule in rules.values() if rule.needs_gpu]
    added: list[str] = []
    while True:
        read = {path for name in arrows if name in rules for path in rules[name].inputs}
        new = [rule for rule in absent if rule.name not in arrows and any(_makes(rule, path) for path in read)]
        if not new:
            return added
        for rule in new:
            here = [name for name in arrows if name in rules]
            users = [name for name in here if any(_makes(rule, path) for path in rules[name].inputs)]
            makers = [maker for path in rule.inputs if (maker := _maker(path, rules)) in here]
            restored_by = {source for user in users for source in arrows.predecessors(user) if source in rules}
            makers += [name for name in restored_by if any(_makes(rules[name], path) for path in rule.outputs)]
            arrows.add_edges_from([(rule.name, user) for user in users] + [(maker, rule.name) for maker in makers])
            added.append(rule.name)


def _makes(rule: Rule, path: str) -> bool:
    return any(match(pattern, path) is not None for pattern in rule.outputs)


def _maker(path: str, rules: Mapping[str, Rule]) -> str | None:
    """The rule that makes a file itself: of those whose patterns give its path the one with the fewest wildcards."""
    makers = [
        (len(found), rule.name)
        for rule in rules.values()
        for pattern in rule.outputs
        if (found := match(pattern, path)) is not None
    ]
    return min(makers)[1] if makers else None
