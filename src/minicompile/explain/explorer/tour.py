"""The guided tour: what a first-time reader should look at, found in the capture itself, so that any model has one.

It follows one kernel, the one that KERNEL_ANNOTATION.md explains, from the user's line to the machine. A stop that the
capture has nothing for is left out.
"""

from typing import Any

from minicompile.explain.annotation.choice import most_interesting
from minicompile.explain.evidence import Fact, Kind, of_call, of_fate, weakest
from minicompile.explain.explorer.links import Line, Links
from minicompile.explain.explorer.questions import unwritten
from minicompile.explain.wording import Wording
from minicompile.lowering.by_values import computed
from minicompile.lowering.captured import Capture, Graph, Node, SchedulerNode
from minilab.pages.translations import Translations

REDUCTION, MOVES = "reduction", ("load", "store", "store_reduction")  # Inductor's names of operations
DULL = "no shared data"  # the reason of most refusals; it teaches little


def stop(capture: int, line: Line, title: str, text: str, shows: str | None = None) -> dict:
    """A stop at a line; where another pane is what to look at, `shows` is that pane."""
    return {
        "capture": capture,
        "pane": line[0],
        "line": line[1],
        "shows": shows or line[0],
        "title": title,
        "text": text,
    }


class Guide:
    """Finds the stops of one graph of a capture, and tells of them in a language."""

    def __init__(self, capture: Capture, position: int, graph: Graph, language: str) -> None:
        self.position, self.graph, self.wording = position, graph, Wording(language)
        self.words = Translations("minicompile.explain", "explorer", language)
        self.links = Links(capture)
        self.panes = {pane["id"]: pane for pane in capture["panes"]}
        chosen = most_interesting({**capture, "graphs": [graph]})
        self.kernel = chosen.kernel if chosen else None
        self.call = chosen.call if chosen else next(iter(graph["calls"]), None)  # a library's, where there is no kernel
        self.doubted = bool(self.call and self.call.get("doubted"))
        self.group = graph["groups"][self.call["groups"][0]] if self.call and self.call["groups"] else None

    def _stop(self, line: Line, name: str, shows: str | None = None, evidence: Kind = "values", **fields: Any) -> dict:
        text = self.wording.told(Fact(self.words(f"tour.{name}.text", **fields), evidence))
        return stop(self.position, line, self.words(f"tour.{name}.title", **fields), text, shows)

    def _counted(self, count: int) -> dict:
        """The fields of a sentence that depends on a number: the number, and how it is written."""
        return {"count": count, "number": self.words.number(count, ",")}

    def _in_kind(self, lines: set[Line], kind: str) -> list[Line]:
        return sorted(line for line in lines if self.panes[line[0]]["kind"] == kind)

    def _aten(self, node: Node) -> Line:
        return self.graph["panes"]["aten"], node["line"] or 0

    def compute_nodes(self) -> list[Node]:
        """The ATen nodes that the call computes, in order."""
        if not self.call:
            return []
        names = {*computed(self.call)}
        return [node for node in self.graph["nodes"] if node["name"] in names and node["line"]]

    def operation(self) -> tuple[Line, SchedulerNode, str] | None:
        """What the kernel is for: its last reduction, or else its last computation, or else whatever is tied to a line.

        Returns:
            The line in the code, the scheduler node, and the operation in words.
        """
        tied: list[tuple] = []
        for node in self.graph["scheduler_nodes"]:
            if not self.call or node["name"] not in self.call["scheduler_nodes"]:
                continue
            for operation in node["operations"]:
                after = (self.graph["panes"]["ir_after"], operation["line"] or 0)
                code = self._in_kind(self.links.down(after, {"operation"}), "code")
                if code:
                    name = operation["operation"]
                    kind = "reduction" if name == REDUCTION else "operation"
                    words = self.words(f"tour.kernel.{kind}", kind=node["reduction_type"], name=name)
                    worth = 2 if name == REDUCTION else int(name not in MOVES)
                    tied.append((worth, len(tied), (code[-1], node, words)))
        return max(tied)[2] if tied else None

    def origin(self) -> Node | None:
        """The ATen node that the tour sets out from: the last of the call's that the user's source has a line for."""
        named = [node for node in self.compute_nodes() if self._source_of(node)]
        operation = self.operation()
        of_it = [node for node in named if operation and node["name"] in operation[1]["origins"]]
        return (of_it or named)[-1] if named else None

    def _source_of(self, node: Node) -> list[Line]:
        """The user's lines that a node is linked to: directly, or else by way of Dynamo's graph."""
        aten = self._aten(node)
        direct = self._in_kind(self.links.up(aten, {"source"}), "source")
        return direct or self._in_kind(self.links.up(aten, {"source", "node"}), "source")

    def from_the_source(self) -> list[dict]:
        """The user's line, Dynamo's record of it, and the simpler operations it becomes."""
        origin = self.origin()
        if origin is None:
            return []
        source, stops = self._source_of(origin)[-1], []
        made = self.links.down(source, {"source", "node"})
        code = self.panes[source[0]]["lines"][source[1] - 1].strip()
        stops.append(self._stop(source, "source", code=code))
        recorded = self._in_kind(made & self.links.up(self._aten(origin), {"node"}), "dynamo")
        if recorded:
            stops.append(self._stop(recorded[-1], "dynamo"))
        became = self._in_kind(self.links.down(source, {"source", "caller"}), "aten") or self._in_kind(made, "aten")
        simpler = [line for line in became if line[0] == self.graph["panes"]["aten"]]
        at = {number for _, number in simpler}
        targets = [
            node["target"] for node in self.graph["nodes"] if node["line"] in at and node["op"] == "call_function"
        ]
        if simpler:
            named, end = ", ".join(f"`{target}`" for target in targets[:8]), ", …" if len(targets) > 8 else "."
            stops.append(self._stop(simpler[0], "aten", **self._counted(len(targets)), targets=named, end=end))
        return stops

    def never_written(self) -> list[dict]:
        """The largest intermediate result of the kernel that never reaches memory."""
        spared = [] if self.doubted else unwritten(self.compute_nodes())
        if not spared:
            return []
        node = max(spared, key=lambda one: one["bytes"] or 0)
        fields: dict[str, Any] = {
            "node": node["name"],
            "bytes": self.words.number(node["bytes"] or 0, ","),
            "how": self.words(f"tour.spared.{str(node['fate']).replace(' ', '_')}"),
            "total": self.words.number(sum(one["bytes"] or 0 for one in spared), ","),
        }
        evidence = weakest([of_call(self.call), *map(of_fate, spared)]) if self.call else "notes"
        return [self._stop(self._aten(node), "spared", evidence=evidence, **self._counted(len(spared)), **fields)]

    def decisions(self) -> list[dict]:
        """A fusion of this kernel's group that was taken, and the most telling one that was refused."""
        if not self.group or self.doubted:
            return []
        members = set(self.group["members"])
        about = [each for each in self.graph["decisions"] if members & {*each["first"], *each["second"]}]
        line, stops = (self.graph["panes"]["groups"], self.group["line"]), []
        if any(each["taken"] for each in about) and len(members) > 1:
            named = ", ".join(self.group["members"])
            stops.append(self._stop(line, "fuses", **self._counted(len(members)), members=named))
        apart = [each for each in self.graph["decisions"] if not each["taken"] and not each.get("joined")]
        refused = [each for each in about if each in apart] or apart
        if refused:
            each = next((each for each in refused if DULL not in " ".join(each["reasons"])), refused[0])
            name = each["first"][0]
            node = next(node for node in self.graph["scheduler_nodes"] if node["name"] == name)
            at = (line[0], node["lines"]["groups"] or self.group["line"])
            fields: dict[str, Any] = {
                "first": ", ".join(each["first"]),
                "second": ", ".join(each["second"]),
                "sentence": self.wording.fusion(each["reason"]),
                "words": each["reasons"][-1] if each["reasons"] else self.words("tour.refuses.none"),
            }
            stops.append(self._stop(at, "refuses", **fields))
        return stops

    def in_the_kernel(self) -> list[dict]:
        """A telling line of the kernel, and the machine's instructions made from it."""
        telling = self.operation()
        if not self.kernel or not telling:
            return []
        line, _, words = telling
        language = "C++" if self.kernel["language"] == "cpp" else "Triton"
        fields: dict[str, Any] = {"kernel": self.kernel["name"], "words": words, "tied": self.kernel["lines_tied"]}
        stops = [self._stop(line, "kernel", **self._counted(self.kernel["lines"]), language=language, **fields)]
        machine = self.links.down(line, {"machine"})
        facts = self.kernel["assembly"]
        for kind in ("sass", "ptx"):
            at = self._in_kind(machine, kind)
            if at and facts:
                fields = {
                    "kind": kind.upper(),
                    "architecture": facts["architecture"],
                    "registers": facts["registers"],
                    "shared": self.words.number(facts["shared_bytes"], ","),
                }
                stops.append(self._stop(line, "machine", at[0][0], **self._counted(len(at)), **fields))
                break
        return stops

    def library_call(self) -> list[dict]:
        """A call of a library's kernel, for which Inductor writes none."""
        calls = [call for call in self.graph["calls"] if call["extern"] and call["line"]]
        if not calls:
            return []
        at = (self.graph["panes"]["code"], calls[0]["line"] or 0)
        return [self._stop(at, "library", **self._counted(len(calls)), kernel=calls[0]["kernel"])]


