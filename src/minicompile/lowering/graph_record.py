"""One compiled graph of a capture: panes from ATen to kernels, and the links between them.

Works on the plain data of a `torch_internals.session.Session`; nothing of torch is touched here.
"""

import re
from collections import defaultdict

from minicompile.lowering.fates import fate
from minicompile.lowering.fusion_reasons import sentence
from minicompile.lowering.generated_code import STRUCTURE, arguments, kernel_spans, operation_lines
from minicompile.lowering.panes import Panes, definition_lines, stacked

STORES = ("store", "store_reduction")


class GraphRecord:
    """Builds the record of one lowered graph and adds its panes and links."""

    def __init__(self, panes: Panes, lowered: dict) -> None:
        self.panes, self.lowered = panes, lowered
        self.direction = "backward" if lowered["backward"] else "forward"
        self.id = f"{lowered['index']}.{self.direction}"
        self.code = lowered["code"].rstrip("\n").split("\n")
        self.nodes = {node["name"]: node for node in lowered["scheduler_nodes"]}
        self.buffers = {buffer["node"]: buffer for buffer in lowered["buffers"] if buffer["node"]}
        self._assign_aten_nodes()
        self._add_panes()
        self.kernels = self._kernels()
        self.calls = self._calls()

    def _assign_aten_nodes(self) -> None:
        """Each scheduler node's own ATen nodes: Inductor's `origins` reach back over what other nodes compute."""
        owners: dict[str, set[str]] = defaultdict(set)
        made_by = {buffer: name for name, node in self.nodes.items() for buffer in node["buffers"]}
        for name, node in self.nodes.items():
            for operation in node["operations"]:
                owners[operation["producer"]].add(name)
        for origin, buffer in self.buffers.items():
            if buffer["name"] in made_by:
                owners[origin].add(made_by[buffer["name"]])
        for name, node in self.nodes.items():
            own = {producer for producer, names in owners.items() if producer and name in names}
            own |= {one for one in node["origins"] if one not in owners}
            node["aten_nodes"] = sorted(own) or node["origins"]  # a convolution shares its node with its layout copies

    def _add_panes(self) -> None:
        def pane(kind: str, title: str, language: str, lines: list[str]) -> str:
            return self.panes.add(f"{kind}.{self.id}", kind, title, language, lines, self.id)

        what = "" if self.direction == "forward" else ", backward"
        lines = self.lowered["aten"]["text"].rstrip().splitlines()
        self.aten = pane("aten", f"ATen graph as Inductor lowers it{what}", "python", lines)
        self.aten_line = definition_lines(lines)
        lines, self.before_line = stacked((node["name"], node["text"]) for node in self.lowered["ir_before"])
        self.ir_before = pane("ir_before", f"Inductor's IR before fusion{what}", "python", lines)
        lines, self.after_line = stacked((node["name"], node["text"]) for node in self.nodes.values())
        self.ir_after = pane("ir_after", f"Inductor's IR after fusion{what}", "python", lines)
        self.groups = pane("groups", f"Scheduler groups{what}", "text", self._group_lines())
        self.code_pane = pane("code", f"Wrapper and kernels{what}", "python", self.code)
        for name, line in self.before_line.items():
            self.panes.link("node", self.ir_before, line, self.ir_after, self.after_line.get(name))
        for node in self.nodes.values():
            self._link_node(node)

    def _link_node(self, node: dict) -> None:
        name, aten = node["name"], self.aten_line
        for origin in node["aten_nodes"]:
            self.panes.link("node", self.aten, aten.get(origin), self.ir_before, self.before_line.get(name))
            self.panes.link("node", self.aten, aten.get(origin), self.ir_after, self.after_line[name])
        self.panes.link("node", self.ir_after, self.after_line[name], self.groups, self.node_line[name])
        places = operation_lines(node["text"])
        for operation in node["operations"]:
            offset = places.get((operation["block"], operation["name"]))
            operation["line"] = None if offset is None else self.after_line[name] + offset
            producer = aten.get(operation["producer"])
            self.panes.link("operation", self.aten, producer, self.ir_after, operation["line"])

    def _group_lines(self) -> list[str]:
        lines, self.node_line, self.group_line = [], {}, {}
        for number, group in enumerate(self.lowered["groups"]):
            members = [self.nodes[member] for member in group["members"]]
            self.group_line[number] = len(lines) + 1
            lines.append(f"group {number}: {', '.join(group['members'])}  ({group['kind']}, {group['bytes']} bytes)")
            for node in members:
                self.node_line[node["name"]] = len(lines) + 1
                lines.append("    " + describe(node))
        return lines

    def _kernels(self) -> list[dict]:
        spans, defined = kernel_spans(self.code), defaultdict(list)
        for definition in self.lowered["definitions"]:
            defined[definition.name].append(definition)
        kernels = []
        for name, span in spans.items():
            first, last = span["first"], span["last"]
            tied: set[int] = set()
            exact = bool(defined[name])
            for definition in defined[name]:
                exact &= self._link_lines(definition, first, last, tied)
            body = [line for line in range(first, last + 1) if not STRUCTURE.match(self.code[line - 1])]
            nodes = list(dict.fromkeys(member for made in defined[name] for member in made.scheduler_nodes))
            kernels.append(
                {
                    "name": name,
                    **span,
                    "granularity": "operation" if exact and tied else "kernel",
                    "scheduler_nodes": nodes,
                    "reductions": [
                        self.nodes[node]["reduction_type"] for node in nodes if self.nodes[node]["is_reduction"]
                    ],
                    "lines": len(body),
                    "lines_tied": len(tied & set(body)),
                    "assembly": None,
                }
            )
        return kernels

    def _link_lines(self, definition, first: int, last: int, tied: set[int]) -> bool:
        """Link the tagged lines of one definition of a kernel; False where the emitted text is not the defined one."""
        for index, operation in definition.operations:
            line = first + index
            if line > last or definition.source[index].strip() != self.code[line - 1].strip():
                return False
            found = [one for one in self.nodes[operation.scheduler_node]["operations"] if one["name"] == operation.name]
            found = [one for one in found if one["identity"] == operation.block] or found
            for one in found:
                one["emitted"] = True
                self.panes.link("operation", self.ir_after, one["line"], self.code_pane, line)
                self.panes.link("operation", self.aten, self.aten_line.get(one["producer"]), self.code_pane, line)
                tied.add(line)
        return True

    def _calls(self) -> list[dict]:
        spans = {kernel["name"]: kernel for kernel in self.kernels}
        group_of = {member: n for n, group in enumerate(self.lowered["groups"]) for member in group["members"]}
        calls = []
        for number, call in enumerate([*self.lowered["calls"], *self._unmarked_calls()]):
            nodes, line = [node for node in call["scheduler_nodes"] if node in self.nodes], call["line"]
            aten = sorted({origin for node in nodes for origin in self.nodes[node]["aten_nodes"]})
            groups = sorted({group_of[node] for node in nodes})
            kernel = spans.get(call["kernel"])
            for name in aten:
                self.panes.link("call", self.aten, self.aten_line.get(name), self.code_pane, line)
            for group in groups:
                self.panes.link("call", self.groups, self.group_line[group], self.code_pane, line)
            for node in nodes:
                self.panes.link("call", self.groups, self.node_line[node], self.code_pane, line)
            if kernel:
                self.panes.link("define", self.code_pane, line, self.code_pane, kernel["first"])
            calls.append(
                {
                    "id": f"{self.id}.{number}",
                    "kernel": call["kernel"],
                    "extern": kernel is None,
                    "line": line,
                    "arguments": self._arguments(line, kernel),
                    "scheduler_nodes": nodes,
                    "aten_nodes": aten,
                    "groups": groups,
                    "bytes": _sum(self.lowered["groups"][group]["bytes"] for group in groups),
                }
            )
        return calls

    def _unmarked_calls(self) -> list[dict]:
        """Calls of library kernels that Inductor does not mark.

        Memory that others fill, a concatenation's say, is linked to the line that allocates it.
        """
        called = {node for call in self.lowered["calls"] for node in call["scheduler_nodes"]}
        found = []
        for name, node in self.nodes.items():
            if name in called or node["operations"]:
                continue
            statement = re.compile(rf"^\s*(?:{'|'.join(node['buffers'])}) = ")
            line = next((number for number, text in enumerate(self.code, 1) if statement.match(text)), None)
            if node["extern"] and line:
                found.append({"kernel": node["extern"], "line": line, "scheduler_nodes": [name]})
            for origin in node["aten_nodes"]:
                self.panes.link("call", self.aten, self.aten_line.get(origin), self.code_pane, line)
        return found

    def _arguments(self, line: int, kernel: dict | None) -> list[list[str | None]]:
        """(the kernel's parameter, what the wrapper hands it) pairs; parameters of library calls are not named."""
        match = re.search(r"[\w.]+\((.*)\)", self.code[line - 1])
        given = arguments(match[1]) if match else []
        if kernel is None:
            return [[None, value] for value in given]
        body = "\n".join(self.code[kernel["first"] - 1 : kernel["last"]])
        if kernel["language"] == "cpp":
            start = body.find('extern "C"')
            names = [
                part.split()[-1].lstrip("*")
                for part in arguments(body[body.find("(", start) + 1 : body.find(")", start)])
            ]
        else:
            match = re.search(r"^def \w+\((.*?)\)", body, re.M | re.S)
            parameters = re.sub(r"#.*", "", match[1]) if match else ""
            names = [part.split(":")[0].strip() for part in arguments(parameters)]
        return [[names[i] if i < len(names) and "=" not in value else None, value] for i, value in enumerate(given)]

    def record(self) -> dict:
        """The graph's entry in the capture."""
        lowered = self.lowered
        buffers = self.buffers
        producers = {one["producer"] for node in self.nodes.values() for one in node["operations"]}
        removed = {buffer["name"] for buffer in lowered["buffers"] if buffer["removed"]}
        stored = {
            one["producer"]
            for node in self.nodes.values()
            if not {write["buffer"] for write in node["writes"]} <= removed
            for one in node["operations"]
            if one["operation"] in STORES
        }
        opaque = [node for node in self.nodes.values() if node["extern"] or node["user_triton"]]
        extern = {origin for node in opaque for origin in node["aten_nodes"]}
        return {
            "id": self.id,
            "index": lowered["index"],
            "direction": self.direction,
            "inference": lowered["inference"],
            "panes": {
                "aten": self.aten,
                "ir_before": self.ir_before,
                "ir_after": self.ir_after,
                "groups": self.groups,
                "code": self.code_pane,
            },
            "nodes": [
                {
                    **{
                        key: node[key]
                        for key in ("name", "op", "target", "inputs", "size", "dtype", "bytes", "lowering")
                    },
                    "line": self.aten_line.get(node["name"]),
                    "fate": fate(node, buffers, extern, producers, stored) if node["op"] == "call_function" else None,
                    "buffer": buffers[node["name"]]["name"] if node["name"] in buffers else None,
                }
                for node in lowered["aten"]["nodes"]
            ],
            "buffers": lowered["buffers"],
            "scheduler_nodes": [self._scheduler_node(node) for node in self.nodes.values()],
            "groups": [
                {
                    "line": self.group_line[number],
                    "kind": group["kind"],
                    "members": group["members"],
                    "bytes": group["bytes"],
                }
                for number, group in enumerate(lowered["groups"])
            ],
            "decisions": [
                {**decision, "sentence": sentence(decision["taken"], decision["reasons"])}
                for decision in lowered["decisions"]
            ],
            "kernels": self.kernels,
            "calls": self.calls,
        }

    def _scheduler_node(self, node: dict) -> dict:
        kept = {key: value for key, value in node.items() if key not in ("text", "operations")}
        operations = [
            {key: one[key] for key in ("name", "operation", "producer", "line")}
            | {"emitted": one.get("emitted", False)}
            for one in node["operations"]
            if one["operation"] != "output"
        ]
        lines = {"before": self.before_line.get(node["name"]), "after": self.after_line[node["name"]]}
        return {**kept, "lines": {**lines, "groups": self.node_line[node["name"]]}, "operations": operations}


def describe(node: dict) -> str:
    """A scheduler node in a line: what it does, reads and writes."""
    what = f"{node['reduction_type']} reduction" if node["is_reduction"] else node["extern"] or node["computes"]
    reads = ", ".join(dict.fromkeys(read["buffer"] for read in node["reads"]))
    writes = ", ".join(dict.fromkeys(write["buffer"] for write in node["writes"]))
    return f"{node['name']}: {what or node['kind']}, {reads or 'nothing'} -> {writes or 'nothing'}"


def _sum(values) -> int | None:
    values = list(values)
    return sum(values) if all(isinstance(value, int) for value in values) else None
