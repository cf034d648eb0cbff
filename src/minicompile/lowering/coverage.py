"""How complete a capture is, in figures.

Complete means: every compute node reaches a kernel line or a library's call; every kernel call reaches its ATen
nodes; every loop-body operation its ATen node; forward and backward. Views compute nothing, and kernel lines without
an operation are structure (loops, pragmas, signatures, accumulators).
"""

from collections import defaultdict

from minicompile.lowering.captured import Capture, Coded, Graph, Link, Operation

NO_CODE = ("view", "folded")


def coverage(graph: Graph, links: list[Link]) -> dict:
    """The figures of one graph: pairs of how many are linked and how many there are, and names of those that are not.

    Args:
        graph: as in a capture.
        links: the capture's links.
    """
    aten, code = graph["panes"]["aten"], graph["panes"]["code"]
    between = [link for link in links if (link["from"], link["to"]) == (aten, code)]
    pairs = [pair for link in between for pair in link["pairs"]]
    exact = {first for link in between if link["kind"] == "operation" for first, _ in link["pairs"]}
    # a library's call, a user's kernel, memory that is only allocated: the call is all there is to reach
    whole = {name for node in graph["scheduler_nodes"] if not node["operations"] for name in node["aten_nodes"]}
    as_wholes = {kernel["name"] for kernel in graph["kernels"] if kernel["granularity"] == "kernel"}
    coarse = {call["line"] for call in graph["calls"] if call["kernel"] in as_wholes}
    called = {first for first, _ in pairs}
    whole_lines = {node["line"] for node in graph["nodes"] if node["name"] in whole} & called
    reached = exact | whole_lines | {first for first, second in pairs if second in coarse}
    sourced = {line for link in links if link["to"] == aten and link["kind"] == "source" for _, line in link["pairs"]}
    operations = [(node["name"], one) for node in graph["scheduler_nodes"] for one in node["operations"]]
    handed_on = _handed_on(graph)
    no_line = {node["name"] for node in graph["nodes"] if node["fate"] == "fused away" and node["name"] in handed_on}
    compute = [
        node for node in graph["nodes"]
        if node["fate"] and node["fate"] not in NO_CODE and node["name"] not in no_line
    ]  # fmt: skip
    lost = [node["name"] for node in compute if node["line"] not in reached and "by" not in node]
    # a constant, an index, what hands on its operand: it has no line of its own, but the kernel that it went into is
    # known, or nobody reads it
    needless = _needless(graph)
    folded = [
        node for node in graph["nodes"]
        if (node["fate"] == "folded" and node["name"] not in needless) or node["name"] in no_line
    ]  # fmt: skip
    astray = [node["name"] for node in folded if node["line"] not in called]
    unlinked_calls = [call["id"] for call in graph["calls"] if not call["aten_nodes"] or not call["line"]]
    orphans = [f"{node}.{one['name']}" for node, one in operations if not one["producer"]]
    return {
        "nodes_with_source": [sum(node["line"] in sourced for node in compute), len(compute)],
        "compute_nodes": [len(compute) - len(lost), len(compute)],
        "kernel_calls": [len(graph["calls"]) - len(unlinked_calls), len(graph["calls"])],
        "loop_body_operations": [len(operations) - len(orphans), len(operations)],
        "kernel_lines": [sum(k["lines_tied"] for k in graph["kernels"]), sum(k["lines"] for k in graph["kernels"])],
        "missing": {"compute_nodes": lost + astray, "kernel_calls": unlinked_calls, "loop_body_operations": orphans},
    }


def _handed_on(graph: Graph) -> set[str]:
    """ATen nodes that only store what another one computed, a first power say, where no kernel has such a line."""
    removed = {buffer["name"] for buffer in graph["buffers"] if buffer["removed"]}
    own: dict[str, list[Operation]] = defaultdict(list)
    for node in graph["scheduler_nodes"]:
        for one in node["operations"]:
            if one["producer"]:
                own[one["producer"]].append(one)
    return {name for name, its in own.items() if all(not one["emitted"] and one["buffer"] in removed for one in its)}


def _needless(graph: Graph) -> set[str]:
    """Folded nodes and views that need no code: they have no element, or nobody reads them but others of these.

    A call may be handed what it does not read, as flex_attention is what its backward pass would need; Inductor then
    drops the buffer, and with it what only that was made of.
    """
    made = {buffer for node in graph["scheduler_nodes"] for buffer in node["buffers"]}
    readers: dict[str, list[str]] = {}
    for node in graph["nodes"]:
        for name in node["inputs"]:
            readers.setdefault(name, []).append(node["name"])
    found: set[str] = set()
    for node in reversed(graph["nodes"]):  # readers come after what they read
        name, dropped = node["name"], node["buffer"] is not None and node["buffer"] not in made
        if node["fate"] in NO_CODE and (dropped or 0 in (node["size"] or ()) or {*readers.get(name, ())} <= found):
            found.add(name)
    return found


def gaps(capture: Capture) -> list[Coded]:
    """What a capture is missing: a direction that was not compiled, and what is tied to nothing, by graph.

    Each is `no_graph` with its `direction`, or `untied` with its `graph`, `what` is untied, and the `names`.
    """
    directions = {graph["direction"] for graph in capture["graphs"]}
    wanted = {"forward", "backward"} if capture["model"]["train"] else {"forward"}
    found: list[Coded] = [{"code": "no_graph", "direction": direction} for direction in sorted(wanted - directions)]
    for graph in capture["graphs"]:
        for what, names in graph["coverage"]["missing"].items():
            if names:
                found.append({"code": "untied", "graph": graph["id"], "what": what, "names": names})
    return found
