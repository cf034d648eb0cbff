"""What a kernel computes, in the field's words: its operations in order, and the name that they have together.

A name is given only where the graph has the whole of it: the operations, fed by one another, along the same axes.
"""

import re
from dataclasses import dataclass
from itertools import groupby

from minicompile.explain.annotation.view import KernelView
from minicompile.explain.evidence import Fact
from minicompile.lowering.captured import Node

MOST = 10  # steps that are told
DEFINITION = re.compile(r"^\s*def ")
COPY, INTO_A_RESULT = "aten.copy_.default", "copy_into_a_result"
WITHOUT_POSITION = {"aten.max.default": "amax", "aten.min.default": "amin"}
BOTH = {"aten.max.dim": "amax", "aten.min.dim": "amin"}  # whose position a kernel may leave to another
POSITION = re.compile(r"arg_?(?:max|min)|with_index|IndexValue")
WITHOUT_CODE = ("view", "folded")  # fates of nodes through which a kernel sees what it computes with
PREPARATIONS = ("load", "load_seed", "constant", "index_expr")  # of what an operation computes with
AXES = re.compile(r"= torch\.ops\.[\w.]+\(\w+, (?:\[(?P<list>-?\d+(?:, -?\d+)*)\]|(?P<one>-?\d+))[,)]")
SQUARE = re.compile(r"\(\w+, 2(?:\.0)?\)")


def steps(view: KernelView) -> list[dict]:
    """The ATen operations that the kernel computes, in order, each with how `many` follow one another.

    Copies, and conversions that round at most, are told where the kernel does nothing else.
    """
    nodes = in_order(view)
    told = [node for node in nodes if not passes_on(view, node)] or nodes
    named = groupby(told, lambda node: (_named(view, node), node["name"] in view.finished))
    return [{"name": name, "many": len([*alike]), "finished": finished} for (name, finished), alike in named]


def _named(view: KernelView, node: Node) -> str:
    """An operation's name in the words: a maximum without its position has another than one with it."""
    if node["target"] in WITHOUT_POSITION:
        return WITHOUT_POSITION[node["target"]]
    if node["target"] in BOTH and not any(POSITION.search(text) for _, text in view.lines):
        return BOTH[node["target"]]
    if node["target"] == COPY and not _into_input(view, node):
        return INTO_A_RESULT
    return operation_of(node)


def _into_input(view: KernelView, node: Node) -> bool:
    """Whether what is copied into is an input of the graph, or a view of one."""
    given = view.nodes[node["inputs"][0]] if node["inputs"] else node
    while given["fate"] == "view" and given["inputs"]:
        given = view.nodes[given["inputs"][0]]
    return given["op"] == "placeholder"


def in_order(view: KernelView) -> list[Node]:
    """The kernel's ATen nodes in the order in which its text computes them, none before what it is computed from.

    That is not the graph's order: a kernel of several loops computes each result in the first loop that needs it.
    """
    first, last, graph = _first_lines(view), (True, len(view.code)), _Graph(view)
    waiting = {node["name"]: node for node in sorted(view.fused, key=lambda node: first.get(node["name"], last))}
    found: list[Node] = []

    def computed(node: Node) -> None:
        """Before a node what it is computed from: where its line is not known, or is one that computes it again."""
        if waiting.pop(node["name"], None) is None:
            return
        for one in sorted(graph.before(node), key=lambda one: first.get(one["name"], last)):
            computed(one)
        found.append(node)

    for node in [*waiting.values()]:
        computed(node)
    return found


def _first_lines(view: KernelView) -> dict[str | None, tuple[bool, int]]:
    """By ATen node, where it is computed first: what only prepares an operation comes after what computes."""
    first: dict[str | None, tuple[bool, int]] = {}
    if view.values is not None:
        own = view.values["computes"]
        lines = {name: one["line"] for one in reversed(view.values["lines"]) for name in one["nodes"]}
        # what has no line of its own is done where it is stored
        done = {one.producer: line for line, operations in view.operations.items() for one in operations
                if one.operation not in PREPARATIONS}  # fmt: skip
        lines = {name: line for name, line in done.items() if name is not None} | lines
        # the order of the lines' dependencies; what is only computed once more stands where its line does
        later = 0
        for name in own:
            later = max(later, lines.get(name, later))
            first[name] = False, later
        return first | {name: (False, lines.get(name, later)) for name in view.values["again"]}
    # a scan's function stands above the kernel's own text, and runs where the kernel calls it
    body = max((line for line, text in view.lines if DEFINITION.match(text)), default=0)
    for line, operations in view.operations.items():
        for one in operations if line >= body else ():
            place = one.operation in PREPARATIONS, line
            first[one.producer] = min(place, first.get(one.producer, place))
    return first


