"""One compiled graph of a capture: panes from ATen to kernels, and the links between them.

Works on the plain data of a `Watched`, which it leaves as it is.
"""

import re
from collections import defaultdict
from typing import Any, cast

from minicompile.lowering.by_values import with_values
from minicompile.lowering.captured import (
    Buffer,
    Call,
    Decision,
    Direction,
    Graph,
    Group,
    Kernel,
    Node,
    SchedulerNode,
    SubgraphCall,
)
from minicompile.lowering.fusion_reasons import Given, reason
from minicompile.lowering.inner_graphs import CALLS, graphs_called, owners_of_lines, runs, turns
from minicompile.lowering.outcomes import (
    attributed,
    contents,
    copies,
    fates,
    handed_to_none,
    own_aten_nodes,
    without_stores,
)
from minicompile.lowering.panes.panes import Panes
from minicompile.lowering.panes.printed_text import (
    STRUCTURE,
    arguments,
    definition_lines,
    helper_lines,
    operation_lines,
    parameter_names,
    stacked,
)
from minicompile.watching.output_code import code_lines, kernel_spans

NODE = ("name", "op", "target", "inputs", "size", "stride", "dtype", "bytes", "lowering")


class BuiltGraph:
    """One lowered graph with its entry in the capture.

    Attributes:
        graph: the entry.
        panes: its panes with the links between them.
        aten_line: the line of each ATen node.

    Args:
        lowered: one of a `Watched`'s, which stays as it is.
    """

    def __init__(self, lowered: dict[str, Any]) -> None:
        # the conclusions first, for everything below speaks of what a buffer holds and which node stored it
        lowered = {**lowered, "buffers": contents(lowered), "scheduler_nodes": attributed(lowered)}
        self.panes, self.lowered = Panes(), lowered
        self.direction: Direction = "backward" if lowered["backward"] else "forward"
        self.id = f"{lowered['index']}.{self.direction}"
        self.code = code_lines(lowered["code"])
        self.nodes: dict[str, dict] = {node["name"]: node for node in lowered["scheduler_nodes"]}
        self.buffers = {buffer["node"]: buffer for buffer in lowered["buffers"] if buffer["node"]}
        self.aten_nodes = own_aten_nodes(lowered)
        self.removed = {buffer["name"] for buffer in lowered["buffers"] if buffer["removed"]}
        # by scheduler node and position in its loop body
        self.operation_line: dict[tuple[str, int], int | None] = {}
        self.emitted: set[tuple[str, int]] = set()
        self.tied_nodes: set[str] = set()  # scheduler nodes with such operations
        self.sites: list[SubgraphCall] = []
        self.within = owners_of_lines(self.code, lowered["aten"]["nodes"])
        self._add_panes()
        kernels = self._kernels()
        self._mark_removed(kernels)
        self.graph = with_values(self._entry(kernels, self._calls(kernels)), lowered)
        self._link_values()

    def _add_panes(self) -> None:
        def pane(kind: str, language: str, lines: list[str]) -> str:
            title = {"code": kind if self.direction == "forward" else f"{kind}_backward"}
            return self.panes.add(f"{kind}.{self.id}", kind, title, language, lines, self.id)

        lines = self.lowered["aten"]["text"].rstrip().splitlines()
        self.aten = pane("aten", "python", lines)
        self.aten_line = definition_lines(lines)
        lines, self.before_line = stacked((node["name"], node["text"]) for node in self.lowered["ir_before"])
        self.ir_before = pane("ir_before", "python", lines)
        lines, self.after_line = stacked((node["name"], node["text"]) for node in self.nodes.values())
        self.ir_after = pane("ir_after", "python", lines)
        self.groups = pane("groups", "text", self._group_lines())
        self.code_pane = pane("code", "python", self.code)
        for name, line in self.before_line.items():
            self.panes.link("node", self.ir_before, line, self.ir_after, self.after_line.get(name))
        for node in self.nodes.values():
            self._link_node(node)

    def _link_node(self, node: dict) -> None:
        loop, aten = node["name"], self.aten_line
        for origin in self.aten_nodes[loop]:
            self.panes.link("node", self.aten, aten.get(origin), self.ir_before, self.before_line.get(loop))
            self.panes.link("node", self.aten, aten.get(origin), self.ir_after, self.after_line[loop])
        self.panes.link("node", self.ir_after, self.after_line[loop], self.groups, self.node_line[loop])
        # a masked part of the body is a block of its own, in which the names of operations begin again
        places = operation_lines(node["text"])
        for position, operation in enumerate(node["operations"]):
            offset = places.get((operation["block"], operation["name"]))
            line = None if offset is None else self.after_line[loop] + offset
            self.operation_line[loop, position] = line
            for name in (operation["producer"], operation["result"]):
                self.panes.link("operation", self.aten, aten.get(name), self.ir_after, line)

    def _group_lines(self) -> list[str]:
        lines: list[str] = []
        self.node_line: dict[str, int] = {}
        self.group_line: dict[int, int] = {}
        for number, group in enumerate(self.lowered["groups"]):
            self.group_line[number] = len(lines) + 1
            lines.append(f"group {number}: {', '.join(group['members'])}  ({group['kind']})")
            for member in group["members"]:
                self.node_line[member] = len(lines) + 1
                lines.append("    " + describe(self.nodes[member]))
        return lines

    def _kernels(self) -> list[Kernel]:
        """The kernels of the code, each line linked to the operations that it was written for."""
        # groups whose kernels read alike share one, and each defined it with operations of its own
        spans, defined = kernel_spans(self.code), defaultdict(list)
        for definition in self.lowered["definitions"]:
            defined[definition["name"]].append(definition)
        kernels: list[Kernel] = []
        for name, span in spans.items():
            first, last = span["first"], span["last"]
            tied: set[int] = set()
            exact = bool(defined[name])
            for definition in defined[name]:
                exact &= self._link_lines(definition, first, last, tied)
            self._link_helpers(first, last, tied)
            body = [line for line in range(first, last + 1) if not STRUCTURE.match(self.code[line - 1])]
            members = list(dict.fromkeys(member for made in defined[name] for member in made["scheduler_nodes"]))
            nodes = [self.nodes[member] for member in members if member in self.nodes]
            kernels.append(
                {
                    "name": name,
                    "language": span["language"],
                    "first": first,
                    "last": last,
                    "granularity": "operation" if exact and tied else "kernel",
                    "scheduler_nodes": [node["name"] for node in nodes],
                    "reductions": [node["reduction_type"] for node in nodes if node["is_reduction"]],
                    "lines": len(body),
                    "lines_tied": len(tied & set(body)),
                    "assembly": None,
                }
            )
        return kernels

    def _link_lines(self, definition: dict, first: int, last: int, tied: set[int]) -> bool:
        """Link the tagged lines of one definition of a kernel; False where the emitted text is not the defined one."""
        for index, node, name, block in definition["operations"]:
            line = first + index
            # these are numbers of lines as they were written: in a text that was changed since, other lines have them
            if line > last or definition["source"][index].strip() != self.code[line - 1].strip():
                return False
            if node not in self.nodes:  # of a branch of torch.cond, which is a graph of its own
                continue
            loop = self.nodes[node]["operations"]
            named = [position for position, one in enumerate(loop) if one["name"] == name]
            same_block = [position for position in named if loop[position]["identity"] == block]
            # the block settles a name that several have; where it is not known, the line belongs to all of that name
            for position in same_block or named:
                self.emitted.add((node, position))
                self.tied_nodes.add(node)
                ir_line = self.operation_line[node, position]
                self.panes.link("operation", self.ir_after, ir_line, self.code_pane, line)
                for made in (loop[position]["producer"], loop[position]["result"]):
                    self.panes.link("operation", self.aten, self.aten_line.get(made), self.code_pane, line)
                tied.add(line)
        return True

    def _mark_removed(self, kernels: list[Kernel]) -> None:
        """Mark the buffers that no kernel stores, once it is known which operations have lines."""
        # the wrapper alone allocates and hands on: a name within a kernel is the kernel's own
        inside = {line for kernel in kernels for line in range(kernel["first"], kernel["last"] + 1)}
        wrapper = [text for line, text in enumerate(self.code, 1) if line not in inside]
        self.removed |= without_stores(self.lowered, self._is_emitted) | handed_to_none(self.lowered, wrapper)
        for buffer in self.lowered["buffers"]:
            buffer["removed"] |= buffer["name"] in self.removed

    def _link_helpers(self, first: int, last: int, tied: set[int]) -> None:
        """Link a function of the kernel's own to the operations of the line that hands it on, a scan."""
        for name, lines in helper_lines(self.code, first, last).items():
            # tl.associative_scan takes the function by name, and no operation is written on the function's own lines
            users = [line for line in sorted(tied) if re.search(rf"\b{name}\b", self.code[line - 1])]
            for line in lines if users else ():
                if self.code[line - 1].strip():
                    self.panes.link_alike(self.code_pane, users[0], line)
                    tied.add(line)

    def _link_values(self) -> None:
        """Link each line that has a node's values to that node, whoever Inductor wrote it for."""
        for call in self.graph["calls"]:
            for one in call["values"].get("lines", ()) if "values" in call else ():
                for name in one["nodes"]:
                    self.panes.link("operation", self.aten, self.aten_line.get(name), self.code_pane, one["line"])

    def _calls(self, kernels: list[Kernel]) -> list[Call]:
        """The wrapper's calls of kernels, each linked to what it runs, and how often where that is not once."""
        by_name = {kernel["name"]: kernel for kernel in kernels}
        group_of = {member: n for n, group in enumerate(self.lowered["groups"]) for member in group["members"]}
        calls: list[Call] = []
        marked = zip(self.lowered["calls"], self.lowered["traffic"], strict=True)
        unmarked = ((call, None) for call in self._unmarked_calls())
        for number, (call, traffic) in enumerate([*marked, *unmarked]):
            nodes, line = [node for node in call["scheduler_nodes"] if node in self.nodes], call["line"]
            aten = sorted({origin for node in nodes for origin in self.aten_nodes[node]})
            groups = sorted({group_of[node] for node in nodes})
            kernel = by_name.get(call["kernel"])
            for name in aten:
                self.panes.link("call", self.aten, self.aten_line.get(name), self.code_pane, line)
            for group in groups:
                self.panes.link("call", self.groups, self.group_line[group], self.code_pane, line)
            for node in nodes:
                self.panes.link("call", self.groups, self.node_line[node], self.code_pane, line)
            if kernel:
                self.panes.link("define", self.code_pane, line, self.code_pane, kernel["first"])
            given = self._arguments(line, kernel)
            made = {
                "id": f"{self.id}.{number}",
                "kernel": call["kernel"],
                "extern": kernel is None,
                "line": line,
                "arguments": given,
                "scheduler_nodes": nodes,
                "aten_nodes": aten,
                "groups": groups,
                **self._bytes(groups, kernel, traffic, [value for _, value in given if value]),
            }
            calls.append(cast(Call, made))
        for call in calls:
            if within := self.within.get(call["line"] or 0):
                call |= {"within": within, "runs": runs(self.sites, within)}
        return calls

    def _bytes(self, groups: list[int], kernel: Kernel | None, traffic: Any, given: list[str]) -> dict:
        """The bytes that a call moves, and what is known of them: `bytes_are` says which count it is.

        How much of a workspace it touches follows from its block size, which is chosen later.
        """
        spaces = [self.lowered["workspaces"][name] for name in given if name in self.lowered["workspaces"]]
        # a workspace is memory that the kernel reads and writes, and no loop of the scheduler's says so
        used = _sum(spaces)
        if kernel is not None and traffic is not None and used is not None:
            read, written = traffic["read_bytes"] + used, traffic["written_bytes"] + used
            are = "touched" if traffic["exact"] and not used else "at_most"
            return {"bytes": read + written, "read_bytes": read, "written_bytes": written, "bytes_are": are}
        # Inductor's own count, where no loops are known whose addresses could be counted: a library's call
        counted = _sum(self.lowered["groups"][group]["bytes"] for group in groups)
        known = None if counted is None else "counted"
        return {"bytes": counted, "read_bytes": None, "written_bytes": None, "bytes_are": known}

    def _unmarked_calls(self) -> list[dict]:
        """Calls of library kernels that Inductor does not mark.

        Memory that others fill, a concatenation's say, is linked to the line that allocates it.
        """
        called = {node for call in self.lowered["calls"] for node in call["scheduler_nodes"]}
        taken = {call["line"] for call in self.lowered["calls"]}
        found = []
        for name, node in self.nodes.items():
            if name in called or node["operations"]:
                continue
            line = self._statement(node, taken)
            taken.add(line)
            if node["kind"] in CALLS:
                # a library has no part in it, and what it moves, the calls within move
                self._add_site(node, line)
            elif node["extern"] and line:
                found.append({"kernel": node["extern"], "line": line, "scheduler_nodes": [name]})
            for origin in self.aten_nodes[name]:
                self.panes.link("call", self.aten, self.aten_line.get(origin), self.code_pane, line)
        return found

    def _add_site(self, node: dict, line: int | None) -> None:
        """The call of graphs within the graph, linked to what it runs as a kernel's call is."""
        made_for, graphs = graphs_called(node, {one["name"]: one for one in self.lowered["aten"]["nodes"]})
        kind, within = CALLS[node["kind"]], self.within.get(line or 0)
        site: SubgraphCall = {"kind": kind, "node": made_for, "line": line, "within": within, "graphs": graphs}
        if kind == "while_loop":
            site["turns"] = None if within else turns(self.lowered["aten"]["text"], made_for, graphs)
        self.sites.append(site)
        for number, group in enumerate(self.lowered["groups"]):
            if line and node["name"] in group["members"]:
                self.panes.link("call", self.groups, self.group_line[number], self.code_pane, line)
                self.panes.link("call", self.groups, self.node_line[node["name"]], self.code_pane, line)

    def _statement(self, node: dict, taken: set[int | None]) -> int | None:
        """The wrapper's line that makes a node's buffer, or the first free one that calls what changes one in place."""
        # a call that changes memory in place is assigned to nothing, so that its name is all there is to find
        makes, calls = rf"(?:{'|'.join(node['buffers'])}) = ", rf"{re.escape(node['extern'] or '')}\("
        for statement in (makes, calls) if node["extern"] else (makes,):
            lines = (number for number, text in enumerate(self.code, 1) if re.match(rf"\s*{statement}", text))
            # the same product twice stands on two lines, and each call takes one of them
            if line := next((number for number in lines if number not in taken), None):
                return line
        return None

    def _arguments(self, line: int, kernel: Kernel | None) -> list[list[str | None]]:
        """(the kernel's parameter, what the wrapper hands it) pairs; parameters of library calls are not named."""
        match = re.search(r"[\w.]+\((.*)\)", self.code[line - 1])
        given = arguments(match[1]) if match else []
        if kernel is None:
            return [[None, value] for value in given]
        # `stream=` and the like are the launcher's own and no parameters of the kernel
        names = parameter_names("\n".join(self.code[kernel["first"] - 1 : kernel["last"]]), kernel["language"])
        return [[names[i] if i < len(names) and "=" not in value else None, value] for i, value in enumerate(given)]

    def _entry(self, kernels: list[Kernel], calls: list[Call]) -> Graph:
        """The graph's entry in the capture."""
        return {
            "id": self.id,
            "index": self.lowered["index"],
            "direction": self.direction,
            "inference": self.lowered["inference"],
            "panes": {kind: f"{kind}.{self.id}" for kind in ("aten", "ir_before", "ir_after", "groups", "code")},
            "nodes": self._nodes(),
            "buffers": [cast(Buffer, dict(buffer)) for buffer in self.lowered["buffers"]],
            "scheduler_nodes": [self._scheduler_node(node) for node in self.nodes.values()],
            "groups": [
                cast(
                    Group,
                    {"line": self.group_line[number], **{key: group[key] for key in ("kind", "members", "bytes")}},
                )
                for number, group in enumerate(self.lowered["groups"])
            ],
            "decisions": self._decisions(calls),
            "kernels": kernels,
            "calls": calls,
            "subgraph_calls": self.sites,
        }

    def _decisions(self, calls: list[Call]) -> list[Decision]:
        """The fusions that were considered; of those that were refused, which came about all the same, by others."""
        together = [{*call["scheduler_nodes"]} for call in calls]
        given = Given(self.nodes, {node["name"]: node["text"] for node in self.lowered["ir_before"]})
        found = []
        for decision in self.lowered["decisions"]:
            first, second = decision["first"], decision["second"]
            # Inductor counts among what is shared what one side only waits for
            shared = sorted(given.touched(first) & given.touched(second))
            made = {**decision, "shared_buffers": shared, "reason": reason(decision, self.nodes, self.removed, given)}
            both = {*first, *second}
            if not decision["taken"] and any(both <= members for members in together):
                made["joined"] = True
            found.append(cast(Decision, made))
        return found

    def _nodes(self) -> list[Node]:
        """The ATen nodes, each with what became of its result."""
        became = fates(self.lowered, self.aten_nodes, self._is_emitted)
        memory = {name: buffer["name"] for name, buffer in self.buffers.items()}
        # where fusion removed a node's buffer and a copy is left, the copy: the other is never allocated
        for name, copy in copies(self.lowered, self._is_emitted).items():
            memory[name] = copy if self.buffers[name]["removed"] else memory[name]
        found = [
            {
                **{key: node[key] for key in NODE},
                "line": self.aten_line.get(node["name"]),
                "fate": became.get(node["name"]),
                "buffer": memory.get(node["name"]),
            }
            for node in self.lowered["aten"]["nodes"]
        ]
        return cast(list[Node], found)

    def _is_emitted(self, node: str, position: int) -> bool:
        """Whether an operation has a line; of a kernel that is linked as a whole that cannot be told, so it has."""
        return (node, position) in self.emitted or node not in self.tied_nodes

    def _scheduler_node(self, node: dict) -> SchedulerNode:
        name = node["name"]
        operations = [
            {
                **{key: one[key] for key in ("name", "operation", "producer", "stores", "buffer")},
                "line": self.operation_line[name, position],
                "emitted": (name, position) in self.emitted,
            }
            for position, one in enumerate(node["operations"])
            if one["operation"] != "output"
        ]
        lines = {"before": self.before_line.get(name), "after": self.after_line[name], "groups": self.node_line[name]}
        made = {
            **{key: value for key, value in node.items() if key not in ("text", "operations")},
            "aten_nodes": self.aten_nodes[name],
            "lines": lines,
            "operations": operations,
        }
        return cast(SchedulerNode, made)


def describe(node: dict) -> str:
    """A scheduler node in a line: what it does, reads and writes."""
    what = f"{node['reduction_type']} reduction" if node["is_reduction"] else node["extern"] or node["computes"]
    reads = ", ".join(dict.fromkeys(read["buffer"] for read in node["reads"]))
    writes = ", ".join(dict.fromkeys(write["buffer"] for write in node["writes"]))
    return f"{node['name']}: {what or node['kind']}, {reads or 'nothing'} -> {writes or 'nothing'}"


def _sum(values) -> int | None:
    values = list(values)
    return sum(values) if all(isinstance(value, int) for value in values) else None
