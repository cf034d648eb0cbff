"""Graphs within a graph, the body of a region, a branch or a loop: who calls them, and how often what is in them runs.

Inductor lowers such a graph once and writes a function for it, which the wrapper calls. A region
(`torch.compiler.nested_compile_region`) runs as often as it is called. Of the branches of a `torch.cond` one runs. A
loop turns as often as its text says where it counts to a number, as that of a `scan` does; how often another turns may
follow from data, so that it is counted for one turn.
"""

import re
from collections import Counter
from typing import Any

from minicompile.lowering.captured import Call, Coded, Graph, Runs, SubgraphCall

# Inductor's classes of what calls a graph within the graph, and what such a call is; a torch may name one anew, as 2.14
# did, and then an invariant fails
CALLS = {"Conditional": "cond", "Switch": "cond", "WhileLoop": "while_loop", "InvokeSubgraph": "region"}
CLASS = r"(?ms)^ {4}class %s\(torch\.nn\.Module\):\n +def forward\(self, (.*?)\):\n(.*?)(?=^ {0,4}\S|\Z)"
TEST = re.compile(
    r"\s*(?:#.*\n\s*)*(\w+): \S+ = torch\.ops\.aten\.lt\.Scalar\((?P<counter>\w+), (?P<end>\d+)\);.*\n\s*return \1\s*"
)
FUNCTION = re.compile(r"def (\w+)\(args\):$")


def owners_of_lines(code: list[str], aten: list[dict]) -> dict[int, str]:
    """By line of the wrapper, from 1, the graph within the graph whose function it stands in; others have none.

    Args:
        code: lines of the generated code.
        aten: nodes of the ATen graph, those within named `true_graph_0.cos`.
    """
    names = {node["name"].rpartition(".")[0] for node in aten} - {""}
    found, owner = {}, None
    for number, text in enumerate(code, 1):
        if text and not text[0].isspace():
            match = FUNCTION.match(text)
            owner = match[1] if match and match[1] in names else None
        if owner is not None:
            found[number] = owner
    return found


def graphs_called(node: dict, aten: dict[str, dict]) -> tuple[str | None, list[str]]:
    """The ATen node that a scheduler node of `CALLS` was made for, and the names of the graphs that it calls.

    Args:
        node: a scheduler node.
        aten: nodes of the ATen graph, by name.
    """
    within = {name.rpartition(".")[0] for name in aten}

    def graphs(name: str) -> list[str]:
        given = ((one, aten[one]) for one in aten[name]["inputs"] if one in aten)
        # an attribute has a node for each call; a graph that is called from another bears that one's name first
        named = (
            "_".join(filter(None, (one.rpartition(".")[0], attribute["target"].replace(".", "_"))))
            for one, attribute in given
            if attribute["op"] == "get_attr"
        )
        return [one for one in named if one in within]

    # the operands' origins are among its own, another such call's say: the last in the graph is the one itself
    made_for = next((name for name in reversed(aten) if name in node["origins"] and graphs(name)), None)
    return made_for, graphs(made_for) if made_for else []


def turns(text: str, node: str | None, graphs: list[str]) -> int | None:
    """How often a loop of the graph itself turns that counts from a number to another, by ones; None for any other.

    Args:
        text: of the ATen graph.
        node: the loop's.
        graphs: names of its test and of its body.
    """
    call = re.search(rf"^ {{8}}{node} = torch\.ops\.higher_order\.while_loop\(\w+, \w+, \(([\w, ]+)\)", text, re.M)
    inner = [match for name in graphs if (match := re.search(CLASS % name, text))]
    if call is None or len(inner) != 2:
        return None
    (test_takes, test), (takes, body) = ((re.findall(r"(\w+): \"", one[1]), one[2]) for one in inner)
    until, gives = TEST.fullmatch(test), re.search(r"^ +return \(([\w, ]+)\)", body, re.M)
    if until is None or gives is None or until["counter"] not in test_takes:
        return None
    place = test_takes.index(until["counter"])
    start, made = _names(call[1])[place], _names(gives[1])[place]
    first = re.search(rf"^ {{8}}{start}: \S+ = torch\.ops\.aten\.full\.default\(\[\], (\d+),", text, re.M)
    by_ones = re.search(rf"^ +{made}: \S+ = torch\.ops\.aten\.add\.Tensor\({takes[place]}, 1\);", body, re.M)
    return max(int(until["end"]) - int(first[1]), 0) if first and by_ones else None


def _names(listed: str) -> list[str]:
    return [one.strip() for one in listed.split(",") if one.strip()]


def _times(site: SubgraphCall, name: str) -> int:
    """How often one of the graphs that are called runs in one such call; of a loop whose turns are not known, once."""
    known = site.get("turns")
    # the test says once more that it is over
    return 1 if known is None else known + (name == site["graphs"][0])


