"""`diff_compiles`: what differs between two captures, and why, as plain data.

Nodes are matched by structure, as git matches lines: an ATen node's identity is its target, its inputs' targets and
the text of the source line it comes from, so neither new names nor shifted lines make a difference. Kernels are
compared by the matched nodes that they compute. Reasons are Inductor's recorded fusion decisions, never guesses.
"""

from collections import defaultdict, deque
from collections.abc import Hashable
from difflib import SequenceMatcher
from itertools import combinations

from minicompile.explain.annotation.view import COMPUTED
from minicompile.explain.evidence import is_all_verified
from minicompile.explain.wording import at_the_head, target_of
from minicompile.lowering.by_values import computed
from minicompile.lowering.captured import Call, Capture, Coded, Decision, Graph, Node
from minicompile.lowering.inner_graphs import bytes_moved, called, told

FORMAT = 1
ATTENTION = "scaled_dot_product_attention"
GRAPH_INPUT = "graph input"


class _Side:
    """One graph of one capture: its ATen nodes in order, and its calls of generated kernels."""

    def __init__(self, capture: Capture, graph: Graph, written_out: bool) -> None:
        self.graph = graph
        self.attention = _attention(capture, graph) if written_out else set[str]()
        self.panes = {pane["id"]: pane["lines"] for pane in capture["panes"]}
        self.nodes = {node["name"]: node for node in graph["nodes"]}
        self.ordered = [node for node in graph["nodes"] if node["op"] == "call_function"]
        self.calls = [call for call in graph["calls"] if not call["extern"]]
        self.doubted = any(call.get("doubted") for call in self.calls)
        self.source: dict[str, str] = {}
        by_line = {node["line"]: node["name"] for node in self.ordered}
        for link in capture["links"]:
            if link["kind"] == "source" and link["to"] == graph["panes"]["aten"]:
                for line, to in link["pairs"]:
                    if to in by_line:
                        self.source.setdefault(by_line[to], self.panes[link["from"]][line - 1].strip())

    def exact(self, node: Node) -> Hashable:
        """Target, inputs' targets and source text."""
        inputs = [self.nodes[name] for name in node["inputs"]]
        targets = tuple(_operation(one) if one["op"] == "call_function" else GRAPH_INPUT for one in inputs)
        return (*self.loose(node), targets)

    def loose(self, node: Node) -> tuple[Hashable, ...]:
        """The same without the inputs, for a node whose producer changed."""
        return (_operation(node), self.source.get(node["name"]))

    def shown(self, name: str) -> dict:
        node = self.nodes[name]
        made = {key: node[key] for key in ("name", "target", "fate")} | {"source": self.source.get(name)}
        return {**made, "attention": True} if name in self.attention else made

    def computed(self, call: Call) -> set[str]:
        """ATen nodes that a call computes; views and folded nodes, which cost no code, are not among them."""
        return {name for name in computed(call) if self.nodes[name]["fate"] in COMPUTED}

    def text(self, call: Call) -> list[str]:
        kernel = next(one for one in self.graph["kernels"] if one["name"] == call["kernel"])
        return self.panes[self.graph["panes"]["code"]][kernel["first"] - 1 : kernel["last"]]

    def refusals(self, first: set[str], second: set[str]) -> list[Coded]:
        """Why scheduler nodes of one set were not fused with some of the other."""
        return [
            decision["reason"]
            for decision in self.graph["decisions"]
            if not decision["taken"] and _between(decision, first, second)
        ]


def _operation(node: Node) -> str:
    """A node's target; `_unsafe_view` is `view` without a check, and torches make of one call the one or the other."""
    return node["target"].replace("._unsafe_", ".")


def diff_compiles(a: Capture, b: Capture) -> dict:
    """Compare two captures.

    Args:
        a, b: as `minicompile.lowering.capture.capture` makes them (schemas/capture.schema.yaml); before and after.

    Returns:
        What schemas/diff_compiles.schema.yaml describes: differences of environment, then graph by graph the nodes
        that `appeared` and `vanished`, marked where they are of attention which one side wrote out, changed `fates`,
        kernels `fused` differently and kernels `rewritten`.
    """
    graphs_a, graphs_b = ({graph["id"]: graph for graph in capture["graphs"]} for capture in (a, b))
    written_out = "math" in (a["target"].get("attention"), b["target"].get("attention"))
    graphs = [
        _graph(_Side(a, graphs_a[name], written_out), _Side(b, graphs_b[name], written_out))
        for name in graphs_a
        if name in graphs_b
    ]
    doubted = any(call.get("doubted") for capture in (a, b) for graph in capture["graphs"] for call in graph["calls"])
    only_a = [name for name in graphs_a if name not in graphs_b]
    only_b = [name for name in graphs_b if name not in graphs_a]
    return {
        "format": FORMAT,
        "a": _identity(a),
        "b": _identity(b),
        "environment": _environment(a, b),
        "only_a": only_a,
        "only_b": only_b,
        "graphs": graphs,
        **({} if all(is_all_verified(capture) for capture in (a, b)) else {"noted": True}),
        "same": not (only_a or only_b or doubted or any(_differs(graph) for graph in graphs)),
    }


