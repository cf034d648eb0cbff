"""What is said of memory, of operations' order and of templates, held against texts; and what a tour counts."""

import re
from collections import Counter

from zoo_models import Captured, Verdict
from zoo_runs import Ran

from minicompile.explain.annotation import facts
from minicompile.explain.annotation.choice import views_of
from minicompile.explain.annotation.headline import in_order
from minicompile.explain.annotation.view import COMPUTED, KernelView
from minicompile.explain.explorer.tour import tour
from minicompile.lowering.captured import Call

REUSED = re.compile(r"^\s*(?P<new>\w+) = (?P<old>\w+); del (?P=old) +# reuse")
MEMORY = re.compile(r"^(?:reinterpret_tensor\()?(\w+)")
IN_PLACE = re.compile(r"\.\w+_(?:\.|$)")  # aten.scatter_.src
HELD = re.compile(r"(?<=\(`)[^`]+(?=`\))|\bop\d+\b")
NAMED = re.compile(r"^# +\S+ => (.+)$", re.M)


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