def _turns_unknown(site: SubgraphCall) -> bool:
    return site["kind"] == "while_loop" and site.get("turns") is None


def runs(sites: list[SubgraphCall], within: str | None) -> Runs:
    """How often what stands in a graph within the graph runs in one call of the graph.

    Args:
        sites: the calls of such graphs.
        within: the graph's name; None for what stands in none.

    Returns:
        `times`, every branch taken and each loop turned once whose turns are not known; whether it is in a `branch`,
        whether in such a `loop`, and whether it is `turned` in one whose turns are known.
    """
    if within is None:
        return {"times": 1, "branch": False, "loop": False, "turned": False}
    callers = [(site, runs(sites, site["within"])) for site in sites if within in site["graphs"]]
    if not callers:  # of a kind that is not known, which was lowered for some call
        return {"times": 1, "branch": False, "loop": False, "turned": False}
    return {
        "times": sum(outer["times"] * _times(site, within) for site, outer in callers),
        "branch": any(site["kind"] == "cond" or outer["branch"] for site, outer in callers),
        "loop": any(_turns_unknown(site) or outer["loop"] for site, outer in callers),
        "turned": any(site.get("turns") is not None or outer["turned"] for site, outer in callers),
    }


def times(call: Call) -> int:
    """How often a call runs in one call of its graph, every branch taken and each loop turned once."""
    return call["runs"]["times"] if "runs" in call else 1


def one_pass(graph: Graph) -> list[tuple[Call, int]]:
    """The calls of a graph, each with how often one call of the graph runs it.

    Of the branches of a `torch.cond` the one counts that moves most bytes, of equals the first with most calls; a loop
    whose turns are not known counts for one.
    """
    passes = _passes(graph)
    return [(call, passes[call.get("within")]) for call in graph["calls"]]


def called(graph: Graph) -> dict[str, int]:
    """How many calls of generated `kernels` and of `libraries` one call of a graph makes, as `one_pass` counts."""
    counted = one_pass(graph)
    libraries = sum(number for call, number in counted if call["extern"])
    return {"kernels": sum(number for _, number in counted) - libraries, "libraries": libraries}


def bytes_moved(graph: Graph) -> int | None:
    """The bytes that one call of a graph reads and writes, counted as `one_pass` does; None where one's are unknown."""
    counted = [(call["bytes"], number) for call, number in one_pass(graph) if number]
    return (
        sum((size or 0) * number for size, number in counted) if all(size is not None for size, _ in counted) else None
    )


def told(graph: Graph) -> list[Coded]:
    """What to say of the graphs within a graph: which are called how often, which branch counts, which loop turns."""
    passes = _passes(graph)
    sites = [site for site in graph.get("subgraph_calls", []) if passes[site["within"]]]  # what counts at all
    found: dict[str, Coded] = {}
    for site in sites:
        for name in site["graphs"] if site["kind"] == "region" else ():
            if passes[name] > 1:
                found[name] = {"code": "region", "graph": name, "times": passes[name]}
    for site in sites:
        if site["kind"] == "cond" and site["graphs"]:
            counts = next(name for name in site["graphs"] if passes[name])
            found[site["node"] or ""] = {"code": "cond", "graph": counts, "graphs": site["graphs"]}
        elif site["kind"] == "while_loop":
            known = site.get("turns")
            counted: Coded = {"code": "while_loop"} if known is None else {"code": "while_loop_counted", "turns": known}
            found[site["node"] or ""] = {**counted, "node": site["node"]}
    return list(found.values())


def _passes(graph: Graph) -> Counter[str | None]:
    """By the name of a graph within the graph, or None for the graph itself, how often it runs in one call."""
    sites, passes = graph.get("subgraph_calls", []), Counter[str | None]()

    def weight(name: str | None) -> tuple[int, int]:
        own: list[Any] = [(call["bytes"] or 0, 1) for call in graph["calls"] if call.get("within") == name]
        for site in sites:
            for inner in counted(site) if site["within"] == name else ():
                own += [weight(inner)] * _times(site, inner)
        return sum(size for size, _ in own), sum(number for _, number in own)

    def counted(site: SubgraphCall) -> list[str]:
        return [max(site["graphs"], key=weight)] if site["kind"] == "cond" and site["graphs"] else site["graphs"]

    def visit(name: str | None, times: int = 1) -> None:
        passes[name] += times
        for site in sites:
            if site["within"] == name:
                for inner in counted(site):
                    visit(inner, times * _times(site, inner))

    known = {name for site in sites for name in site["graphs"]}
    for name in {call.get("within") for call in graph["calls"]} - known | {None}:
        visit(name)
    return passes
