"""What a capture says about one kernel: operations fused in it, reads and writes, reductions, and what is absent.

Each function returns plain data for the annotation's template, and leaves out what the capture does not hold. Byte
counts are sums of the capture's own.
"""

import re
from collections import Counter
from math import prod
from typing import cast

from minicompile.explain.annotation.pointers import pointer_accesses, pointers
from minicompile.explain.annotation.results import COPY, evidence_of, in_memory, operation_record, parts
from minicompile.explain.annotation.view import READS, WRITES, KernelView
from minicompile.explain.evidence import Fact, Kind, of_call, weakest
from minicompile.lowering.by_values import computed
from minicompile.lowering.captured import DTYPE_VIEW, Coded, Decision, Node, Operation, SchedulerNode, Stored

ORDERS = re.compile(r"scan|sort")  # operations of those loops
ORDERED = ("Scan", "SplitScan", "Sort")  # Inductor's classes of loops along an axis that reduce nothing
REUSE = re.compile(r"^\s*(?P<new>\w+) = (?:reinterpret_tensor\()?(?P<old>\w+)\b.*\bdel (?P=old)\s+# reuse")


def operations(view: KernelView) -> list[dict]:
    """The fused ATen operations, each an `operation_record`."""
    return [operation_record(view, node) for node in view.fused]


def fused(view: KernelView) -> Fact:
    """How many operations are in the kernel, or what it does instead."""
    if any(node["user_triton"] for node in view.scheduler_nodes):
        return view.said("fused.users", names=_listed(computed(view.call)), evidence="notes")
    if len(view.fused) > 1 or (view.fused and view.incomplete):
        return view.said("fused.found" if view.incomplete else "fused.several", count=len(view.fused))
    if view.finished and view.fused:
        return view.said("fused.rest")
    if view.fused:
        given = [name for name in view.fused[0]["inputs"] if view.nodes[name]["op"] == "get_attr"]
        functions = given if view.templates else []  # a template has the text of what it is to apply in its own
        return view.said("fused.with_functions" if functions else "fused.one", names=_listed(functions))
    if view.unfinished:
        return view.said("fused.parts")
    for what in ("copies", "fills"):
        if getattr(view, f"only_{what}"):
            return view.said(f"fused.{what}")
    return view.said("fused.nothing" if view.values is None else "fused.none")


def unfinished(view: KernelView) -> list[Fact]:
    """The operations of which the kernel has a part alone, and those that only notes say it computes."""
    found = [view.said(f"parts.{part}", node=node["name"], target=node["target"]) for node, part in view.unfinished]
    if view.values is not None and view.fused and view.values["moves"]:
        found.append(view.said("fused.moves", names=_listed(view.values["moves"])))
    for key, elsewhere in (("fused.unfound", False), ("fused.a_part", True)):
        if names := [node["name"] for node in view.unfound if view.is_found(node) == elsewhere]:
            found.append(view.said(key, "notes", names=_listed(names)))
    return found


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def templates(view: KernelView) -> list[dict]:
    """The templates of torch's in the kernel: `node`, the `operations` it computes, and what it `reads` and `writes`.

    The buffers are those of Inductor's account; no line of a template is tied to them.
    """
    return [
        {
            "node": node["name"],
            "operations": [one["name"] for one in view.fused if one["name"] in node["aten_nodes"]],
            "reads": list(dict.fromkeys(one["buffer"] for one in node["reads"])),
            "writes": [
                one for one in dict.fromkeys(one["buffer"] for one in node["writes"])
                if one in view.buffers and not view.buffers[one]["removed"]
            ],
        }
        for node in view.templates
    ]  # fmt: skip


def elsewhere(view: KernelView) -> list[Fact]:
    """Other calls that some of the same ATen operations have a part in."""
    inside = {node["name"] for node in (*view.fused, *(one for one, _ in view.unfinished))}
    calls = [call for call in view.graph["calls"] if call["id"] != view.call["id"] and not call["extern"]]
    shared = [(call, [name for name in computed(call) if name in inside]) for call in calls]
    return [
        view.said(
            "elsewhere",
            weakest([view.evidence, of_call(call)]),
            kernel=call["kernel"], line=call["line"], names=_listed(names),
        )
        for call, names in shared if names
    ]  # fmt: skip


