"""What is said of a kernel's lines, held against its text: accesses, contents, order, scans, structure, tours."""

import re
from collections import Counter

from zoo_models import Captured, Verdict
from zoo_runs import Ran

from minicompile.explain.annotation import facts
from minicompile.explain.annotation.annotate import annotate
from minicompile.explain.annotation.choice import views_of
from minicompile.explain.annotation.headline import in_order
from minicompile.explain.annotation.view import COMPUTED, KernelView
from minicompile.explain.explorer.tour import tour
from minicompile.lowering.captured import Call

COMPUTING = re.compile(r"^\s*(?:auto |float |\w+_t )?tmp\d+ = |associative_scan|sort_with_index")
POINTER = re.compile(r"\b((?:in_out|in|out)_ptr\d+)\b(?! *=)")
REUSED = re.compile(r"^\s*(?P<new>\w+) = (?P<old>\w+); del (?P=old) +# reuse")
MEMORY = re.compile(r"^(?:reinterpret_tensor\()?(\w+)")
IN_PLACE = re.compile(r"\.\w+_(?:\.|$)")  # aten.scatter_.src
HELD = re.compile(r"(?<=\(`)[^`]+(?=`\))|\bop\d+\b")
SIZE = re.compile(r"ks\d+|\w*numel|n")
STORES = re.compile(
    r"transpose_mxn<.*>\(tmp\d+, .*\b(?:in_)?out_ptr|\.store\(|tl\.store\(|atomic_add|_ptr\d+\[[^=]*\] [-+*|&]?= "
)
NAMED = re.compile(r"^# +\S+ => (.+)$", re.M)
SIGNED = re.compile(r"^(def \w+\(|\{)")
NOT_BODY = re.compile(r"^\s*(?:auto (?:in_|out_)\w+ = \w+;|(?:const )?[\w:]+\*|\w+(?:, \w+)+,?$)")


def of_templates(view: KernelView, way: str, places: set[tuple[str, int]]) -> set[tuple[str, int]]:
    """The places whose pointers a template is said to read or write: of these no line is told."""
    buffers = {name for template in facts.templates(view) for name in template[way]}
    return {(pointer, line) for pointer, line in places if view.parameters.get(pointer) in buffers}


def templates(one: Captured, _ran: Ran) -> Verdict:
    """A kernel out of a template computes the nodes that Inductor names above its text, the template's own among them;
    results that it is given memory for are in memory, and the others are not."""
    verdict = Verdict()
    for view in views_of(one.capture):
        if not view.templates:
            continue
        above = "\n".join(view.code[: view.kernel["first"]]).rpartition("ATen node mapping:")[2].split("\n\n")[0]
        named = {name for names in NAMED.findall(above) for name in names.split(", ")}
        told = {node["name"] for node in view.fused}
        computed = {name for name in named if view.nodes[name]["fate"] in COMPUTED} - (_of_other_kernels(view) - told)
        if named:  # there is no such comment in C++
            verdict.hold("template", told, computed, view.call["id"])
        given = set(view.parameters.values())
        for template in view.templates:
            for buffer in template["buffers"]:
                node = next((node for node in view.fused if node["buffer"] == buffer), None)
                if node is not None:
                    fate = "materialised" if buffer in given else "fused away"
                    verdict.hold("template's memory", node["fate"], fate, f"{view.call['id']}: {node['name']}")
    return verdict


def _of_other_kernels(view: KernelView) -> set[str | None]:
    """The ATen nodes that loops outside a kernel compute: Inductor names them of a template that is given them."""
    others = [node for node in view.graph["scheduler_nodes"] if node not in view.scheduler_nodes]
    return {one["producer"] for node in others for one in node["operations"]}


def accesses(one: Captured, _ran: Ran) -> Verdict:
    """The lines where memory is said to be read and written are those whose text has a pointer, in that direction."""
    verdict = Verdict()
    for view in views_of(one.capture):
        if view.kernel["granularity"] != "operation" or not view.operations:  # a branch's kernel has none
            continue
        told: dict[str, set] = {"reads": set(), "writes": set()}
        for way, parts in (("reads", facts.reads(view)), ("writes", facts.writes(view))):
            for entry in (entry for part in parts.values() for entry in part):
                told[way] |= {(entry["pointer"], line) for place in entry["places"] for line in place["lines"]}
        sizes = sorted(at for some in told.values() for at in some if SIZE.fullmatch(at[0]))
        verdict.false += [f"{view.call['id']}: memory is reached through the size {at}" for at in sizes]
        told = {way: {at for at in some if POINTER.fullmatch(at[0])} for way, some in told.items()}
        truth: dict[str, set] = {"reads": set(), "writes": set()}
        begins = [n for n, text in view.lines if SIGNED.match(text)] or [view.kernel["first"]]
        # a Triton kernel has its helpers before it, and a template's after it
        of_its_name = [n for n, text in view.lines if text.startswith(f"def {view.kernel['name']}(")]
        signature = (of_its_name or begins)[-1 if view.kernel["language"] != "cpp" else 0]
        end = next((n for n in begins if n > signature and of_its_name), view.kernel["last"] + 1)
        for number, text in view.lines:
            text = re.split(r"  #|//", text)[0]
            if signature < number < end and not NOT_BODY.match(text):
                way = "writes" if STORES.search(text) else "reads"
                truth[way] |= {(pointer, number) for pointer in POINTER.findall(text)}
        for way in ("reads", "writes"):
            verdict.held[way] += len(truth[way])
            wrong = sorted(told[way] ^ (truth[way] - of_templates(view, way, truth[way] - told[way])))
            verdict.false += [f"{view.call['id']}: {way} {at}, " + ("not in the text" if at in told[way] else "untold")
                              for at in wrong]  # fmt: skip
    return verdict