def tour(captures: list[Capture], language: str = "en") -> list[dict]:
    """The stops of a guided tour, in order, each with `capture`, `pane`, `line`, `shows`, `title` and `text`.

    At each the line of the pane is chosen, and the pane `shows`, mostly the same one, is what to look at. In the text,
    `backquotes` mark code.
    """
    guide = Guide(captures[0], 0, captures[0]["graphs"][0], language)
    stops = [*guide.from_the_source(), *guide.never_written(), *guide.decisions()]
    stops += [*guide.in_the_kernel(), *guide.library_call()]
    for graph in captures[0]["graphs"][1:]:
        if graph["direction"] == "backward":
            stops += _there_too(Guide(captures[0], 0, graph, language), "backward")
            break
    for position, capture in enumerate(captures[1:], start=1):
        target = Wording(language).label(capture)
        stops += _there_too(Guide(capture, position, capture["graphs"][0], language), "other_side", target=target)
    return stops


def _there_too(guide: Guide, name: str, **fields: object) -> list[dict]:
    """The stop in another kernel, under a title of its own."""
    words = guide.words
    return [
        {
            **stop,
            "title": words(f"tour.{name}.title"),
            "text": words(f"tour.{name}.text", text=stop["text"], **fields),
        }
        for stop in guide.in_the_kernel()[:1]
    ]