def groups(view: KernelView) -> list[Fact]:
    """The scheduler's groups in the kernel, each with the ATen nodes that it was made for."""
    found = []
    for number in view.call["groups"]:
        members = view.graph["groups"][number]["members"]
        origins = {origin for node in view.scheduler_nodes if node["name"] in members for origin in node["aten_nodes"]}
        names = [node["name"] for node in view.fused if node["name"] in origins]
        what = {"members": ", ".join(members), "names": _listed(names)}
        key = "groups.for" if names else "groups.alone"
        # of a group alone the scheduler's own list tells; for what it was made, Inductor's notes
        found.append(view.said(key, "notes" if names else "values", **what))
    return found


def decisions(view: KernelView) -> dict:
    """Fusions that made the kernel's groups (`taken`), and by reason its nodes' with others (`refused`)."""
    inside = {node["name"] for node in view.scheduler_nodes}
    taken: list[Decision] = []
    refused: dict[str, tuple[Coded, list[Decision]]] = {}
    for decision in view.graph["decisions"]:
        first, second = set(decision["first"]), set(decision["second"])
        if decision["taken"] and first | second <= inside:
            taken.append(decision)
        elif not decision["taken"] and (first <= inside) != (second <= inside) and (first | second) & inside:
            refused.setdefault(str(decision["reason"]), (decision["reason"], []))[1].append(decision)
    return {"taken": taken, "refused": list(refused.values())}


def reads(view: KernelView) -> dict[str, list[dict]]:
    """Where memory is read: `input` from before the call, `own` what the kernel itself wrote.

    Each entry: `buffer`, `content`, the name of what is in it then, `what` that is, `pointer`, `element` (the loop
    body's index), and `places`, each an `expression` in the kernel's variables with the `lines` where it stands. A
    binary search decides while it runs which elements it reads: of those that it goes through, `element` and the one
    `expression` are None. Through a block pointer or a tensor descriptor there is no `expression` either.
    """
    entries = _accesses(view, READS) + _searches(view)
    own = [entry for entry in entries if entry["content"] in view.written]
    return {"input": [entry for entry in entries if entry not in own], "own": own}


def writes(view: KernelView) -> dict[str, list[dict]]:
    """Where results are written: `memory` through a parameter, `scratch` through a pointer of the kernel's own."""
    entries = _accesses(view, WRITES)
    memory = [entry for entry in entries if entry["parameter"]]
    return {"memory": memory, "scratch": [entry for entry in entries if entry not in memory]}


def nothing_given(view: KernelView) -> dict[str, bool]:
    """Whether the kernel has no pointer to read from, and whether it has none to write to, as Inductor names them."""
    named = pointers(view)
    return {
        "reads": all(re.fullmatch(r"out_ptr\d+", name) for name in named),
        "writes": all(re.fullmatch(r"in_ptr\d+", name) for name in named),
    }


def ordered(view: KernelView) -> list[dict]:
    """Scans and sorts, which reduce nothing: the `kind` of each, its `node`, and its `producers` in ATen."""
    return [
        {
            "kind": "sort" if node["computes"] == "Sort" else "scan",
            "node": node["name"],
            "producers": _producers(view, [one for one in node["operations"] if ORDERS.match(one["operation"])], node),
        }
        for node in view.scheduler_nodes
        if node["computes"] in ORDERED
    ]


def _producers(view: KernelView, operations: list[Operation], node: SchedulerNode) -> list[dict]:
    """The ATen nodes that operations of a loop were written for; of those that values refute, none."""
    names = [one["producer"] for one in operations if one["producer"]] or node["aten_nodes"]
    if view.values is not None:
        own = {*computed(view.call)}
        names = [name for name in names if name in own]
    return [operation_record(view, view.nodes[name]) for name in dict.fromkeys(names) if name in view.nodes]


def reductions(view: KernelView) -> list[dict]:
    """The reductions, those of one kind and size of one ATen node together; a scan or a sort is none.

    Each entry: `type`, the scheduler's `nodes`, `length` of what is reduced, number of `results`, `producers` in ATen.
    Where one is split in two steps, `first_step` or `last_step` is the other step: `nodes`, `kernel`, `line`.
    """
    found: dict[tuple, dict] = {}
    every = [node for node in view.graph["scheduler_nodes"] if _reduces(node)]
    for node in filter(_reduces, view.scheduler_nodes):
        reducing = [one for one in node["operations"] if one["operation"] == "reduction"]
        producers = [one["producer"] for one in reducing if one["producer"]] or node["aten_nodes"]
        sizes = node["loop_sizes"] or [[], []]
        key = (node["reduction_type"], tuple(producers), str(sizes))
        entry = {
            "type": node["reduction_type"],
            "nodes": [],
            "producers": _producers(view, reducing, node),
            "results": _product(sizes[0]),
            "length": _product(sizes[1]),
            "first_step": _step(view, [one for one in every if _continues(node, one)]),
            "last_step": _step(view, [one for one in every if _continues(one, node)]),
        }
        found.setdefault(key, entry)["nodes"].append(node["name"])
    return list(found.values())