def headline(view: KernelView) -> Fact | None:
    """One line: "This is softmax over the last axis of 2x600: maximum, ..."; None for a kernel that is the user's."""
    told = steps(view)
    if any(node["user_triton"] for node in view.scheduler_nodes):
        return None
    if not told:
        return _of_no_operation(view)
    words = view.words
    parts = [_step(view, step) for step in told[:MOST]]
    if len(told) > MOST:
        parts.append(words("headline.more", count=len(told) - MOST))
    listed = ", ".join(parts)
    whole = named_whole(view)
    if whole is None:
        return view.said("headline.found" if view.incomplete else "headline.steps", steps=listed)
    fields: dict = {"name": words(f"headline.names.{whole.name}"), "axes": _axes(view, whole), "steps": listed}
    return view.said("headline.whole" if whole.alone and not view.incomplete else "headline.among", **fields)


def _of_no_operation(view: KernelView) -> Fact | None:
    """What a kernel does that computes no operation whole; of one that was not run, only what its operations show."""
    if view.unfinished:
        return view.said("headline.parts", names=", ".join(f"`{node['name']}`" for node, _ in view.unfinished))
    if view.values is not None and view.values["moves"] and view.only_copies and not view.incomplete:
        return view.said("headline.moves", names=", ".join(f"`{name}`" for name in view.values["moves"]))
    return None


def operation_of(node: Node) -> str:
    """An operation's name without its namespace and overload: `aten.sub.Tensor` is sub."""
    parts = node["target"].split(".")
    return parts[1] if len(parts) > 1 else parts[0]


CONVERSIONS = ("convert_element_type", "_to_copy", "clone")
FLOATS = ("float16", "bfloat16", "float32", "float64")
WIDER = (  # dtypes, each with all the numbers of those before it
    ("bool", "uint8", "int16", "int32", "int64"),
    ("int8", "int16", "int32", "int64"),
    ("float16", "float32", "float64"),
    ("bfloat16", "float32", "float64"),
)


def passes_on(view: KernelView, node: Node) -> bool:
    """Whether a node only copies numbers or rounds them to a float; to integers they are cut off, which computes."""
    if operation_of(node) not in CONVERSIONS:
        return False
    return node["dtype"] in FLOATS or all(_same_numbers(view.nodes[name], node) for name in node["inputs"])


def _same_numbers(given: Node, node: Node) -> bool:
    """Whether what copies, converts, views or takes a part of a result has its very numbers."""
    before, after = given["dtype"], node["dtype"]
    if before is None or before == after:  # several results have no dtype together
        return True
    if operation_of(node) not in CONVERSIONS:  # the same bits, seen as another dtype
        return False
    return any(before in widths[: widths.index(after)] for widths in WIDER if after in widths)


@dataclass(frozen=True)
class Whole:
    """A known computation in a kernel.

    `name` along `axes`, counted from 0, of what the node `fed_by` holds, whose `size` they are of, into the node
    `result`; `alone` if the kernel computes nothing else.
    """

    name: str
    axes: tuple[int, ...]
    size: tuple[int | str, ...]
    fed_by: str
    result: str
    alone: bool


def named_whole(view: KernelView) -> Whole | None:
    """What the kernel's operations are together, the last such thing in it; None where they are nothing known."""
    graph = _Graph(view)
    for node in reversed(view.fused):
        for name, recognise in WHOLES.items():
            found = recognise(graph, node)
            if found and (axes := graph.axes(found[1])):
                rest = {one["name"] for one in view.fused if not passes_on(view, one)}
                parts = graph.made_of(node) - graph.made_of(found[0])
                size = tuple(found[0]["size"] or ())
                # LayerNorm's axes are the last ones; along others the same is only to standardise
                last = tuple(range(len(size)))[-len(axes) :]
                named = "standardise" if name == "layer_norm" and axes != last else name
                return Whole(named, axes, size, found[0]["name"], node["name"], rest <= parts)
    return None


