"""Whether the hooks saw what they must have seen, whatever a torch calls its parts and in whatever order it runs them.

Four invariants of a graph: a call runs every scheduler node that has a loop; every store in a kernel's text is a store
of some node's loop; of every kernel that is made of loops some line is tied to an operation; of every graph within the
graph it is known what calls it. A fifth is one of the simulated target: all code and all memory is the GPU's. Where one
fails a hook passed something over, and what follows from all that a kernel does, its operations, its bytes, what it
does not store, is then not told of it: the call is `doubted`.
"""

import re
from collections import defaultdict

from minicompile.lowering.captured import Call, Coded, Graph, Kernel, Link

INVARIANTS = ("scheduler_nodes", "graphs", "stores", "kernels", "device")
ALLOCATION = re.compile(r"^ +(\w+) = empty_strided_(\w+)\(")
STORES = ("store", "store_reduction", "atomic_add")  # Inductor's names of operations
STORE = {
    "python": re.compile(r"\btl\.atomic_\w+\(|\bstore\("),
    "cpp": re.compile(r"\bout_ptr\d+\[[^=]*\] [+]?= |\.store\((?:in_)?out_ptr|\batomic_add\w*\("),
}


def invariants(
    graph: Graph, links: list[Link], code: list[str], *, by_line: bool = True, simulated: bool = False
) -> dict[str, dict]:
    """Of each invariant, by name, of how many it was asked (`of`) and the names of those that it fails for.

    Args:
        graph: with its kernels and calls.
        links: between the panes of the graph.
        code: the lines of its code pane.
        by_line: the torch has what ties lines to operations; without it kernels are tied as wholes, and their lines
            cannot be asked about.
        simulated: the code is for the GPU that is not here.
    """
    called = {name for call in graph["calls"] for name in call["scheduler_nodes"]}
    loops = [node["name"] for node in graph["scheduler_nodes"] if node["operations"]]
    found = {"scheduler_nodes": {"of": len(loops), "missing": [name for name in loops if name not in called]}}
    within = dict.fromkeys(call["within"] for call in graph["calls"] if "within" in call)
    sites = {name for site in graph.get("subgraph_calls", ()) for name in site["graphs"]}
    found["graphs"] = {"of": len(within), "missing": [name for name in within if name not in sites]}
    if by_line:
        written = [kernel for kernel in graph["kernels"] if _is_of_loops(graph, kernel)]
        tied = _stores(graph, links)
        stores = [
            (kernel["name"], line)
            for kernel in written
            for line in range(kernel["first"], kernel["last"] + 1)
            if STORE[kernel["language"]].search(code[line - 1])
        ]
        lost = [f"{name}:{line}" for name, line in stores if line not in tied]
        whole = [kernel["name"] for kernel in written if kernel["granularity"] == "kernel"]
        found["stores"] = {"of": len(stores), "missing": lost}
        found["kernels"] = {"of": len(written), "missing": whole}
    if simulated:
        made = [(match[1], match[2]) for text in code if (match := ALLOCATION.match(text))]
        made += [(kernel["name"], kernel["language"]) for kernel in graph["kernels"]]
        found["device"] = {"of": len(made), "missing": [name for name, of in made if of.startswith(("cpu", "cpp"))]}
    return found


def _is_of_loops(graph: Graph, kernel: Kernel) -> bool:
    """Whether a kernel is written from loops: not from a template, nor by the user."""
    names = {name for call in graph["calls"] if call["kernel"] == kernel["name"] for name in call["scheduler_nodes"]}
    nodes = [node for node in graph["scheduler_nodes"] if node["name"] in {*names, *kernel["scheduler_nodes"]}]
    return not any(node["template"] or node["user_triton"] for node in nodes)


def _stores(graph: Graph, links: list[Link]) -> set[int]:
    """The lines of the code that are tied to a store of a loop's."""
    stores = {
        one["line"] for node in graph["scheduler_nodes"] for one in node["operations"] if one["operation"] in STORES
    }
    panes = graph["panes"]["ir_after"], graph["panes"]["code"]
    between = [link for link in links if (link["from"], link["to"]) == panes and link["kind"] == "operation"]
    return {line for link in between for ir_line, line in link["pairs"] if ir_line in stores}


def with_doubts(graph: Graph) -> Graph:
    """The graph with those calls `doubted` for whose kernels an invariant fails; their bytes are Inductor's count."""
    missing = {what: set(found["missing"]) for what, found in graph["invariants"].items()}
    kernels = missing.get("kernels", set()) | missing.get("device", set())
    kernels |= {name.rpartition(":")[0] for name in missing.get("stores", ())}
    # a node that no call runs may be in any kernel of its group
    groups = {
        number for number, group in enumerate(graph["groups"]) if missing["scheduler_nodes"] & {*group["members"]}
    }

    def doubted(call: Call) -> Call:
        astray = call.get("within") in missing["graphs"]
        if call["kernel"] not in kernels and not groups & {*call["groups"]} and not astray:
            return call
        counts = [graph["groups"][number]["bytes"] for number in call["groups"]]
        counted = None if None in counts else sum(count or 0 for count in counts)
        made: Call = {**call, "doubted": True, "bytes": counted, "read_bytes": None, "written_bytes": None}
        made["bytes_are"] = None if counted is None else "counted"
        return made

    return {**graph, "calls": [doubted(call) for call in graph["calls"]]}


def unseen(graphs: list[Graph]) -> list[Coded]:
    """What the hooks passed over: `unseen` with its `graph`, `what` invariant fails, and the `names` that it is for."""
    return [
        {"code": "unseen", "graph": graph["id"], "what": what, "names": found["missing"]}
        for graph in graphs
        for what, found in graph["invariants"].items()
        if found["missing"]
    ]


def outcome(graphs: list[Graph]) -> dict[str, list[str]]:
    """The invariants that `held` in all graphs, and those that `failed` in one."""
    asked: dict[str, bool] = defaultdict(lambda: True)
    for graph in graphs:
        for what, found in graph["invariants"].items():
            asked[what] &= not found["missing"]
    return {side: [what for what, held in asked.items() if held == (side == "held")] for side in ("held", "failed")}