def _reduces(node: SchedulerNode) -> bool:
    return node["is_reduction"] and node["computes"] not in ORDERED


def _continues(last: SchedulerNode, first: SchedulerNode) -> bool:
    """Whether a reduction reduces nothing but what another one, of the same ATen operation, yields in parts."""
    if last is first or not last["loop_sizes"] or not first["loop_sizes"]:
        return False
    shared = set(last["aten_nodes"]) & set(first["aten_nodes"])
    read = {one["buffer"] for one in last["reads"]}
    makers = [one for one in (last, first) if read & set(one["buffers"])]
    given = _product([*last["loop_sizes"][0], *last["loop_sizes"][1]])
    return bool(shared) and makers == [first] and given == _product(first["loop_sizes"][0])


def _step(view: KernelView, nodes: list[SchedulerNode]) -> dict | None:
    """Where the other step of a split reduction is."""
    names = [node["name"] for node in nodes]
    calls = [call for call in view.graph["calls"] if set(call["scheduler_nodes"]) & set(names)]
    return {"nodes": names, "kernel": calls[0]["kernel"], "line": calls[0]["line"]} if calls else None


def absent(view: KernelView) -> dict:
    """What is not there: `intermediates`, results of the kernel's operations that no kernel stores as a whole.

    Of an operation with several results, each that is taken counts by itself, under the operation's target.

    `bytes` are those of the intermediates whose size is known, each once; `unknown` says whether there are others.
    `scratched` pass through scratch memory of the kernel's own. `handed_over` are the intermediates that one call of
    Dynamo's graph returns to another; `handed_over_bytes` is None where the size of one is not known.
    `apart` are the bytes that the kernel's operations would move one by one (`moved_apart`). `partial` tells of buffers
    that the kernel writes though they are no ATen node's result; `intro` and `nothing` are the sentences of the whole.
    """
    results = [
        (node, one)
        for node in view.fused if node["target"] != DTYPE_VIEW  # it has no memory of its own, in eager neither
        for one in ([node] if node["size"] is not None else parts(view, node))
    ]  # fmt: skip
    targets = {one["name"]: node["target"] for node, one in results}
    gone = [one for _, one in results if one["size"] is not None and not in_memory(view, one)]
    in_scratch = {entry["buffer"] for entry in writes(view)["scratch"]}
    handed_over = [node for node in gone if view.graph["direction"] == "forward" and _handed_over(view, node["name"])]
    lengths = [node["bytes"] for node in handed_over]
    return {
        "intermediates": [{**operation_record(view, node), "target": targets[node["name"]]} for node in gone],
        "bytes": sum(node["bytes"] or 0 for node in gone),
        "unknown": any(node["bytes"] is None for node in gone),
        "apart": moved_apart(view),
        "scratched": [node["name"] for node in gone if node["buffer"] in in_scratch],
        "handed_over": [node["name"] for node in handed_over],
        "handed_over_bytes": None if None in lengths else sum(filter(None, lengths)),
        "partial": _partial(view),
        **_told_of(view, gone),
    }


def _partial(view: KernelView) -> Fact | None:
    """The buffers that the kernel writes though they are no ATen node's result."""
    if view.values is not None:  # of what was found to be no node's, only parts of one are known to be none
        names = [one["buffer"] for one in view.values["stores"] if one["part"] in ("partial", "accumulated")]
    elif view.only_fills:  # it may be a result in parts, or whole, of the operation that it prepares memory for
        return None
    else:
        names = [
            name for name in sorted(view.written & set(view.parameters.values())) if view.buffers[name]["node"] is None
        ]
    known = [view.buffers[name] for name in dict.fromkeys(names) if name in view.buffers]
    with_bytes = ", ".join(
        view.words("absent.buffer", name=one["name"], count=one["bytes"])
        for one in known if one["bytes"] is not None
    )  # fmt: skip
    return view.said("absent.partial", buffers=with_bytes) if with_bytes else None