def _step(view: KernelView, step: dict) -> str:
    key = f"headline.operations.{step['name']}"
    name = view.words(key) if key in view.words else f"`{step['name']}`"
    name = view.words("headline.rest", name=name) if step["finished"] else name
    return name if step["many"] == 1 else view.words("headline.times", name=name, count=step["many"])


def _axes(view: KernelView, whole: Whole) -> str:
    size = "x".join(str(length) for length in whole.size)
    if whole.axes == (len(whole.size) - 1,):
        return view.words("headline.last_axis", size=size)
    key = "headline.axis" if len(whole.axes) == 1 else "headline.axes"
    return view.words(key, axes=", ".join(str(axis) for axis in whole.axes), size=size)


class _Graph:
    """The kernel's graph, walked against the data's flow, through what leaves each number as it is.

    That is views, copies, conversions to a wider dtype and parts of a result.
    """

    def __init__(self, view: KernelView) -> None:
        self.view, self.inside = view, {node["name"] for node in view.fused}
        self.text = view.pane(view.graph["panes"]["aten"])

    def inputs(self, node: Node) -> list[Node]:
        """What a node is computed from, whatever the shape in which it sees it."""
        return [self.through(self.view.nodes[name]) for name in node["inputs"]]

    def operands(self, node: Node) -> list[Node]:
        """The same in the shape in which the node sees it, so that its axes are those of its operands."""
        return [self.through(self.view.nodes[name], views=False) for name in node["inputs"]]

    def through(self, node: Node, views: bool = True) -> Node:
        while len(node["inputs"]) == 1 and (operation_of(node) in CONVERSIONS or (views and node["fate"] == "view")):
            given = self.view.nodes[node["inputs"][0]]
            if not _same_numbers(given, node):
                break
            node = given
        return node

    def before(self, node: Node) -> list[Node]:
        """The kernel's nodes that a node takes results of, directly or through what the kernel does not compute."""
        found: list[Node] = []
        waiting, seen = [*node["inputs"]], set()
        while waiting:
            given = self.view.nodes[waiting.pop()]
            if given["name"] in self.inside:
                found.append(given)
            elif given["name"] not in seen and given["fate"] in WITHOUT_CODE:
                seen.add(given["name"])
                waiting += given["inputs"]
        return found

    def spread(self, node: Node, position: int, x: Node, reduced: Node) -> bool:
        """Whether what a node takes at a position has one value for each of `x` along the axes of a reduction."""
        size, axes = self.view.nodes[node["inputs"][position]]["size"], self.along(reduced)
        return size == [1 if axis in axes else length for axis, length in enumerate(x["size"] or [])]

    def made_of(self, node: Node) -> set[str]:
        """A node and all in the kernel that it is computed from."""
        found, waiting = set(), [node]
        while waiting:
            one = waiting.pop()
            if one["name"] not in found:
                found.add(one["name"])
                waiting += [each for each in self.inputs(one) if each["name"] in self.inside]
        return found & self.inside

    def call(self, node: Node) -> str:
        """The line of the graph's text that calls a node's operation."""
        return self.text[(node["line"] or 1) - 1]

    def is_(self, node: Node, name: str) -> bool:
        return operation_of(node) == name and node["name"] in self.inside

    def axes(self, node: Node) -> tuple[int, ...]:
        """The axes that a reduction is along, counted from 0, without those of length 1."""
        size = self.operands(node)[0]["size"] or []
        return tuple(axis for axis in self.along(node) if size[axis] != 1) or self.along(node)

    def along(self, node: Node) -> tuple[int, ...]:
        """The axes that a reduction's call gives, counted from 0."""
        match = AXES.search(self.call(node))
        if not match:
            return ()
        rank = len(self.operands(node)[0]["size"] or [])
        return tuple(sorted(int(axis) % rank for axis in (match["list"] or match["one"]).split(", "))) if rank else ()