def _attention(capture: Capture, graph: Graph) -> set[str]:
    """The ATen nodes that came of scaled_dot_product_attention."""
    texts = {pane["id"]: pane["lines"] for pane in capture["panes"] if pane["kind"] == "dynamo"}
    lines = {
        at
        for link in capture["links"]
        if link["from"] in texts and link["to"] == graph["panes"]["aten"]
        for line, at in link["pairs"]
        if ATTENTION in texts[link["from"]][line - 1]
    }
    return {node["name"] for node in graph["nodes"] if node["line"] in lines}


def _identity(capture: Capture) -> dict:
    return {
        "model": capture["model"]["name"],
        "target": target_of(capture),
        "device": capture["target"]["device"],
        "torch": capture["environment"]["versions"].get("torch"),
        **({"warnings": found} if (found := at_the_head(capture)) else {}),
    }


def _environment(a: Capture, b: Capture) -> list[dict]:
    """Versions, target, threads, settings and inputs that are not the same."""
    first, second = _facts(a), _facts(b)
    return [
        {"what": {"code": code, **({"name": name} if name else {})}, "a": one, "b": other}
        for code, name in dict.fromkeys([*first, *second])
        if (one := first.get((code, name))) != (other := second.get((code, name)))
    ]


def _facts(capture: Capture) -> dict[tuple[str, str | None], Coded | str]:
    """What a capture was made with, by a code and, of versions and options, a name."""
    environment = capture["environment"]
    inputs = [f"{one['kind']} {one['size']} {one['dtype']}" for one in capture["model"]["inputs"]]
    return {
        ("target", None): target_of(capture),
        ("threads", None): str(environment["threads"]),
        ("compiler", None): str(environment["compiler"]),
        ("inputs", None): ", ".join(inputs),
        **{("version", name): str(version) for name, version in environment["versions"].items()},
        **{("option", name): str(value) for name, value in environment["options"].items()},
    }


def _graph(a: _Side, b: _Side) -> dict:
    pairs = _matched(a, b)
    matched_b = set(pairs.values())
    changed = [pair for pair in pairs.items() if a.nodes[pair[0]]["fate"] != b.nodes[pair[1]]["fate"]]
    return {
        "id": a.graph["id"],
        "matched": len(pairs),
        "totals": {"a": _totals(a), "b": _totals(b)},
        "appeared": [b.shown(node["name"]) for node in b.ordered if node["name"] not in matched_b],
        "vanished": [a.shown(node["name"]) for node in a.ordered if node["name"] not in pairs],
        "fates": [_fate(a, b, *pair) for pair in changed],
        # of a kernel of which something was passed over it is not known what it computes
        **({"fused": [], "rewritten": []} if a.doubted or b.doubted else _kernels(a, b, pairs)),
    }


def _matched(a: _Side, b: _Side) -> dict[str, str]:
    """Names of `a`'s nodes and of those in `b` that they are: exact runs first, then what is left in order."""
    keys_a, keys_b = ([side.exact(node) for node in side.ordered] for side in (a, b))
    blocks = SequenceMatcher(None, keys_a, keys_b, autojunk=False).get_matching_blocks()
    pairs = {
        a.ordered[block.a + step]["name"]: b.ordered[block.b + step]["name"]
        for block in blocks
        for step in range(block.size)
    }
    taken = set(pairs.values())
    waiting: dict[object, deque[str]] = defaultdict(deque)
    for node in b.ordered:
        if node["name"] not in taken:
            waiting[b.loose(node)].append(node["name"])
    for node in a.ordered:
        if node["name"] not in pairs and waiting[a.loose(node)]:
            pairs[node["name"]] = waiting[a.loose(node)].popleft()
    return {node["name"]: pairs[node["name"]] for node in a.ordered if node["name"] in pairs}