def _told_of(view: KernelView, gone: list[Node]) -> dict[str, Fact | None]:
    """What is said of the results that no kernel stores: `intro` before them, `nothing` where there are none."""
    evidence: Kind = weakest([view.evidence, *(evidence_of(view, node) for node in gone or view.fused)])
    if gone:
        return {"intro": view.said("absent.intro", evidence), "nothing": None}
    if view.fused and all(in_memory(view, node) for node in view.fused) and not view.incomplete:
        return {"intro": None, "nothing": view.said("absent.all_stored", evidence)}
    if view.values is None and view.kernel["granularity"] == "kernel":
        return {"intro": None, "nothing": view.said("absent.unseen", "values")}
    silent = view.fused or view.unfinished or view.incomplete
    return {"intro": None, "nothing": None if silent else view.said("absent.no_operation")}


def moved_apart(view: KernelView) -> int | None:
    """Bytes that the kernel's operations would move were each a kernel of its own: every operand and result, once.

    None where a size is not known, where an index comes out of memory, so that an operand need not be read whole, and
    where the kernel computes part of an operation only.
    """
    if view.call["bytes_are"] != "touched" or not view.fused or elsewhere(view):
        return None
    if view.finished or view.unfinished or view.incomplete:
        return None
    total = 0
    for node in view.fused:
        if node["target"] == DTYPE_VIEW:  # a kernel of its own has none to compute
            continue
        read = [view.nodes[name] for name in dict.fromkeys(node["inputs"])]
        if node["target"] == COPY:
            read = read[1:]  # what it copies into is not read
        results = [node] if node["size"] is not None else parts(view, node)
        for one in (*(one for one in read if one["fate"] != "folded"), *results):
            if (size := distinct_bytes(one)) is None:
                return None
            total += size
    return total


def distinct_bytes(node: Node) -> int | None:
    """Bytes of the addresses that a result has: an expanded axis is the same memory again. None where not known."""
    size, stride, known = node["size"], node["stride"], node["bytes"]
    if size is None or stride is None or known is None:
        return None
    repeated = [int(length) for length, step in zip(size, stride, strict=True) if step == 0 and length]
    return known // prod(repeated)


def what_is(view: KernelView, buffer: str, found: Stored | None = None, changed: bool = False) -> Fact:
    """A buffer in words: an input of the graph, the result of an ATen node, or a partial result.

    Args:
        view: of the kernel.
        buffer: by Inductor's name of what is in it.
        found: what was found in it by values.
        changed: it was written in part only, by what its name stands for.
    """
    known = view.buffers.get(buffer)
    if known is not None and known["input"]:
        graph = view.within(buffer)
        name = view.words("buffers.input_of", graph=graph) if graph else view.words("buffers.input")
        return Fact(name, "values")
    if found is not None:
        return _by_values(view, buffer, found)
    if known is None:
        return Fact(view.words("buffers.unknown"), "values")
    maker = next((node for node in view.graph["scheduler_nodes"] if buffer in node["buffers"]), None)
    if changed and maker is not None:
        return Fact(view.words("buffers.changed", node=maker["name"]), "values")
    if known["node"] is not None:
        return _result(view, known["node"], known.get("by", "notes"))
    if maker is None:
        return Fact(view.words("buffers.unknown"), "values")
    made = [view.nodes[name] for name in maker["aten_nodes"] if name in view.nodes]
    if maker["extern"] and len(made) == 1:  # a call that changes memory which it is given
        return _result(view, made[0]["name"], "notes")
    key = "buffers.reduction" if _reduces(maker) else "buffers.partial"
    return Fact(view.words(key, node=maker["name"], reduction=maker["reduction_type"]), "values")


def _result(view: KernelView, name: str, evidence: Kind) -> Fact:
    """A buffer that has the values of a node, which may be a view of another."""
    node, made = view.nodes[name], _viewed(view, name)
    key = "buffers.result" if made is node else "buffers.seen_as"
    return Fact(view.words(key, target=made["target"], node=made["name"], name=node["name"]), evidence)


def _viewed(view: KernelView, name: str) -> Node:
    """What a node is a view of in the end; itself where it is none."""
    node = view.nodes[name]
    while node["fate"] == "view" and node["inputs"]:
        node = view.nodes[node["inputs"][0]]
    return node