def _shifted(graph: _Graph, node: Node) -> tuple[Node, Node] | None:
    """(x, the node that found its maximum) of `x - max(x)`."""
    if not graph.is_(node, "sub") or len(node["inputs"]) != 2:
        return None
    x, most = graph.operands(node)[0], graph.inputs(node)[1]
    if operation_of(most) not in ("amax", "prepare_softmax_online") or most["name"] not in graph.inside:
        return None
    right = [one["name"] for one in graph.operands(most)] == [x["name"]] and graph.spread(node, 1, x, most)
    return (x, most) if right else None


def _exponential(graph: _Graph, node: Node) -> tuple[Node, Node] | None:
    """The same of `exp(x - max(x))`."""
    return _shifted(graph, graph.operands(node)[0]) if graph.is_(node, "exp") and node["inputs"] else None


def _sum_of(graph: _Graph, node: Node) -> tuple[Node, Node] | None:
    """The same of the sum of those exponentials, which an online reduction finds beside the maximum."""
    if graph.is_(node, "prepare_softmax_online"):
        return graph.operands(node)[0], node
    if not graph.is_(node, "sum"):
        return None
    found = _exponential(graph, graph.operands(node)[0])
    return found if found and graph.along(found[1]) == graph.along(node) else None


def _softmax(graph: _Graph, node: Node) -> tuple[Node, Node] | None:
    if not graph.is_(node, "div") or len(node["inputs"]) != 2:
        return None
    upper, lower = _exponential(graph, graph.operands(node)[0]), _sum_of(graph, graph.inputs(node)[1])
    return _both(graph, node, upper, lower)


def _log_softmax(graph: _Graph, node: Node) -> tuple[Node, Node] | None:
    if not graph.is_(node, "sub") or len(node["inputs"]) != 2:
        return None
    log = graph.inputs(node)[1]
    upper = _shifted(graph, graph.operands(node)[0])
    lower = _sum_of(graph, graph.inputs(log)[0]) if graph.is_(log, "log") else None
    return _both(graph, node, upper, lower)


def _both(graph: _Graph, node: Node, upper: tuple | None, lower: tuple | None) -> tuple[Node, Node] | None:
    """What both operands of a softmax's last step come from, if that is the same and the second is spread along it."""
    if not upper or not lower or upper[0]["name"] != lower[0]["name"]:
        return None
    return upper if graph.spread(node, 1, *upper) else None


def _rsqrt(graph: _Graph, node: Node, reduction: str) -> Node | None:
    """The reduction in `rsqrt(reduction + a number)`."""
    if not graph.is_(node, "rsqrt"):
        return None
    (inner,) = graph.inputs(node)
    found = graph.inputs(inner)[0] if graph.is_(inner, "add") and len(inner["inputs"]) == 1 else None
    return found if found and graph.is_(found, reduction) else None


def _layer_norm(graph: _Graph, node: Node) -> tuple[Node, Node] | None:
    if not graph.is_(node, "mul") or len(node["inputs"]) != 2:
        return None
    centred, moments = graph.operands(node)[0], _rsqrt(graph, graph.inputs(node)[1], "var_mean")
    if moments is None or not graph.is_(centred, "sub") or len(centred["inputs"]) != 2:
        return None
    if "correction = 0" not in graph.call(moments):  # the variance of a sample is another
        return None
    x, mean = graph.operands(centred)[0], graph.inputs(centred)[1]
    right = mean["name"] == moments["name"] and graph.operands(moments)[0]["name"] == x["name"]
    spread = graph.spread(centred, 1, x, moments) and graph.spread(node, 1, x, moments)
    return (x, moments) if right and spread else None


def _rms_norm(graph: _Graph, node: Node) -> tuple[Node, Node] | None:
    if not graph.is_(node, "mul") or len(node["inputs"]) != 2:
        return None
    x, mean = graph.operands(node)[0], _rsqrt(graph, graph.inputs(node)[1], "mean")
    square = graph.operands(mean)[0] if mean else None
    if mean is None or square is None or not graph.is_(square, "pow") or not SQUARE.search(graph.call(square)):
        return None
    right = graph.operands(square)[0]["name"] == x["name"] and graph.spread(node, 1, x, mean)
    return (x, mean) if right else None


# each gives what it was fed and the reduction that shows its axes
WHOLES = {"softmax": _softmax, "log_softmax": _log_softmax, "layer_norm": _layer_norm, "rms_norm": _rms_norm}
