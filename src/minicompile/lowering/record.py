"""A capture put together: source, bytecode, Dynamo's graph, the joint graph, and every compiled graph, all linked."""

from pathlib import Path
from typing import Any

from minicompile.lowering.captured import Coded, Graph
from minicompile.lowering.graph_record import BuiltGraph
from minicompile.lowering.named_within import NamedWithin
from minicompile.lowering.panes.layers import Stack, layer_stack, with_layers
from minicompile.lowering.panes.panes import Panes
from minicompile.lowering.panes.printed_text import copied_lines, definition_lines
from minicompile.watching.dynamo.stacks import PACKAGES, user_frames
from minicompile.watching.watched import Watched

WRITES_BACK = "aten.copy_.default"


class Record:
    """Builds the panes, links and graphs of a capture out of a `Watched`, which stays as it is."""

    def __init__(self, watched: Watched) -> None:
        self.watched, self.panes = watched, Panes()
        self._settle()
        self._ends: dict[int, dict[str, int | None]] = {}
        self._sources = self._add_sources()
        self._dynamo = [self._add_dynamo(index, graph) for index, graph in enumerate(watched["dynamo"])]
        self._joint = {graph["index"]: self._add_joint(graph["index"], graph) for graph in watched["joint"]}
        everything = [self._with_own_choices(lowered) for lowered in watched["lowered"]]
        self._replaced_by = {  # by graph and node, those of the joint graph that a pattern put it in the place of
            (lowered["index"], made["name"]): [one["name"] for one in match["before"]]
            for lowered in everything
            for match in lowered["choices"]["pattern"]
            for made in match["after"]
            if match["placed"]
        }
        self.graphs: list[Graph] = []
        self.built: list[dict] = []  # what of `lowered` the graphs are made of
        self.warnings: list[Coded] = [
            {**one, "file": shown_path(one["file"])} if one.get("file") else one for one in watched["warnings"]
        ]
        for lowered in everything:
            try:
                built = BuiltGraph(lowered)
            except Exception as error:  # of a kind that nobody has thought of: the other graphs are shown all the same
                reason = f"{type(error).__name__}: {error}".splitlines()[0]
                direction = "backward" if lowered["backward"] else "forward"
                self.warnings.append({"code": "not_built", "what": f"{lowered['index']}.{direction}", "reason": reason})
                continue
            self.panes.extend(built.panes)
            stacks = self._link_upwards(built, lowered["aten"]["nodes"])
            self._link_inlined(built, lowered["aten"]["nodes"], lowered["inner_nodes"])
            self._link_copies(built)
            self.graphs.append(with_layers(built.graph, stacks))
            self.built.append(lowered)
        for one in self._breaks:
            self._link_break(one)

    def _with_own_choices(self, lowered: dict) -> dict:
        """What was lowered, with the names in its choices those of the capture's nodes."""
        joint = (graph["nodes"] for graph in self.watched["joint"] if graph["index"] == lowered["index"])
        within, choices = NamedWithin(lowered, next(joint, ())), lowered["choices"]
        named = {
            "algorithm": [within.asked(one) for one in choices["algorithm"]],
            "pattern": [within.match(one) for one in choices["pattern"]],
            "layout": [within.demand(one) for one in choices["layout"]],
        }
        return {**lowered, "choices": {**choices, **named}}

    def _settle(self) -> None:
        """Leave out the graphs that Dynamo traced and gave up: it began their frame again, and lowered a later one."""
        lowered = {one["index"] for one in self.watched["lowered"]}
        later: dict[int, int] = {}
        for made in self.watched["compiles"]:
            # a graph that nothing was lowered of, before one of the same compile that was, is the earlier attempt
            kept = [index for index in made["graphs"] if index in lowered]
            later |= {index: kept[-1] for index in made["graphs"] if kept and index < kept[-1] and index not in lowered}
        self._compiles = [
            {**made, "graphs": [index for index in made["graphs"] if index not in later]}
            for made in self.watched["compiles"]
        ]
        self._breaks = [
            {**one, **{side: later.get(one[side], one[side]) for side in ("after", "before")}}
            for one in self.watched["graph_breaks"]
        ]

    def compiles(self) -> list[dict]:
        """The frames that Dynamo compiled, in order, each with its graphs that are in the capture."""
        built = {graph["index"] for graph in self.graphs}
        breaks = reversed(self.watched["graph_breaks"])  # so that of several in a frame the first is kept
        stopped = {one["compile"]: one["explanation"] or one["reason"] for one in breaks}
        return [
            {
                **one,
                "file": one["file"] and shown_path(one["file"]),
                "graphs": [g for g in one["graphs"] if g in built],
                # of a frame that Dynamo stopped in before it had anything to compile, some torches say no more
                "failure": one["failure"] or (None if one["graphs"] else stopped.get(one["id"])),
            }
            for one in self._compiles
        ]

    def graph_breaks(self) -> list[dict]:
        """Each place at which Dynamo stopped once, in order: as its first break was, with all the `ways` to it."""
        built = sorted({graph["index"] for graph in self.graphs})
        places: dict[Any, dict[tuple, dict]] = {}
        for one in self._breaks:
            # a graph of which nothing was lowered, one without operations say, is not there to be named
            after = max((graph for graph in built if one["after"] is not None and graph <= one["after"]), default=None)
            before = min(
                (graph for graph in built if one["before"] is not None and graph >= one["before"]), default=None
            )
            stack = [
                {"file": shown_path(file), "line": line, "function": function, "pane": self._sources.get(file)}
                for file, line, function in one["stack"]
            ]
            # a recompile stops at the same places again in the same way
            ways = places.setdefault(self._place(one), {})
            way = {**one, "after": after, "before": before, "stack": stack, "count": 0}
            ways.setdefault((one["reason"], one["explanation"], after, before, str(stack)), way)["count"] += 1
        told = [list(ways.values()) for ways in places.values()]
        return [{**ways[0], "count": sum(way["count"] for way in ways), "ways": ways} for ways in told]

    def _place(self, one: dict) -> tuple | str:
        """The innermost line at which a break stopped that is shown, or that is known; its reason where none is."""
        shown = [frame for frame in one["stack"] if frame[0] in self._sources] or one["stack"]
        return tuple(shown[-1][:2]) if shown else one["reason"]

    def _link_break(self, one: dict) -> None:
        """The user's line at which Dynamo stopped, tied to the end of the graph before and the start of the next."""
        # a file may have changed since it was read, or have no such line as code that was made from a string
        places = [(self._sources[file], line) for file, line, _ in one["stack"] if self._has(file, line)]
        for side, at in (("after", "output"), ("before", "forward")):
            if places and one[side] is not None:
                self.panes.link("break", *places[-1], f"dynamo.{one[side]}", self._ends[one[side]].get(at))

    def _has(self, file: str, line: int) -> bool:
        """Whether a source that is shown has this line."""
        return line <= len(self.watched["sources"].get(file, ()))

    def _add_sources(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for file, lines in self.watched["sources"].items():
            title = {"code": "source", "file": shown_path(file)}
            found[file] = self.panes.add(f"source.{len(found)}", "source", title, "python", lines)
        for number, one in enumerate(self.watched["bytecode"]):
            title = {"code": "bytecode", "function": one["function"]}
            if one["decompiled"]:
                decompiled = {**title, "code": "bytecode_decompiled"}
                self.panes.add(f"decompiled.{number}", "bytecode", decompiled, "python", one["decompiled"])
            self.panes.add(f"bytecode.{number}", "bytecode", title, "text", one["instructions"])
        return found

    def _link_source(self, stack: str | None, pane: str, line: int | None) -> None:
        for depth, (file, number) in enumerate(user_frames(stack)):
            if self._has(file, number):
                # the innermost frame wrote the operation; those around it called that one
                self.panes.link("caller" if depth else "source", self._sources[file], number, pane, line)

    def _add_dynamo(self, index: int, graph: dict) -> dict[str, int]:
        lines = graph["text"].rstrip().splitlines()
        pane = self.panes.add(f"dynamo.{index}", "dynamo", {"code": "dynamo"}, "python", lines)
        at = definition_lines(lines)
        start = next((number for number, text in enumerate(lines, 1) if "def forward(" in text), None)
        self._ends[index] = {"output": at.get("output"), "forward": start}
        for node in graph["nodes"]:
            self._link_source(node["stack"], pane, at.get(node["name"]))
        return at

    def _add_joint(self, index: int, graph: dict) -> dict:
        lines = graph["text"].rstrip().splitlines()
        training = any(node["name"].startswith("tangents") for node in graph["nodes"])
        title = {"code": "joint" if training else "joint_forward"}
        pane = self.panes.add(f"joint.{index}", "joint", title, "python", lines)
        at = definition_lines(lines)
        dynamo, known = self._dynamo[index], self.watched["dynamo"][index]["identities"]
        origins: dict[str, list[str]] = {}
        by_sequence: dict[int, list[str]] = {}
        for node in graph["nodes"]:
            names = _named_in(dynamo, node["origins"], known)
            origins[node["name"]] = names[:1]
            # the number of autograd's latest node: -1 stands before its first, and so for no forward call
            if names and node["sequence"] is not None and node["sequence"] >= 0:
                by_sequence.setdefault(node["sequence"], []).append(names[0])
        for node in graph["nodes"]:
            name = node["name"]
            if _writes_back(node):  # what changes an input in the end comes from where that value was made
                origins[name] = [origin for one in node["inputs"][1:] for origin in origins[one]]
            else:  # a backward node has the number of the forward call that it is the gradient of
                origins[name] = origins[name] or list(dict.fromkeys(by_sequence.get(node["sequence"], [])))
            for origin in origins[name]:
                self.panes.link("node", f"dynamo.{index}", dynamo[origin], pane, at.get(name))
        return {"at": at, "origins": origins, "by_sequence": by_sequence, "identities": graph["identities"]}

    def _link_upwards(self, built: BuiltGraph, nodes: list[dict]) -> dict[str, Stack]:
        """From an ATen graph, whose nodes are these, to the joint graph, to Dynamo's, and to the source.

        Returns:
            By node the model's modules that it was made in.
        """
        index = built.graph["index"]
        recorded = {node["name"]: node for node in self.watched["dynamo"][index]["nodes"]}
        earlier = self._joint.get(index, {"origins": {}, "at": {}})
        holders = _holders(nodes)
        stacks = {}
        for position, node in enumerate(nodes):
            # what replaced a pattern may have no origin itself; then that of the next node that uses its result counts
            dynamo, joint = self._origins(index, node)
            users = [node["name"]]
            for one in nodes[position + 1 :] if not dynamo else ():
                if dynamo:
                    break
                if set(one["inputs"]) & set(users) and one["op"] == "call_function":
                    users.append(one["name"])
                    dynamo, _ = self._origins(index, one)
            # of one that nothing reads but the backward pass, that of what the pattern took away
            if not dynamo:
                gone = self._replaced_by.get((index, node["name"]), [])
                dynamo = list(dict.fromkeys(origin for one in gone for origin in earlier["origins"].get(one, [])))
                joint = joint or [one for one in gone if one in earlier["at"]]
            # nor has the gradient of a branch of torch.cond: then that of the call that holds the branch
            if not dynamo and (holder := holders.get(node["name"].rpartition(".")[0])):
                dynamo, _ = self._origins(index, holder)
            joint = joint or self._replaced(built.graph, nodes, node, dynamo)
            self._link_node(built, node, dynamo, joint)
            stacks[node["name"]] = layer_stack(node, (recorded[name] for name in dynamo))
        return stacks

    def _link_node(self, built: BuiltGraph, node: dict, dynamo: list[str], joint: list[str]) -> None:
        """One ATen node to those of both graphs that it comes from, and to the user's lines."""
        index, aten, line = built.graph["index"], built.graph["panes"]["aten"], built.aten_line.get(node["name"])
        for name in joint:
            self.panes.link("node", f"joint.{index}", self._joint[index]["at"][name], aten, line)
        for name in dynamo:
            self.panes.link("node", f"dynamo.{index}", self._dynamo[index][name], aten, line)
        theirs = (one["stack"] for one in self.watched["dynamo"][index]["nodes"] if one["name"] in dynamo)
        self._link_source(node["stack"] or next(filter(None, theirs), None), aten, line)

    def _link_inlined(self, built: BuiltGraph, nodes: list[dict], inner: list[dict]) -> None:
        """The nodes of graphs that a template takes into its text, flex_attention's score say, upwards as above, and
        to the call of that template."""
        own, holders, panes = {node["name"] for node in nodes}, _holders(nodes), built.graph["panes"]
        for node in inner:
            holder = holders.get(node["name"].rpartition(".")[0])
            if node["name"] in own or node["op"] != "call_function" or holder is None:
                continue
            self._link_node(built, node, *self._origins(built.graph["index"], node))
            for call in built.graph["calls"]:
                if holder["name"] in call["aten_nodes"]:
                    line = built.aten_line.get(node["name"])
                    self.panes.link("call", panes["aten"], line, panes["code"], call["line"])

    def _link_copies(self, built: BuiltGraph) -> None:
        """The functions of a user's own Triton kernel, which Inductor copies into the code, to where they stand."""
        for kernel in built.graph["kernels"]:
            for file, pane in self._sources.items():
                for line, copy in copied_lines(
                    self.watched["sources"][file], built.code, kernel["first"], kernel["last"]
                ):
                    self.panes.link("source", pane, line, built.graph["panes"]["code"], copy)

    def _replaced(self, graph: Graph, nodes: list[dict], node: dict, dynamo: list[str]) -> list[str]:
        """The earlier graph's nodes that a pattern of Inductor's took together and put an ATen node in the place of.

        They are gone from the compiled graph and come from the same node of Dynamo's. With a backward pass that is no
        longer telling: what one forward node became is then spread over both directions.
        """
        joint = self._joint.get(graph["index"])
        if joint is None or not graph["inference"] or node["op"] != "call_function":
            return []
        # what is still there, or an origin of what is, was not taken away
        kept = {name for one in nodes for name in (one["name"], *(origin for origin, _ in one["origins"]))}
        return [name for name, found in joint["origins"].items() if name not in kept and set(found) & set(dynamo)]

    def _origins(self, index: int, node: dict) -> tuple[list[str], list[str]]:
        """The nodes of Dynamo's graph and those of the joint graph that an ATen node comes from."""
        joint, dynamo = self._joint.get(index), self._dynamo[index]
        names = _named_in(dynamo, node["origins"], self.watched["dynamo"][index]["identities"])[:1]
        earlier = []
        if joint:
            earlier = [node["name"]] if node["name"] in joint["at"] else []
            earlier += _named_in(joint["at"], node["origins"], joint["identities"])
            names = names or [origin for one in earlier for origin in joint["origins"][one]]
            names = names or ([] if _writes_back(node) else joint["by_sequence"].get(node["sequence"], []))
        return list(dict.fromkeys(names)), list(dict.fromkeys(earlier))


def _writes_back(node: dict) -> bool:
    """Whether a node is one that AOT autograd adds at the end, to put into an input what it was changed to."""
    return not node["origins"] and node["target"] == WRITES_BACK


def _holders(nodes: list[dict]) -> dict[str, dict]:
    """The call that each graph within a graph is handed to, by the inner one's name."""
    return {given: node for node in nodes if node["op"] == "call_function" for given in node["inputs"]}


def _named_in(at: dict[str, int], origins: list[list], identities: list[tuple[int, str]]) -> list[str]:
    """Those of a node's origins that a printed graph defines, by their names there.

    Args:
        at: the lines of the graph's nodes.
        origins: [name, number of its graph] of each ancestor.
        identities: [number, what names begin with] of that graph and of those within it.
    """
    begins = dict(identities)
    full = (begins[graph] + name for name, graph in origins if graph in begins)
    return [name for name in full if name in at]


def shown_path(file: str) -> str:
    """A file's path within the project or its package, or its name; of one of the project the folder is gone."""
    if PACKAGES.search(file):
        return PACKAGES.split(file)[-1]
    return Path(file).name if Path(file).is_absolute() else file