def _is_librarys(view: KernelView, buffer: str) -> bool:
    """Whether a buffer is noted for a result of a library's call, or for a view of one."""
    name = view.buffers[buffer]["node"] if buffer in view.buffers else None
    return name is not None and _viewed(view, name)["fate"] == "extern call"


def _by_values(view: KernelView, buffer: str, found: Stored) -> Fact:
    """What was found in a buffer, or in the part of it that is given to the kernel."""
    names = [name for name in found["nodes"] if name in view.nodes]
    if not names:
        return Fact(view.words("buffers.filled" if view.only_fills else "buffers.not_found"), "values")
    if view.nodes[names[0]]["op"] == "placeholder":
        return Fact(view.words("buffers.holds_input", name=names[0]), "values")
    whole = _result(view, names[0], "values")
    larger = any(_is_larger(view, one, view.nodes[names[0]]) for one in (buffer, found["buffer"]))
    part = found["part"] or ("inside" if larger else None)
    return Fact(view.words(f"buffers.parts.{part}", whole=whole.what), "values") if part else whole


def _is_larger(view: KernelView, buffer: str, node: Node) -> bool:
    """Whether a buffer has more elements than a node: one of the pieces of which it is made is in it."""
    return (_elements_over(view, buffer, node) or 0) > 0


def _elements_over(view: KernelView, buffer: str, node: Node) -> int | None:
    """How many elements a buffer has more than a node, below 0 for fewer; None where that hangs on an input."""
    sizes = [one["size"] for one in (view.buffers.get(buffer), node) if one is not None and one["size"] is not None]
    if len(sizes) < 2 or any(isinstance(length, str) for size in sizes for length in size):
        return None
    return prod(map(int, sizes[0])) - prod(map(int, sizes[1]))


def is_result(view: KernelView, buffer: str, found: Stored | None = None, given: str | None = None) -> Fact | None:
    """That a buffer is, perhaps through views, among the results that the graph returns, where it is."""
    within = view.within(buffer)
    if found is not None:
        returned = found["returned"]
    elif view.values is not None and given is not None and buffer not in given:  # memory that has another name since
        return None
    else:
        node = view.buffers[buffer]["node"] if buffer in view.buffers else None
        returned = node is not None and any(user["op"] == "output" for user in view.users(node))
    if not returned:
        return None
    key, evidence = "returned_by" if within else "returned", "notes" if found is None else "values"
    return view.said(f"buffers.{key}", cast(Kind, evidence), graph=within)


def _accesses(view: KernelView, kinds: set[str]) -> list[dict]:
    found: dict[tuple, dict] = {}
    for line, text in view.lines:
        for operation in view.operations.get(line, []):
            access = view.access(operation) if operation.operation in kinds else None
            if access is None:
                continue
            buffer, element = access
            content = view.content(operation, buffer)
            for pointer, expression in pointer_accesses(text, view):
                key = buffer, content, pointer, element
                entry = found.setdefault(key, _entry(view, buffer, pointer, element, content))
                entry["places"].setdefault(expression, {})[line] = None
    given = Counter(one["given"] for one in found.values())
    for entry in found.values():
        entry["places"] = [{"expression": place, "lines": [*lines]} for place, lines in entry["places"].items()]
        # memory that is written twice under two names has at the end what was written last
        alone = given[entry["given"]] == 1 or entry["given"] == entry["buffer"]
        entry |= _held(view, entry, _written(view, entry, alone) if kinds is WRITES else _read(view, entry))
    return list(found.values())


def _searches(view: KernelView) -> list[dict]:
    found: dict[tuple, dict] = {}
    for line, text in view.lines:
        searched = [buffer for operation in view.operations.get(line, []) for buffer in view.searched(operation)]
        for pointer, buffer in view.parameters.items():
            if buffer in searched and re.search(rf"\b{re.escape(pointer)}\b", text):
                entry = found.setdefault((buffer, pointer), _entry(view, buffer, pointer, None))
                entry["places"] = entry["places"] or [{"expression": None, "lines": []}]
                entry["places"][0]["lines"].append(line)
                entry |= _held(view, entry, _read(view, entry))
    return list(found.values())