def _totals(side: _Side) -> dict:
    calls = called(side.graph)
    return {
        "kernels": len(side.graph["kernels"]),
        "kernel_calls": calls["kernels"],
        "library_calls": calls["libraries"],
        "bytes": bytes_moved(side.graph),
        "inner_graphs": told(side.graph),
    }


def _fate(a: _Side, b: _Side, name_a: str, name_b: str) -> dict:
    """A node whose result became something else, with the refusals over its buffer where it is in memory."""
    reasons = []
    for side, name in ((a, name_a), (b, name_b)):
        buffer = side.nodes[name]["buffer"]
        reasons += [
            decision["reason"]
            for decision in side.graph["decisions"]
            if side.nodes[name]["fate"] == "materialised"
            and not decision["taken"]
            and not decision.get("joined")
            and buffer in decision["shared_buffers"]
        ]
    return {"a": a.shown(name_a), "b": b.shown(name_b), "reasons": _each_once(reasons)}


def _kernels(a: _Side, b: _Side, pairs: dict[str, str]) -> dict:
    """`fused`: matched nodes that the other side has in other kernels; `rewritten`: the same nodes in other text."""
    held_a = [(call, a.computed(call) & pairs.keys()) for call in a.calls]
    names = {name_b: name_a for name_a, name_b in pairs.items()}
    held_b = [(call, {names[name] for name in b.computed(call) & names.keys()}) for call in b.calls]
    fused, rewritten, left = [], [], list(held_b)
    for call, nodes in held_a:
        twin = next((one for one in left if one[1] == nodes), None)
        if twin is not None:
            left.remove(twin)
            rewritten += _rewritten(a, call, b, twin[0])
        elif nodes:
            there = [one for one in held_b if one[1] & nodes]
            joined = set().union(*(held for _, held in there))
            before = [one for one in held_a if one[0] is call or one[1] & joined]
            reasons = _apart(a, before) + _apart(b, there)
            fused.append(_fused(nodes, [(call, nodes)], there, reasons))
    told = {one["call"] for entry in fused for one in entry["b"]}
    for call, nodes in left:
        if nodes and call["id"] not in told:
            there = [one for one in held_a if one[1] & nodes]
            fused.append(_fused(nodes, there, [(call, nodes)], _apart(a, there)))
    return {"fused": fused, "rewritten": rewritten}


def _fused(nodes: set[str], calls_a: list[tuple], calls_b: list[tuple], reasons: list[Coded]) -> dict:
    shown = [
        [
            {
                "call": call["id"],
                "kernel": call["kernel"],
                "nodes": sorted(held & nodes),
                "others": sorted(held - nodes),
            }
            for call, held in calls
        ]
        for calls in (calls_a, calls_b)
    ]
    return {"nodes": sorted(nodes), "a": shown[0], "b": shown[1], "reasons": _each_once(reasons)}


def _apart(side: _Side, calls: list[tuple]) -> list[Coded]:
    """Why the scheduler nodes of several calls are not in one."""
    members = [set(call["scheduler_nodes"]) for call, _ in calls]
    return [reason for first, second in combinations(members, 2) for reason in side.refusals(first, second)]


def _each_once(reasons: list[Coded]) -> list[Coded]:
    return list({str(reason): reason for reason in reasons}.values())


def _between(decision: Decision, first: set[str], second: set[str]) -> bool:
    one, other = set(decision["first"]), set(decision["second"])
    return (one <= first and other <= second) or (one <= second and other <= first)


def _rewritten(a: _Side, call_a: Call, b: _Side, call_b: Call) -> list[dict]:
    """An entry where two kernels of the same nodes read differently, their own names aside."""
    text_a = [line.replace(call_a["kernel"], "") for line in a.text(call_a)]
    text_b = [line.replace(call_b["kernel"], "") for line in b.text(call_b)]
    if text_a == text_b:
        return []
    changes = SequenceMatcher(None, text_a, text_b, autojunk=False).get_opcodes()
    return [
        {
            "a": call_a["kernel"],
            "b": call_b["kernel"],
            "bytes": {"a": call_a["bytes"], "b": call_b["bytes"]},
            "lines_removed": sum(end - start for tag, start, end, _, _ in changes if tag != "equal"),
            "lines_added": sum(end - start for tag, _, _, start, end in changes if tag != "equal"),
        }
    ]


def _differs(graph: dict) -> bool:
    return any(graph[what] for what in ("appeared", "vanished", "fates", "fused", "rewritten"))
