"""What `ties` say of a graph: which node's values each line and each buffer had when the generated code was run.

`minicompile.verifying` runs what was generated beside the ATen graph and leaves `ties` in a `Watched`. Here they are
turned into what pages ask for. Where a call was not run, or a node's values were found nowhere, what Inductor notes
down stays in its place, and is marked by the absence of `values`.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from copy import deepcopy
from math import prod
from typing import Any, cast

from minicompile.lowering.captured import (
    Buffer,
    Call,
    CallValues,
    Graph,
    Kernel,
    Node,
    Stored,
    Verified,
    is_one_result,
)

UNREADABLE = "unreadable"  # why a graph is not verified whose ties say what this cannot read
MISSING = "missing"  # why a call is not verified of which the ties have nothing
PARTIAL, SLICE = "partial", "slice"
UNFINISHED = ("partial", "accumulated", "other")  # what of a node is not yet its result
COPY = "aten.copy_.default"
FILL = re.compile(r"aten\.(full|zeros|ones|fill|new_full|new_zeros|new_ones|zero|empty|scalar_tensor|lift_fresh)")
CHOOSES = re.compile(  # each value of what these make is one that an operand has
    r"aten\.(?:max|min|amax|amin|maximum|minimum|clamp\w*|where|relu|sort|cummax|cummin|median|nanmedian)\."
)
REDUCES = ("reduction", "scan", "sort")  # kinds of a loop's operations that have lines before their last
HANDS_ON = (*REDUCES, "masked", "value_expr", "welford", "to_dtype")  # and such as have lines that hand a value on
VALUE = re.compile(r"\b_?tmp\w+\b")
ARITHMETIC = re.compile(  # what no load computes, though its values may be the operand's: a power of 1, a sum with 0
    r"aten\.(?:add|sub|rsub|mul|div|pow|neg|abs|exp|log|sqrt|rsqrt|sum|mean|var|floor|ceil|round|trunc|sign|lerp|addcmul)\b"
)
REDUCED = re.compile(r"aten\.(?:any|all|amax|amin|argmax|argmin|sum|mean|prod|(?:max|min)\.d)")  # of few: one by one
PARTS = (
    None,
    "partial",
    "before_cast",
    "unrounded",
    "accumulated",
    "slice",
    "repeated",
    "index",
    "other",
)  # with words
WHOLE = (None, "before_cast", "unrounded")  # parts that are all of a node
# operations of a loop that compute nothing of their own; a conversion is one where no node asks for it
MOVES = ("load", "load_seed", "store", "store_reduction", "atomic_add", "constant", "index_expr", "to_dtype")
BOUNDED = "set_indirect"  # an index is held against its bounds
CAST = re.compile(r"\s*tmp\w+\.template cast<[^()]*>\(\);")  # a mask in another width of its lanes
ROUNDED = re.compile(r"\s*(?:[\w:]+<[^()]*>\()?(tmp\w+)(?:\.to\([\w.]+\))?\)?;?\s*$")  # one value, in another dtype
SPREAD = re.compile(r"\s*at::vec::Vectorized\w*<[^()]*>\(tmp\w+\);")  # one value goes into every lane
CONVERTS = re.compile(r"convert_element_type|_to_copy|aten\.to\.")
LEAVES_IN_LINES = ("inlined", "fused away")  # fates of what is in no memory


def with_values(graph: Graph, lowered: dict[str, Any]) -> Graph:
    """The graph with what was verified of it by values, in the place of what Inductor's notes say.

    Args:
        graph: as the notes tell it.
        lowered: what was watched of it; without `ties` the graph stays as it is.
    """
    ties = lowered.get("ties")
    if ties is None:
        return graph
    try:
        return _with_values(graph, lowered)
    except (AttributeError, LookupError, TypeError, ValueError):
        # ties that cannot be read cost what they would have shown, and not the graph
        nothing = {"inputs": 0, "refused": {"code": UNREADABLE}, "calls": [], "buffers": {}, "nodes": {}}
        return _with_values(graph, {**lowered, "ties": nothing})


def _with_values(graph: Graph, lowered: dict[str, Any]) -> Graph:
    """The same with ties of this format."""
    ties = lowered["ties"]
    refused = ties["refused"]
    told = _Told(graph, lowered)
    calls: list[Call] = [{**call, "values": told.of_call(call)} for call in graph["calls"]]
    written = [call for call in calls if not call["extern"]]
    verified: Verified = {
        "inputs": ties["inputs"],
        "refused": refused["code"] if refused else None,
        "kernels": [sum(call["values"]["status"] == "verified" for call in written), len(written)],
    }
    if refused:
        return {**graph, "calls": calls, "verified": verified}
    nodes = [told.of_node(node, lowered["buffers"]) for node in graph["nodes"]]
    buffers = [told.of_buffer(buffer) for buffer in graph["buffers"]]
    return {**graph, "nodes": nodes, "buffers": buffers, "calls": calls, "verified": verified}


def is_verified(call: Call) -> bool:
    """Whether what a call computes was found by its values."""
    return "values" in call and call["values"]["status"] == "verified"


def computed(call: Call) -> list[str]:
    """The ATen nodes of which a call computes all or a part: by values, or else by Inductor's notes."""
    if not is_verified(call):
        return call["aten_nodes"]
    values = call["values"]
    return list(dict.fromkeys([*values["computes"], *values["again"], *(one["node"] for one in values["parts"])]))