def _entry(view: KernelView, buffer: str, pointer: str, element: str | None, content: str | None = None) -> dict:
    """An access to a buffer, in which is what `content` names, since buffers are changed."""
    parameter = view.aliases.get(pointer, pointer)
    given = view.parameters.get(parameter)
    return {
        "buffer": buffer,
        "content": content or buffer,
        "bytes": view.buffers[buffer]["bytes"] if buffer in view.buffers else None,
        "pointer": pointer,
        "parameter": parameter if given is not None else None,
        "given": given,
        "reused": None if given is None or buffer in given else _reuse(view, buffer, given),
        "element": element,
        "places": {},
    }


def _held(view: KernelView, entry: dict, found: Stored | None) -> dict:
    """What an access finds or leaves in memory, and that the graph returns it, by what was found or by notes."""
    lengths = [view.buffers[name]["bytes"] for name in (entry["buffer"], entry["content"]) if name in view.buffers]
    changed = len({*lengths} - {None}) > 1
    return {
        "what": what_is(view, entry["content"], found, changed),
        "result": is_result(view, entry["content"], found, entry["given"]),
    }


def _written(view: KernelView, entry: dict, alone: bool) -> Stored | None:
    """What was found, after the call, in the memory that a parameter is given."""
    names = {*re.findall(r"\w+", entry["given"] or "")}
    if view.values is None or not alone:
        return None
    later = [call for call in view.graph["calls"] if (call["line"] or 0) > (view.call["line"] or 0)]
    changed = [one["buffer"] for call in later if "values" in call for one in call["values"].get("stores", [])]
    # the values that a buffer has in the end are not the kernel's where a later call changes them
    unknown = [Stored(buffer=name, nodes=[], part=None, returned=False) for name in names if name in changed]
    return next((one for one in (*view.values["stores"], *unknown) if one["buffer"] in names), None)


def _read(view: KernelView, entry: dict) -> Stored | None:
    """What was found in the memory that a parameter is given, before the call; or, where that says nothing, by lines.

    The kernel itself may have written there since, and then only its own lines tell what is read.
    """
    if view.values is None or entry["given"] is None:
        return None
    names = {*re.findall(r"\w+", entry["given"])}
    held = next((one for one in view.values["reads"] if one["buffer"] in names), None)
    if entry["content"] not in view.written and held is not None and held["nodes"]:
        return held
    if "indirect" in (entry["element"] or ""):  # what is looked up in memory is not what the memory holds
        return held if held is not None and (held["nodes"] or not _is_librarys(view, entry["content"])) else None
    lines = {line for place in entry["places"] for line in place["lines"]}
    loaded = [one for one in view.values["lines"] if one["line"] in lines]
    if loaded and {one["line"] for one in loaded} == lines and len({str(one["nodes"]) for one in loaded}) == 1:
        for stored in view.values["stores"]:  # of what the kernel itself has written, its loads may see a part
            if stored["buffer"] in names and _are_views(view, [*stored["nodes"][:1], *loaded[0]["nodes"][:1]]):
                return {**stored, "returned": False}
        node = view.nodes.get(loaded[0]["nodes"][0]) if loaded[0]["nodes"] else None
        # padded by a mask's other value
        if node is not None and (_elements_over(view, entry["content"], node) or 0) < 0:
            return held
        return {"buffer": entry["given"], "nodes": loaded[0]["nodes"], "part": loaded[0]["part"], "returned": False}
    return None if entry["content"] in view.written else held


def _are_views(view: KernelView, names: list[str]) -> bool:
    """Whether two nodes are different views of one, or one of them is a view of the other."""
    known = [_viewed(view, name)["name"] for name in names if name in view.nodes]
    return len({*names}) == len(known) == 2 and known[0] == known[1]


def _reuse(view: KernelView, old: str, new: str) -> int | None:
    """The wrapper's last line of those that hand the memory of buffer `old` on to `new`; None where none do."""
    owner, found = old, None
    for number, text in enumerate(view.code[: view.call["line"]], 1):
        if (match := REUSE.match(text)) and match["old"] == owner:
            owner, found = match["new"], number
    return found if owner == new else None


def _handed_over(view: KernelView, name: str) -> bool:
    """Whether all that use a node's result come from other calls of Dynamo's graph than the node does."""
    own = view.dynamo_calls(name)
    others = [view.dynamo_calls(user["name"]) for user in view.users(name)]
    return bool(own and others) and all(other and not own & other for other in others)


def _product(sizes: list) -> int | str:
    """How many there are; a product in letters where a length is symbolic."""
    return prod(sizes) if all(isinstance(size, int) for size in sizes) else "*".join(map(str, sizes))
