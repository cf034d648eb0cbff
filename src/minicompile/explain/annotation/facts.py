"""What a capture says about one kernel: operations fused in it, reads and writes, reductions, and what is absent.

Each function returns plain data for the annotation's template, and leaves out what the capture does not hold. Byte
counts are sums of the capture's own.
"""

import re
from math import prod

from minicompile.explain.annotation.pointers import pointer_accesses, pointers
from minicompile.explain.annotation.results import COPY, in_memory, operation_record, parts
from minicompile.explain.annotation.view import READS, WRITES, KernelView
from minicompile.lowering.captured import DTYPE_VIEW, Coded, Decision, Node, SchedulerNode

ORDERED = ("Scan", "SplitScan", "Sort")  # Inductor's classes of loops along an axis that reduce nothing
REUSE = re.compile(r"^\s*(?P<new>\w+) = (?:reinterpret_tensor\()?(?P<old>\w+)\b.*\bdel (?P=old)\s+# reuse")


def operations(view: KernelView) -> list[dict]:
    """The fused ATen operations, each an `operation_record`."""
    return [operation_record(view, node) for node in view.fused]


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


def elsewhere(view: KernelView) -> list[dict]:
    """Other calls that some of the same ATen operations have a part in: `kernel`, `line`, `nodes`."""
    inside = {node["name"] for node in view.fused}
    calls = [call for call in view.graph["calls"] if call["id"] != view.call["id"] and not call["extern"]]
    shared = [(call, [name for name in call["aten_nodes"] if name in inside]) for call in calls]
    return [{"kernel": call["kernel"], "line": call["line"], "nodes": nodes} for call, nodes in shared if nodes]


def groups(view: KernelView) -> list[dict]:
    """The scheduler's groups in the kernel: `members`, and the ATen nodes that they compute."""
    found = []
    for number in view.call["groups"]:
        members = view.graph["groups"][number]["members"]
        origins = {origin for node in view.scheduler_nodes if node["name"] in members for origin in node["aten_nodes"]}
        found.append({"members": members, "nodes": [node["name"] for node in view.fused if node["name"] in origins]})
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
            "producers": [operation_record(view, view.nodes[one]) for one in node["aten_nodes"] if one in view.nodes],
        }
        for node in view.scheduler_nodes
        if node["computes"] in ORDERED
    ]


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
            "producers": [operation_record(view, view.nodes[name]) for name in producers if name in view.nodes],
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
    `apart` are the bytes that the kernel's operations would move one by one (`moved_apart`). `partial` are buffers that
    the kernel writes though they are no ATen node's result.
    """
    results = [
        (node, one)
        for node in view.fused if node["target"] != DTYPE_VIEW  # it has no memory of its own, in eager neither
        for one in ([node] if node["size"] is not None else parts(view, node))
    ]  # fmt: skip
    targets = {one["name"]: node["target"] for node, one in results}
    gone = [one for _, one in results if one["size"] is not None and not in_memory(view, one)]
    partial = [
        view.buffers[name]
        for name in sorted(view.written & set(view.parameters.values()))
        if view.buffers[name]["node"] is None and view.buffers[name]["bytes"] is not None
    ]
    in_scratch = {entry["buffer"] for entry in writes(view)["scratch"]}
    handed_over = [node for node in gone if view.graph["direction"] == "forward" and _handed_over(view, node["name"])]
    lengths = [node["bytes"] for node in handed_over]
    return {
        "intermediates": [{**operation_record(view, node), "target": targets[node["name"]]} for node in gone],
        "all_stored": bool(view.fused) and all(in_memory(view, node) for node in view.fused),
        "bytes": sum(node["bytes"] or 0 for node in gone),
        "unknown": any(node["bytes"] is None for node in gone),
        "apart": moved_apart(view),
        "scratched": [node["name"] for node in gone if node["buffer"] in in_scratch],
        "handed_over": [node["name"] for node in handed_over],
        "handed_over_bytes": None if None in lengths else sum(filter(None, lengths)),
        "partial": partial,
    }


def moved_apart(view: KernelView) -> int | None:
    """Bytes that the kernel's operations would move were each a kernel of its own: every operand and result, once.

    None where a size is not known, where an index comes out of memory, so that an operand need not be read whole, and
    where the kernel computes part of an operation only.
    """
    if view.call["bytes_are"] != "touched" or not view.fused or elsewhere(view):
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


def what_is(view: KernelView, buffer: str) -> str:
    """A buffer in words: an input of the graph, the result of an ATen node, or a partial result."""
    known = view.buffers.get(buffer)
    if known is None:
        return view.words("buffers.unknown")
    if known["input"]:
        graph = view.within(buffer)
        return view.words("buffers.input_of", graph=graph) if graph else view.words("buffers.input")
    if known["node"] is not None:
        node = made = view.nodes[known["node"]]
        while made["fate"] == "view" and made["inputs"]:
            made = view.nodes[made["inputs"][0]]
        key = "buffers.result" if made is node else "buffers.seen_as"
        return view.words(key, target=made["target"], node=made["name"], name=node["name"])
    maker = next((node for node in view.graph["scheduler_nodes"] if buffer in node["buffers"]), None)
    if maker is None:
        return view.words("buffers.unknown")
    computed = [view.nodes[name] for name in maker["aten_nodes"] if name in view.nodes]
    if maker["extern"] and len(computed) == 1:  # a call that changes memory which it is given
        return view.words("buffers.result", target=computed[0]["target"], node=computed[0]["name"])
    key = "buffers.reduction" if _reduces(maker) else "buffers.partial"
    return view.words(key, node=maker["name"], reduction=maker["reduction_type"])


def is_result(view: KernelView, buffer: str) -> bool:
    """Whether a buffer is, perhaps through views, among the results that the graph returns."""
    node = view.buffers[buffer]["node"] if buffer in view.buffers else None
    return node is not None and any(user["op"] == "output" for user in view.users(node))


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
    for entry in found.values():
        entry["places"] = [{"expression": place, "lines": [*lines]} for place, lines in entry["places"].items()]
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
    return list(found.values())


def _entry(view: KernelView, buffer: str, pointer: str, element: str | None, content: str | None = None) -> dict:
    """An access to a buffer, in which is what `content` names, since buffers are changed."""
    parameter = view.aliases.get(pointer, pointer)
    given = view.parameters.get(parameter)
    return {
        "buffer": buffer,
        "content": content or buffer,
        "what": what_is(view, content or buffer),
        "bytes": view.buffers[buffer]["bytes"] if buffer in view.buffers else None,
        "result": is_result(view, content or buffer),
        "within": view.within(buffer),
        "pointer": pointer,
        "parameter": parameter if given is not None else None,
        "given": given,
        "reused": None if given is None or buffer in given else _reuse(view, buffer, given),
        "element": element,
        "places": {},
    }


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