def _points(node: Node) -> int | None:
    """How many elements a node has; None where that is no number."""
    size = node["size"]
    lengths = [length for length in size if isinstance(length, int)] if size is not None else []
    return prod(lengths) if size is not None and len(lengths) == len(size) else None


class _Told:
    """Ties by what they are about.

    Args:
        graph: as Inductor's notes tell it.
        ties: of the graph.
    """

    def __init__(self, graph: Graph, lowered: dict[str, Any]) -> None:
        self.ties, self.graph = deepcopy(lowered["ties"]), graph
        self.nodes = {node["name"]: node for node in graph["nodes"]}
        self.kernels = {kernel["name"]: kernel for kernel in graph["kernels"]}
        self._definitions = lowered["definitions"]
        self._sources = {one["name"]: one["source"] for one in self._definitions}
        self._operations_of = {node["name"]: node["operations"] for node in lowered["scheduler_nodes"]}
        # a call has the place in the code at which it stands; one line may hold one call alone
        self._by_line = {(one["kernel"], one["line"]): one for one in self.ties["calls"] if one["line"] is not None}
        self._by_place = self._in_turn()
        self._proposed: dict[tuple[str, bool], dict[int, set[str]]] = {}
        self._operations_at: dict[str, dict[int, list[tuple[str, dict]]]] = {}
        self._without_chance()
        verified = [one for one in self.ties["calls"] if one["status"] == "verified"]
        self._verified = {one["call"] for one in verified}
        self._refused_writes = len(verified) < len(self.ties["calls"])
        self._in_lines = {
            name for one in verified for line in one["lines"] if not line["part"] for name in line["nodes"]
        }
        self._stored_by: dict[str, list[str]] = defaultdict(list)  # by node the kinds of calls, in order
        for one in verified:
            for store in one["stores"]:
                for name in store["nodes"] if store["part"] in (None, "unrounded") else ():
                    self._stored_by[name].append(one["kind"])
        self._constant = {name for name, one in self.ties["nodes"].items() if one["where"] == "constant"}
        self._works = self._each_work()

    def _each_work(self) -> dict[str, Any]:
        """What the calls do that were run, by their ids: one after another, since what is found first is new."""
        found: dict[str, Any] = {}
        known: set[str] = set()
        tied = [(one, call) for call in self.graph["calls"] if (one := self._tied(call)) is not None]
        for one, call in sorted(tied, key=lambda pair: pair[0]["call"]):
            if one["status"] == "verified":
                found[call["id"]] = self._work(call, one, known)
                known |= {*found[call["id"]]["computes"]}
        return found

    def _without_chance(self) -> None:
        """Untie nodes that have a line's or a memory's values by chance, but where they are meant.

        Those are above all nodes of so few kinds of values that they may be another's. A line is meant for one where
        Inductor wrote it for that; memory where a line of the call is; both where the call is noted for what is no more
        than to fill memory.
        """
        for tied in self.ties["calls"]:
            for one in (*tied["lines"], *tied["stores"]):
                one["part"] = one["part"] if one["part"] in PARTS else "other"
        few = {name for name, one in self.ties["nodes"].items() if one.get("few")}
        stored: dict[str, set[str]] = defaultdict(set)
        by_call = {id(tied): call for call in self.graph["calls"] if (tied := self._tied(call)) is not None}
        for tied in self.ties["calls"]:
            call, meant = by_call.get(id(tied)), {*tied["reads"]}
            if call is not None:
                self._untie_lines(call, tied, few)
            for line in tied["lines"]:
                line["nodes"] = [name for name in line["nodes"] if call is not None or name not in few]
                meant |= {*line["nodes"]}
            for store in tied["stores"]:
                store["nodes"] = [
                    name for name in store["nodes"]
                    if name not in few or name in meant or (call is not None and self._fills(call, tied, name))
                ]  # fmt: skip
                stored[store["buffer"]] |= {*store["nodes"]}
                meant |= {*store["nodes"]}
            for key in ("computes", "moves"):
                tied[key] = [name for name in tied[key] if name not in few or name in meant]
        for name, buffer in self.ties["buffers"].items():
            buffer["nodes"] = [
                node for node in buffer["nodes"] if node not in few or node in stored[name] or node == buffer["input"]
            ]

    def _untie_lines(self, call: Call, tied: dict, few: set[str]) -> None:
        """Untie lines from nodes that they have the values of by chance, or that were found before they compute.

        A node that is true or false, or chooses among values, a maximum say, has what others have: a line is its where
        Inductor wrote it for that. Where it wrote a line for another, the line has a node's values only as far as it
        hands on what such a line found, to a reduction say, or loads it; one that computes has them by chance.
        """
        loose = {name for name, node in self.nodes.items() if self._is_like_others(node)} - few
        ends, held = self._ends(call, tied, few | loose), self._held_before(tied)
        kinds, text = self._kinds(call), self._sources.get(call["kernel"], [])
        loaded = {name for buffer in tied["reads"] for name in held.get(buffer, ([], None))[0]}
        own = {name for line in tied["lines"] for name in self._written_for(call, line)}
        known = own | loaded
        values: dict[str, set[str]] = {}  # by name in the text, the nodes that it was found to be
        meant: dict[str, set[str]] = {}  # and those that Inductor wrote its line for
        for line in tied["lines"]:
            number, written, kept = line["line"], self._written_for(call, line), list[str]()
            name, _, given = text[number - 1].partition("=") if number <= len(text) else (line["name"], "", "")
            # whether a number is 0 is another value
            handed = set[str]().union(*(values.get(one, ()) for one in VALUE.findall(given) if "!=" not in given))
            sources = {"load": self._there(call, number, held, loaded), "hands on": handed}
            operations = {one["operation"] for _, one in self._operations_in(call)[number]}
            rounded = meant.get((VALUE.findall(given) or [""])[-1], set()) if operations == {"to_dtype"} else set()
            passed_on = CAST.match(given) or (line["part"] == SLICE and SPREAD.match(given))
            for node in line["nodes"]:
                if passed_on and not CONVERTS.search(self._target(node)):  # it is what it was before
                    stays = node in handed
                elif rounded.intersection(line["nodes"]):  # what was computed for one node is not another's, rounded
                    stays = node in rounded or node in written
                elif node in self.nodes and self.nodes[node]["op"] == "placeholder" and node not in loaded:
                    stays = False  # nobody gave it to the kernel
                elif kinds.get(number) == "constant":  # a number is no operation's result by being equal to it
                    stays = FILL.match(self._target(node)) is not None or self._fills(call, tied, node)
                elif node in few:  # what fills memory may have no line of its own
                    stays = number in ends.get(node, ()) or (number not in kinds and self._fills(call, tied, node))
                elif number in ends.get(node, ()) or (node in written and node not in loose):
                    stays = True
                elif number not in kinds:
                    stays = line["part"] != SLICE or node in handed or not VALUE.search(given)
                elif node not in known | loose:  # it has no other line, nor has what is equal to it
                    stays = kinds[number] != "computes" or not known.intersection(line["nodes"])
                else:
                    stays = node in sources.get(kinds[number], ())
                kept += [node] if stays else []
            line["nodes"] = kept
            values |= {one: {*kept} for one in VALUE.findall(name)}
            meant |= {one: self._proposals(call)[number] for one in VALUE.findall(name)}

    def _there(self, call: Call, line: int, held: dict, loaded: set[str]) -> set[str]:
        """The nodes that are in the memory which a line loads, where that is known; else in any that the call reads."""
        own = {buffer for _, one in self._operations_in(call)[line] if (buffer := one["buffer"]) in held}
        return {name for buffer in own for name in held[buffer][0]} if own else loaded

    def _is_like_others(self, node: Node) -> bool:
        """Whether each value of a node is one that others have as well."""
        return node["dtype"] == "bool" or CHOOSES.match(self._target(self._whole(node["name"]))) is not None

    def _kinds(self, call: Call) -> dict[int, str]:
        """What the lines do of which Inductor notes that: `constant`, `load`, `hands on` or `computes`."""
        found = {}
        for line, some in self._operations_in(call).items():
            operations = {one["operation"] for _, one in some}
            if operations == {"constant"}:
                found[line] = "constant"
            elif "load" in operations:
                found[line] = "load"
            elif operations:
                hands_on = any(one.startswith((*MOVES, *HANDS_ON, BOUNDED)) for one in operations)
                found[line] = "hands on" if hands_on else "computes"
        return found

    def _ends(self, call: Call, tied: dict, names: set[str]) -> dict[str, set[int]]:
        """By node, the lines that end what Inductor wrote for it: before them stand its parts and what prepares it.

        What a kernel computes for several elements apart, or in several loops, ends as often; a reduction ends once.
        """
        lines: dict[str, dict[int, list[tuple[str, dict]]]] = defaultdict(dict)
        for line in tied["lines"]:
            for name in names.intersection(self._written_for(call, line)):
                own, here = {name, *self._operations([name])}, self._operations_in(call)[line["line"]]
                lines[name][line["line"]] = [(node, one) for node, one in here if one["producer"] in own]
        found = {}
        for name, some in lines.items():
            kinds = {line: {(node, one["operation"]) for node, one in its} for line, its in some.items()}
            whole = {line: {(node, one["name"]) for node, one in its} for line, its in some.items()}
            last = max(some)
            if REDUCED.match(self.nodes[name]["target"]) or any(kind.startswith(REDUCES) for _, kind in kinds[last]):
                found[name] = {last}
            else:
                alike = {line for line in some if kinds[line] & kinds[last]}
                found[name] = {line for line in alike if not whole[line] & whole.get(line + 1, set())}
        return found

    def _fills(self, call: Call, tied: dict, name: str) -> bool:
        """Whether a call is noted for a node that it may well leave in memory without a line of its own."""
        if name not in self.nodes:
            return False
        fills = tied["kind"] != "kernel" or FILL.match(self.nodes[name]["target"]) is not None
        return (fills or self._is_copy(name)) and self._is_noted(call, name)

    def _in_turn(self) -> dict[str, dict]:
        """The ties of calls whose line is not known, by the call's id: the first of that kernel is its first call."""
        waiting: dict[str, list[dict]] = defaultdict(list)
        for one in self.ties["calls"]:
            if one["line"] is None:
                waiting[one["kernel"]].append(one)
        calls: dict[str, list[Call]] = defaultdict(list)
        for call in sorted(self.graph["calls"], key=lambda each: each["line"] or 0):
            calls[call["kernel"]].append(call)
        return {
            call["id"]: tied
            for name, several in calls.items() if len(waiting[name]) == len(several)
            for call, tied in zip(several, waiting[name], strict=True)
        }  # fmt: skip

    def _tied(self, call: Call) -> dict | None:
        found = self._by_line.get((call["kernel"], call["line"])) or self._by_place.get(call["id"])
        # a kernel of the user's is called by the name that Inductor gave it, and that its text has another
        users = [one for (_, line), one in self._by_line.items() if line == call["line"] and one["kind"] == "user"]
        return found or (users[0] if len(users) == 1 else None)

    def of_call(self, call: Call) -> CallValues:
        """What was found of a call."""
        if self.ties["refused"]:
            return {"status": "refused", "code": self.ties["refused"]["code"]}
        tied = self._tied(call)
        if tied is None:
            return {"status": "refused", "code": MISSING}
        if tied["status"] != "verified":
            return {"status": "refused", "code": tied["code"] or MISSING}
        held, found = self._held_before(tied), self._works[call["id"]]
        return {
            "status": "verified",
            "code": None,
            "elements": sum(one["elements"] for one in [*tied["lines"], *tied["stores"]]),
            "sampled": tied["sampled"],
            **found,
            "finishes": [name for name in (*found["computes"], *found["again"]) if self._begun(name, call)],
            "reads": [self._stored(name, *held.get(name, ([], None))) for name in tied["reads"]],
            "stores": [
                self._stored(one["buffer"], one["nodes"], one["part"], ended=self._is_gone(one, tied))
                for one in self._stores(call, tied)
            ],
            "in_place": tied["in_place"],
            "lines": self._lines(call, tied, self.kernels.get(call["kernel"])),
        }

    def _work(self, call: Call, tied: dict, known: set[str]) -> Any:
        """What a call `computes`, what of earlier calls it computes `again`, what it has `parts` of, what it moves.

        Args:
            call: of the graph.
            tied: what was found of it.
            known: operations that earlier calls compute.
        """
        held = {buffer: names for buffer, (names, part) in self._held_before(tied).items() if part in WHOLE}
        loaded = {name for buffer in tied["reads"] for name in held.get(buffer, [])}
        lines = [one for one in tied["lines"] if one["nodes"]]
        here = self._in_text(call, tied, lines, loaded)
        in_lines = {name for one in lines if one["part"] in WHOLE for name in one["nodes"]}
        # what the memory alone shows: what it is filled with, an atomic addition's sum
        for one in tied["stores"]:
            if one["nodes"] and not one["part"] and not {*one["nodes"]} & {*loaded, *here}:
                here += self._meant(call, one["nodes"])
            # what is copied into an input was computed or loaded, and is a node of its own all the same
            here += [
                name for name in one["nodes"] if self._is_copy(name) and not one["part"] and self._is_noted(call, name)
            ]
        if not lines and not loaded:  # one number, in a part of what is there: no values but its own
            few = [name for name, one in self.ties["nodes"].items() if one.get("few")]
            here += [name for name in few if self._fills(call, tied, name) and name not in self._constant]
        here = [name for name in dict.fromkeys(here) if name in self.nodes and not self._is_of_others(name, tied)]
        lacking = self._lacking({*here})
        own = [name for name in self._operations(here) if name not in lacking]
        # of what is cut out of a result, and computed nowhere else, a part of that result is computed
        parts = [(one["nodes"][0], one["part"]) for one in lines if one["part"] in UNFINISHED]
        parts += [(name, one["part"]) for one in lines if one["part"] == SLICE for name in self._written_for(call, one)]
        parts += [
            (one["nodes"][0], one["part"])
            for one in self._stores(call, tied)
            if one["part"] == PARTIAL and one["nodes"]
        ]
        parts += [(name, "other") for name in here if self._seen(name)[1] or self._whole(name) in lacking]
        before = loaded.union(*held.values())
        elsewhere = {self._seen(name)[0] for name in before | in_lines if name in self.nodes} - {*here}
        unfinished = {
            (name, part): None
            for one, part in parts
            if one in self.nodes and self._seen(one)[0] not in elsewhere
            for name in self._operations([one], cut=True)
            if name not in own and name not in known
        }
        return {
            "computes": [name for name in own if name not in known],
            "again": [name for name in own if name in known],
            "parts": [{"node": name, "part": part} for name, part in unfinished],
            "moves": [
                *(name for name in tied["moves"] if name not in own),
                *(name for name in here if self._seen(name)[1] and self._seen(name)[0] in elsewhere),
            ],
        }

    def _in_text(self, call: Call, tied: dict, lines: list[dict], loaded: set[str]) -> list[str]:
        """The nodes that a call's lines compute: of several that are equal, those that Inductor wrote a line for.

        Its notes propose, and values decide: what a line was written for and does not have, it does not compute.
        """
        found = list[str]()
        for one in lines:
            # a value that is rounded later, or never where it is used at once, is computed all the same
            names = [name for name in one["nodes"] if name in self.nodes and name not in self._constant]
            meant = [name for name in self._written_for(call, one) if name in names]
            # an index or a constant is in the code of what it is for, and no line is its own
            names = [
                name for name in names if name in meant or self.nodes[name]["fate"] not in ("folded", "inner graph")
            ]
            if one["part"] not in WHOLE or not names:
                continue
            new = [name for name in names if name in tied["computes"] and name not in loaded]
            loads = self._proposals(call, loads=True).get(one["line"])
            if meant:
                handed = [*meant]
                for name in self._meant(call, new):
                    handed += [name] if name not in handed and self._hands_on(name, handed) else []
                found += handed
            elif (
                loads is not None
            ):  # what is in memory was not computed here, but for what the load itself is, a lookup
                for name in new:
                    whole = {
                        one for one in (name, *self._operations([name])) if not ARITHMETIC.match(self._target(one))
                    }
                    found += [name] if whole & loads else []
            elif new:
                found += self._meant(call, new)
            elif not one["first"] and not {*one["nodes"]} & loaded:
                found += self._meant(call, names)
        return found

    def _hands_on(self, name: str, given: list[str]) -> bool:
        """Whether a node has the values of one of others because it reads it: a copy into an input."""
        return bool({self._seen(one)[0] for one in self.nodes[name]["inputs"]} & {*given})

    def _written_for(self, call: Call, line: dict) -> list[str]:
        """Those of a line's nodes that Inductor wrote it for."""
        proposed = self._proposals(call)[line["line"]]
        return [name for name in line["nodes"] if name in self.nodes and {name, *self._operations([name])} & proposed]

    def _meant(self, call: Call, names: list[str]) -> list[str]:
        """Of nodes that are equal those that Inductor notes for a call; where it notes none of them, the first."""
        return [name for name in names if self._is_noted(call, name)] or names[:1]

    def _is_noted(self, call: Call, name: str) -> bool:
        return bool({name, *self._operations([name])} & {*call["aten_nodes"]})

    def _is_of_others(self, name: str, tied: dict) -> bool:
        """Whether a node copies into an input that a call does not write: it has the values, and copies nothing."""
        into = self._seen(self.nodes[name]["inputs"][0])[0] if self._is_copy(name) else name
        return self.nodes[into]["op"] == "placeholder" and into not in tied["writes"]

    def _target(self, name: str) -> str:
        return self.nodes[name]["target"] if name in self.nodes else ""

    def _is_copy(self, name: str) -> bool:
        return self._target(name) == COPY

    def _proposals(self, call: Call, *, loads: bool = False) -> dict[int, set[str]]:
        """By line of a kernel's text, the ATen nodes that Inductor wrote it for; what loads or stores proposes none."""
        if (call["id"], loads) not in self._proposed:
            found = self._proposed[call["id"], loads] = defaultdict(set)
            for line, operations in self._operations_in(call).items():
                for _, one in operations:
                    if one["operation"] == "load" if loads else self._computes(one):
                        found[line].add(one["producer"])
        return self._proposed[call["id"], loads]

    def _operations_in(self, call: Call) -> dict[int, list[tuple[str, dict]]]:
        """By line of a kernel's text, the operations of loops that it was written for, each with its scheduler node."""
        if call["id"] not in self._operations_at:
            found = self._operations_at[call["id"]] = defaultdict(list)
            for definition in self._definitions:
                for index, node, name, _ in definition["operations"] if definition["name"] == call["kernel"] else ():
                    own = self._operations_of.get(node, ()) if node in call["scheduler_nodes"] else ()
                    found[index + 1] += [(node, one) for one in own if one["name"] == name]
        return self._operations_at[call["id"]]

    def _computes(self, operation: dict) -> bool:
        """Whether an operation of a loop is more than to move memory; a conversion is, where a node asks for it."""
        producer = self.nodes.get(operation["producer"])
        if operation["operation"] == "to_dtype":
            return producer is not None and CONVERTS.search(producer["target"]) is not None
        if operation["operation"] == "value_expr":  # a position is no comparison of positions
            return producer is not None and producer["dtype"] != "bool"
        return producer is not None and operation["operation"] not in (*MOVES, BOUNDED)

    def _held_before(self, tied: dict) -> dict[str, tuple[list[str], str | None]]:
        """By buffer, the nodes whose values it has when a call begins, and what part of the first."""
        held: dict[str, tuple[list[str], str | None]] = {}
        for name, buffer in self.ties["buffers"].items():
            if buffer["input"]:
                held[name] = [buffer["input"]], None
        for one in self.ties["calls"]:
            if one["call"] >= tied["call"]:
                break
            for written, over in one.get("in_place", ()):
                if over != written:
                    held[over] = [], None
            for store in one.get("stores", ()):
                held[store["buffer"]] = store["nodes"], store["part"]
            if one["status"] != "verified":  # nobody looked what it left
                held |= {name: ([], None) for name in one["writes"]}
        # what no call's stores tell of, a library's result say, has what was found in it afterwards
        told = {name for one in self.ties["calls"] for name in one["writes"]}
        for name, buffer in self.ties["buffers"].items():
            if name not in held and name not in told and (buffer["nodes"] or not self._names_before(name, tied)):
                held[name] = buffer["nodes"], None
        # a call is given memory by the name that it has from then on
        for name in tied["reads"]:
            if name not in held and (before := self._names_before(name, tied)):
                held[name] = held.get(before[-1], ([], None))
        return held

    def _names_before(self, name: str, tied: dict) -> list[str]:
        """The names under which earlier calls wrote all of some memory, the last at the end."""
        known = self.ties["buffers"]
        own = known.get(name)
        written = [one for call in self.ties["calls"][: tied["call"]] for one in call["writes"]]
        same = own and {
            one for one, its in known.items() if all(its[key] == own[key] for key in ("allocation", "bytes"))
        }
        return [one for one in written if same and one in same]

    def _operations(self, names: Iterable[str], *, cut: bool = False) -> list[str]:
        """The operations that nodes are the results of, each once: of a view what it is a view of.

        Args:
            names: of nodes; what is no operation's result is left out.
            cut: whether those of which a node is a part alone are among them.
        """
        found = [self._seen(name) for name in names if name in self.nodes]
        operations = [self._whole(seen) for seen, part in found if cut or not part]
        return [name for name in dict.fromkeys(operations) if self.nodes[name]["op"] == "call_function"]

    def _lacking(self, new: set[str]) -> set[str]:
        """The operations with several results of which some that are taken are not among what was found."""
        taken: dict[str, set[str]] = defaultdict(set)
        for name in self.nodes:
            if (whole := self._whole(name)) != name:
                taken[whole].add(name)
        return {whole for whole, results in taken.items() if results & new and not results <= new}

    def _seen(self, name: str) -> tuple[str, bool]:
        """What a node is a view of, through whatever views, and whether it is a part of that."""
        node = self.nodes[name]
        fewest = most = _points(node)
        while node["fate"] == "view" and node["inputs"] and not is_one_result(node, self.nodes):
            node = self.nodes[node["inputs"][0]]
            points = _points(node)
            if points is not None:  # a split is several tensors
                most = points
                fewest = points if fewest is None else min(fewest, points)
        return node["name"], fewest is not None and most is not None and fewest < most

    def _whole(self, name: str) -> str:
        """An operation of whose several results a node is one; the node itself for any other."""
        node = self.nodes[name]
        return node["inputs"][0] if node["inputs"] and is_one_result(node, self.nodes) else name

    def _begun(self, name: str, call: Call) -> bool:
        """Whether a library's call was made for a node, which ends nowhere but in this kernel."""
        return any(
            one["extern"] and (one["line"] or 0) < (call["line"] or 0) and name in one["aten_nodes"]
            for one in self.graph["calls"]
        )

    def _stores(self, call: Call, tied: dict) -> list[dict]:
        """What a call leaves in memory; parts that a node can be made of are told where the call was written for it."""
        meant = set().union(*self._proposals(call).values())
        return [
            one if one["part"] != PARTIAL or {*self._operations(one["nodes"][:1])} & meant else {**one, "nodes": []}
            for one in tied["stores"]
        ]

    def _stored(self, buffer: str, nodes: list[str], part: str | None, *, ended: bool = False) -> Stored:
        known = self.ties["buffers"].get(buffer, {})
        return {"buffer": buffer, "nodes": nodes, "part": part, "returned": bool(known.get("returned")) and not ended}

    def _is_gone(self, store: dict, tied: dict) -> bool:
        """Whether a later call writes the memory that a call has written, so that this is not what is returned."""
        known = self.ties["buffers"].get(store["buffer"])
        later = [one for one in self.ties["calls"] if one["call"] > tied["call"]]
        if any(over == store["buffer"] for one in later for _, over in one["in_place"]):
            return True
        if known is None:
            return False
        there = {name for name, each in self.ties["buffers"].items() if each["allocation"] == known["allocation"]}
        if any(there.intersection(one["reads"]) for one in later if one["status"] != "verified"):
            return True  # what it was given it may have written
        if store["part"]:
            return False
        same = {
            name for name, each in self.ties["buffers"].items()
            if all(each[key] == known[key] for key in ("allocation", "bytes"))
        }  # fmt: skip
        # a library's call that changes its operand in place is known by what it leaves there
        return any(same.intersection((*one["writes"], *(each["buffer"] for each in one["stores"]))) for one in later)

    def _lines(self, call: Call, tied: dict, kernel: Kernel | None) -> list[dict]:
        """The kernel's lines that have a node's values, by their numbers in the code pane.

        Of several equal nodes the one is first that Inductor wrote the line for, or that is in the memory which the
        line loads, or was computed last, or that Inductor notes for the call; where a line casts, what it casts is.
        """
        if kernel is None:
            return []
        held = self._held_before(tied)
        loaded = {name for buffer in tied["reads"] for name in held.get(buffer, ([], None))[0]}
        found, loads, latest = [], self._proposals(call, loads=True), dict[str, None]()
        text, was = self._sources.get(call["kernel"], []), dict[str, list[str]]()  # by name in the text, its nodes
        for one in tied["lines"]:
            name, _, given = text[one["line"] - 1].partition("=") if one["line"] <= len(text) else ("", "", "")
            first = self._written_for(call, one)
            latest = {name: None for name in latest if name not in first} | dict.fromkeys(first)
            there = self._there(call, one["line"], held, loaded) if one["line"] in loads else loaded
            if not first and one["line"] in loads:
                first = [name for name in one["nodes"] if name in there]
            elif not first and one["part"] in WHOLE and (cast := ROUNDED.match(given)) and cast[1] in was:
                first = [node for node in was[cast[1]] if node in one["nodes"]]
            elif not first and one["part"] in WHOLE:
                first = [name for name in reversed(latest) if name in one["nodes"]]
            # zeros are some elements of much: where a line is not all of a node, it was loaded or is meant to be
            known = [name for name in one["nodes"] if name in self.nodes and (one["part"] != SLICE or name in there)]
            names = dict.fromkeys([*first, *self._meant(call, known), *known])
            was |= {value: [*names] for value in VALUE.findall(name)}
            if names:
                line = kernel["first"] + one["line"] - 1
                found.append({"line": line, "nodes": [*names], "part": one["part"], "elements": one["elements"]})
        return found

    def of_node(self, node: Node, made: list[dict]) -> Node:
        """A node with what became of its result by values, where they were found."""
        if node["fate"] is None or (node["fate"] == "view" and not is_one_result(node, self.nodes)):
            return node
        name = self._kept(node["name"])
        if name in self._stored_by:
            kinds = self._stored_by[name]  # what a library left there is the library's, and the copy is who copies it
            library = kinds[0] == "library" and (name == node["name"] or {*kinds} == {"library"})
            fate = "extern call" if library else "materialised"
            holding = [one for one, found in self.ties["buffers"].items() if name in found["nodes"]]
            buffer = node["buffer"] if node["buffer"] in holding or not holding else holding[0]
            return self._became(node, fate, buffer)
        # where a call was not run its memory may hold what others only compute
        if name in self._in_lines and not self._refused_writes and node["fate"] != "folded" and not self._is_copy(name):
            had_buffer = any(one["node"] == node["name"] for one in made)
            fate = node["fate"] if node["fate"] in LEAVES_IN_LINES else LEAVES_IN_LINES[had_buffer]
            return self._became(node, fate, node["buffer"])
        return node

    def _became(self, node: Node, fate: str, buffer: str | None) -> Node:
        """A node with its fate; what takes one of several results stays a view, in a buffer where it is stored."""
        if node["fate"] == "view":
            return {**node, "buffer": None if fate in LEAVES_IN_LINES else buffer, "by": "values"}
        return {**node, "fate": fate, "buffer": buffer, "by": "values"}

    def _kept(self, name: str) -> str:
        """The node whose elements another has, in another order perhaps, where ties call that a view: a clone's."""
        while self.ties["nodes"].get(name, {}).get("where") == "view" and self.nodes[name]["inputs"]:
            name = self.nodes[name]["inputs"][0]
        return name

    def of_buffer(self, buffer: Buffer) -> Buffer:
        """A buffer with the node whose values it has at the end, where that is known."""
        found = self.ties["buffers"].get(buffer["name"])
        if found is None or buffer["input"]:
            return buffer
        names = found["nodes"]
        if not names and not {*found["written_by"]} & self._verified:  # nobody looked what a call left there
            return buffer
        node = buffer["node"] if buffer["node"] in names or not names else names[0]
        return cast(Buffer, {**buffer, "node": node if names else None, "removed": False, "by": "values"})
