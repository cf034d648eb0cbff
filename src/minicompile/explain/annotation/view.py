"""One kernel call of a capture, looked at from all sides: its text, its scheduler nodes, its ATen nodes, their source.

A capture keeps every text once and ties lines by number (schemas/capture.schema.yaml); this resolves those numbers
for the kernel that is to be explained. Nothing here knows what any operation means. Facts about the
kernel are told in the view's `words`.
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

from minicompile.explain.evidence import Fact, Kind, of_call
from minicompile.explain.wording import Wording
from minicompile.lowering.by_values import MOVES, is_verified
from minicompile.lowering.captured import Call, CallValues, Capture, Graph, Node, SchedulerNode, is_one_result
from minilab.pages.translations import Translations

COMPUTED = {"materialised", "fused away", "inlined"}  # fates of nodes that a generated kernel computes
IR_ACCESS = re.compile(r"= ops\.(?:load|load_seed|store|store_reduction|atomic_add)\('(?P<buffer>\w+)', (?P<index>\w+)")
IR_SEARCH = re.compile(r"= ops\.bucketize\((?P<given>.*)\)$")
IR_SEARCHED = re.compile(r"\('(\w+)', ")
IR_INDEX = re.compile(r"^\s*(?P<variable>\w+) = self\.get_index\('(?P<name>\w+)'\)")
READS, WRITES = {"load", "load_seed"}, {"store", "store_reduction", "atomic_add"}
FILL = re.compile(r"aten\.(?:(?:new_|_)?(?:full|zeros|ones|empty)(?:_like)?|fill|scalar_tensor)\b")
ALIAS = re.compile(r"^\s*auto (?P<alias>\w+) = (?P<pointer>\w+);$")


@dataclass(frozen=True)
class Operation:
    """One operation of a loop body: the scheduler node that it is of, and which ATen node it comes from."""

    node: SchedulerNode
    operation: str
    producer: str | None
    ir_line: int | None


def _fills(node: SchedulerNode) -> bool:
    """Whether a loop only stores a constant: it prepares memory, of whatever operation Inductor counts it to."""
    operations = {one["operation"] for one in node["operations"]}
    return "store" in operations and operations <= {"constant", "store", "to_dtype"}


class KernelView:
    """A call of a generated kernel within its graph.

    Args:
        capture: the whole capture.
        graph: one of its graphs.
        call: one of that graph's calls, of a kernel whose text the capture holds.
        reader: the language that it is explained in.
    """

    def __init__(self, capture: Capture, graph: Graph, call: Call, reader: str = "en") -> None:
        self.capture, self.graph, self.call = capture, graph, call
        self.reader, self.words = reader, Translations("minicompile.explain", "annotation", reader)
        self.kernel = next(kernel for kernel in graph["kernels"] if kernel["name"] == call["kernel"])
        self.nodes = {node["name"]: node for node in graph["nodes"]}
        self.buffers = {buffer["name"]: buffer for buffer in graph["buffers"]}
        self.scheduler_nodes = [node for node in graph["scheduler_nodes"] if node["name"] in call["scheduler_nodes"]]
        self._panes = {pane["id"]: pane for pane in capture["panes"]}
        self.code = self.pane(graph["panes"]["code"])

    @property
    def values(self) -> CallValues | None:
        """What was found of the call by its values."""
        return self.call["values"] if is_verified(self.call) else None

    @property
    def evidence(self) -> Kind:
        """What shows which ATen nodes the kernel computes."""
        return of_call(self.call)

    def said(self, key: str, evidence: Kind | None = None, **fields: object) -> Fact:
        """A sentence about the kernel, with what shows it: what shows the kernel's nodes, unless told otherwise."""
        return Fact(self.words(key, **fields), evidence or self.evidence)

    def told(self, fact: Fact | None, under: Kind = "values") -> str:
        """A fact in the words of its evidence."""
        return Wording(self.reader).told(fact, under=under)

    @property
    def lines(self) -> list[tuple[int, str]]:
        """(number in the code pane, text) of each of the kernel's lines."""
        first, last = self.kernel["first"], self.kernel["last"]
        return list(enumerate(self.code[first - 1 : last], first))

    def pane(self, name: str) -> list[str]:
        """The lines of a pane."""
        return self._panes[name]["lines"]

    def within(self, buffer: str) -> str | None:
        """The branch or loop body that a buffer belongs to, None where it is the graph itself."""
        inner = {name.rpartition(".")[0] for name in self.nodes if "." in name}
        return max((name for name in inner if buffer.startswith(f"{name}_")), key=len, default=None)

    @cached_property
    def symbolic(self) -> bool:
        """Whether a size in the graph is a symbol."""
        return any(isinstance(size, str) for node in self.graph["nodes"] for size in node["size"] or ())

    @cached_property
    def only_copies(self) -> bool:
        """Whether all that the kernel's loops do is to load and store."""
        loops = [[one["operation"] for one in node["operations"]] for node in self.scheduler_nodes]
        return bool(loops) and all(one == ["load", "store"] for one in loops)

    @property
    def parameters(self) -> dict[str, str]:
        """What the wrapper hands to each of the kernel's parameters."""
        return {name: value for name, value in self.call["arguments"] if name and value}

    @cached_property
    def readers(self) -> dict[str, list[Node]]:
        """The ATen nodes that take a node's result, by its name, in the graph's order."""
        found: dict[str, list[Node]] = defaultdict(list)
        for node in self.graph["nodes"]:
            for name in dict.fromkeys(node["inputs"]):
                found[name].append(node)
        return dict(found)

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Other names that the kernel's text gives its pointers."""
        matches = (ALIAS.match(text) for _, text in self.lines)
        return {match["alias"]: match["pointer"] for match in matches if match and match["pointer"] in self.parameters}

    @cached_property
    def written(self) -> set[str]:
        """Buffers that the kernel's own scheduler nodes produce."""
        return {buffer for node in self.scheduler_nodes for buffer in node["buffers"]}

    @cached_property
    def templates(self) -> list[SchedulerNode]:
        """The scheduler nodes whose work is in a template of torch's, of whose lines Inductor knows no operation."""
        return [node for node in self.scheduler_nodes if node["template"]]

    @cached_property
    def fused(self) -> list[Node]:
        """The ATen nodes that the kernel computes whole, in the graph's order; views and what is folded aside.

        By values these are the nodes whose numbers its lines have first, or once more, without having loaded them.
        """
        if self.values is not None:
            names = {*self.values["computes"], *self.values["again"]}
            return [node for node in self.graph["nodes"] if node["name"] in names and not self._is_view(node)]
        producers = {*self._producers}
        if not any(one["emitted"] for node in self.scheduler_nodes for one in node["operations"]):  # linked as a whole
            producers = set(self.call["aten_nodes"])
        producers |= {name for node in self.templates for name in node["aten_nodes"]}
        return [
            node
            for node in self.graph["nodes"]
            if node["name"] in producers and (node["fate"] in COMPUTED or node["name"] in self.finished)
        ]

    @cached_property
    def _producers(self) -> set[str]:
        """The ATen nodes that Inductor wrote the kernel's lines for, without those for which it only moves memory.

        Memory is prepared for a scatter, and sorted positions, which were found elsewhere, are loaded.
        """
        own = [(one, _fills(node)) for node in self.scheduler_nodes for one in node["operations"] if one["emitted"]]
        inside = {node["name"] for node in self.scheduler_nodes}
        found_elsewhere = {
            one["producer"]
            for node in self.graph["scheduler_nodes"] if node["name"] not in inside
            for one in node["operations"] if one["operation"] not in MOVES
        } - {one["producer"] for one, _ in own if one["operation"] not in MOVES}  # fmt: skip
        found = {
            name
            for one, fills in own
            if (name := one["producer"]) in self.nodes
            and not (fills and not FILL.match(self.nodes[name]["target"]))
            and name not in found_elsewhere
        }
        return found

    @cached_property
    def finished(self) -> set[str]:
        """Of what the kernel computes, what a library's call has begun: a convolution, whose bias is added here."""
        if self.values is not None:
            return {*self.values["finishes"]}
        read = {one["buffer"] for node in self.scheduler_nodes for one in node["reads"]}
        begun = {
            name
            for node in self.graph["scheduler_nodes"]
            if node["extern"] and read & {*node["buffers"]}
            for name in node["aten_nodes"]
        }
        works = {
            one["producer"]
            for node in self.scheduler_nodes
            for one in node["operations"]
            if one["emitted"] and one["operation"] not in MOVES
        }
        return {name for name in begun & works & self._producers if self.nodes[name]["fate"] == "extern call"}

    @cached_property
    def only_fills(self) -> bool:
        """Whether all that the kernel's loops do is to store a constant."""
        return bool(self.scheduler_nodes) and all(map(_fills, self.scheduler_nodes))

    def _is_view(self, node: Node) -> bool:
        return node["op"] != "call_function" or node["fate"] == "view"

    @cached_property
    def unfinished(self) -> list[tuple[Node, str]]:
        """The ATen nodes of which the kernel has a part alone, by values, each with what part it is."""
        parts = self.values["parts"] if self.values is not None else []
        return [(self.nodes[one["node"]], one["part"]) for one in parts if not self._is_view(self.nodes[one["node"]])]

    @cached_property
    def unfound(self) -> list[Node]:
        """The ATen nodes for which Inductor wrote a line that has no node's values, in a kernel that was run.

        Such are a product and a sum that are one instruction, and what another kernel goes on with.
        """
        if self.values is None:
            return []
        has = {one["line"]: {*one["nodes"]} for one in self.values["lines"]}
        known = {node["name"] for node in (*self.fused, *(one for one, _ in self.unfinished))}
        names = {
            one.producer
            for line, operations in self.operations.items()
            for one in operations
            if one.operation not in MOVES and one.producer not in has.get(line, ())
        } & self._producers
        names |= {name for node in self.templates for name in node["aten_nodes"]}  # of whose lines none is for it
        return [
            node
            for node in self.graph["nodes"]
            if node["name"] in names - known and (node["fate"] in COMPUTED or node["name"] in self.finished)
        ]

    @cached_property
    def incomplete(self) -> bool:
        """Whether a kernel that was run does more than the nodes that it is said to compute whole.

        It has lines or leaves memory of which no node's values were found, or of a node a part alone.
        """
        if self.values is None:
            return False
        stored = all(one["nodes"] for one in self.values["stores"])
        return bool(self.unfound or self._unnamed or (self.fused and self.unfinished)) or not stored

    @cached_property
    def _unnamed(self) -> bool:
        """Whether a line was written for an operation that is not among those which the kernel is said to compute."""
        named = {node["name"] for node in self.fused}
        named |= {one["name"] for node in self.fused for one in self.results(node)}
        has = {one["line"]: {*one["nodes"]} for one in self.values["lines"]} if self.values is not None else {}
        return any(
            one.operation not in (*MOVES, "to_dtype") and one.producer in self.nodes
            and one.producer not in named and not has.get(line, set()) & named
            and self.nodes[one.producer]["fate"] != "extern call"  # a library's, of which lines may do the rest
            for line, operations in self.operations.items() for one in operations
        )  # fmt: skip

    def is_found(self, node: Node) -> bool:
        """Whether an operation's result was found by its values, wherever that was."""
        return any("by" in one for one in (node, *self.results(node)))

    def results(self, node: Node) -> list[Node]:
        """The nodes that take an operation's several results."""
        return [one for one in self.readers.get(node["name"], ()) if is_one_result(one, self.nodes)]

    @cached_property
    def views(self) -> list[Node]:
        """Views through which the kernel's operations read what they are given: they cost no code but change indices.

        What takes one of several results is none, unless these are views themselves, as those of a split.
        """
        found: set[str] = set()
        waiting = [name for node in self.fused for name in node["inputs"]]
        while waiting:
            node = self.nodes[waiting.pop()]
            if node["fate"] == "view" and node["name"] not in found:
                found |= {node["name"]}
                waiting += node["inputs"]
        return [
            node
            for node in self.graph["nodes"]
            if node["name"] in found and node["fate"] == "view" and not is_one_result(node, self.nodes)
        ]

    @cached_property
    def operations(self) -> dict[int, list[Operation]]:
        """By line of the code pane, the operations of this call that Inductor wrote there."""
        # line 0, which no pane has, where the capture does not know the line
        by_ir_line: dict[int, list[Operation]] = defaultdict(list)
        for node in self.scheduler_nodes:
            for one in node["operations"]:
                made = Operation(node, one["operation"], one["producer"], one["line"])
                by_ir_line[one["line"] or 0].append(made)
        found: dict[int, list[Operation]] = defaultdict(list)
        for ir_line, line in self._pairs(self.graph["panes"]["ir_after"], self.graph["panes"]["code"], "operation"):
            if self.kernel["first"] <= line <= self.kernel["last"]:
                found[line] += by_ir_line.get(ir_line, [])
        return {line: operations for line, operations in found.items() if operations}

    def access(self, operation: Operation) -> tuple[str, str] | None:
        """(buffer, element in the loop body's own variables) of a load or store; None where the IR does not say."""
        if operation.ir_line is None:
            return None
        ir = self.pane(self.graph["panes"]["ir_after"])
        match = IR_ACCESS.search(ir[operation.ir_line - 1])
        if not match:
            return None
        if match["index"].isdigit():  # a seed's place
            return match["buffer"], match["index"]
        for text in reversed(ir[: operation.ir_line - 1]):
            if (index := IR_INDEX.match(text)) and index["variable"] == match["index"]:
                found = operation.node["indexing"].get(index["name"])
                return (match["buffer"], found) if found else None
        return None

    def content(self, operation: Operation, buffer: str) -> str:
        """The name of what an operation finds or leaves in a buffer: one that is changed gets a new name."""
        read = {one["buffer"] for one in operation.node["reads"]}
        if operation.operation in WRITES:
            makers = [operation.node]
        elif buffer in read:
            return buffer
        else:
            makers = [one for one in reversed(self.graph["scheduler_nodes"]) if read & {*one["buffers"]}]
        return next((name for one in makers if buffer in one["changes"] for name in one["buffers"]), buffer)

    def searched(self, operation: Operation) -> list[str]:
        """The buffers that a binary search goes through: the boundaries, and where they are not sorted their order."""
        if operation.ir_line is None:
            return []
        match = IR_SEARCH.search(self.pane(self.graph["panes"]["ir_after"])[operation.ir_line - 1])
        return IR_SEARCHED.findall(match["given"]) if match else []

    def users(self, name: str) -> list[Node]:
        """ATen nodes that read a node's result, directly or through views of it."""
        found: list[Node] = []
        for node in self.graph["nodes"]:
            if name in node["inputs"]:
                found += self.users(node["name"]) if node["fate"] == "view" else [node]
        return found

    def source(self, name: str) -> list[dict]:
        """Lines of the user's source that an ATen node comes from: `file`, `line`, `text`."""
        return self._source_lines.get(self.nodes[name]["line"] or 0, [])

    def dynamo_calls(self, name: str) -> set[int]:
        """Lines of Dynamo's graph that an ATen node comes from."""
        return self._dynamo_lines.get(self.nodes[name]["line"] or 0, set())

    @cached_property
    def _source_lines(self) -> dict[int, list[dict]]:
        found = defaultdict(list)
        for link in self.capture["links"]:
            if link["kind"] == "source" and link["to"] == self.graph["panes"]["aten"]:
                pane = self._panes[link["from"]]
                file = pane["title"]["file"]
                for line, node in link["pairs"]:
                    found[node].append({"file": file, "line": line, "text": pane["lines"][line - 1].strip()})
        return found

    @cached_property
    def _dynamo_lines(self) -> dict[int, set[int]]:
        found = defaultdict(set)
        for line, node in self._pairs(f"dynamo.{self.graph['index']}", self.graph["panes"]["aten"], "node"):
            found[node].add(line)
        return found

    def _pairs(self, first: str, second: str, kind: str) -> list[list[int]]:
        between = (link for link in self.capture["links"] if (link["from"], link["to"]) == (first, second))
        return [pair for link in between if link["kind"] == kind for pair in link["pairs"]]