def contents(one: Captured, _ran: Ran) -> Verdict:
    """What memory is said to hold when a kernel reads it was computed by the call that wrote there last.

    Which call that is, the wrapper's lines tell: their order, whose memory each call is given, and what is reused.
    """
    verdict = Verdict()
    views = {view.call["id"]: view for view in views_of(one.capture)}
    for graph in one.capture["graphs"]:
        calls = {call["line"]: call for call in graph["calls"]}
        last: dict[str, Call | None] = {}
        for number, text in enumerate(one.text(graph, "code").split("\n"), 1):
            if match := REUSED.match(text):
                last[match["new"]] = last.get(match["old"])
            call = calls.get(number)
            if call is None:
                continue
            if view := views.get(call["id"]):
                for entry in facts.reads(view)["input"]:
                    match = MEMORY.match(entry["given"] or "")
                    if writer := last.get(match[1]) if match else None:
                        verdict.held["contents"] += 1
                        what = entry["what"].what
                        if not _said_to_hold(view, what) & {*writer["aten_nodes"], *writer["scheduler_nodes"]}:
                            verdict.false.append(
                                f"{call['id']}: {entry['given']} is {what}, but {writer['id']} wrote there"
                            )
            last |= dict.fromkeys(_written(call), call)
    return verdict


def _said_to_hold(view: KernelView, what: str) -> set[str]:
    """The ATen nodes, with what they are views of, and the scheduler nodes that a buffer is said to come from."""
    found = set(HELD.findall(what))
    for name in {name for name in found if name in view.nodes}:
        node = view.nodes[name]
        while node["fate"] == "view" and node["inputs"]:
            node = view.nodes[node["inputs"][0]]
            found.add(node["name"])
    return found


def _written(call: Call) -> list[str]:
    """The wrapper's names of the memory that a call writes, by its parameters' names and the operation's."""
    found = [value for name, value in call["arguments"] if (name or "").startswith(("out_ptr", "in_out_ptr"))]
    found += [value.removeprefix("out=") for _, value in call["arguments"] if value.startswith("out=")]
    if call["extern"] and IN_PLACE.search(call["kernel"]):
        found += [value for _, value in call["arguments"][:1]]
    return [match[1] for value in found if (match := MEMORY.match(value))]


def order(one: Captured, _ran: Ran) -> Verdict:
    """No operation is told before one whose result it takes."""
    verdict = Verdict()
    for view in views_of(one.capture):
        told = in_order(view)
        verdict.held["order"] += max(len(told) - 1, 0)
        for position, node in enumerate(told):
            for later in told[position + 1 :]:
                if later["name"] in node["inputs"]:
                    verdict.false.append(f"{view.call['id']}: {node['name']} is told before {later['name']}")
    return verdict


def scans(one: Captured, _ran: Ran) -> Verdict:
    """Scans and sorts are told where the text has them, and are no reductions."""
    verdict = Verdict()
    for view in views_of(one.capture):
        text = "\n".join(line for _, line in view.lines)
        ordered = facts.ordered(view)
        verdict.held["ordered"] += len(ordered)
        in_text = bool(re.search(r"associative_scan\(|sort_with_index\(|exclusive_scan", text))
        if one.target != "cpu" and bool(ordered) != in_text:
            verdict.false.append(f"{view.call['id']}: scans or sorts {ordered}, in the text {in_text}")
        for reduction in facts.reductions(view):
            if {each["node"] for each in ordered} & set(reduction["nodes"]):
                verdict.false.append(f"{view.call['id']}: {reduction['nodes']} is a reduction and is not")
    return verdict


def structure(one: Captured, _ran: Ran) -> Verdict:
    """No line that computes is called structure."""
    verdict = Verdict()
    for comment, line in re.findall(r"^\s*(?://|#) (\d+: structure.*)\n(.*)$", annotate(one.capture), re.M):
        verdict.held["structure"] += 1
        if COMPUTING.match(line):
            verdict.false.append(f"{comment}: {line.strip()}")
    return verdict


def tours(one: Captured, _ran: Ran) -> Verdict:
    """The tour counts the operations that its line of the source became."""
    stops = tour([one.capture])
    source = next((stop for stop in stops if stop["pane"].startswith("source")), None)
    aten = next((stop for stop in stops if re.search(r"operations? of ATen", stop["text"])), None)
    if source is None or aten is None:
        return Verdict()
    graph = next(graph for graph in one.capture["graphs"] if graph["panes"]["aten"] == aten["pane"])
    lines = {
        second for link in one.capture["links"] if link["from"] == source["pane"] and link["to"] == aten["pane"]
        for first, second in link["pairs"] if first == source["line"]
    }  # fmt: skip
    truth = sum(node["line"] in lines and node["op"] == "call_function" for node in graph["nodes"])
    said = int(re.search(r"became (\d+) operation", aten["text"])[1])
    return Verdict(Counter(tour=1), [] if said == truth else [f"the tour says {said} operations, in truth {truth}"])
