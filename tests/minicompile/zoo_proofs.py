"""What is said of a capture, held against what its code does: every kind of sentence, by another way than it was made.

Bytes: the addresses that the kernels touch when they run. Fates: the graph runs operation by operation, and each result
is looked for in the memory that the kernels left. Names such as softmax: the result is computed by torch's own
function. Fusions: Inductor's printed reads and writes. The rest: the generated text.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch.nn import functional as F
from zoo_models import Captured
from zoo_runs import Ran, runs_here, values_of

from minicompile.explain.annotation import facts
from minicompile.explain.annotation.annotate import annotate
from minicompile.explain.annotation.choice import views_of
from minicompile.explain.annotation.headline import named_whole
from minicompile.explain.explorer.tour import tour

HALF = {torch.float16: 1e-2, torch.bfloat16: 5e-2}
COMPARED = re.compile(r"^(\w+)\.(?P<way>writes|unmet_dependencies|met_dependencies) =\s*(?P<what>.*?\])$", re.M | re.S)
COMPUTING = re.compile(r"^\s*(?:auto |float |\w+_t )?tmp\d+ = |associative_scan|sort_with_index")


@dataclass
class Verdict:
    """How many claims of each kind were held against the code, and those that are false, each in a line."""

    held: Counter = field(default_factory=Counter)
    false: list[str] = field(default_factory=list)

    def __add__(self, other: "Verdict") -> "Verdict":
        return Verdict(self.held + other.held, self.false + other.false)


def generated(graph: dict) -> list[dict]:
    """A graph's calls of generated kernels, in the order in which they run."""
    return sorted((call for call in graph["calls"] if not call["extern"]), key=lambda call: call["line"])


def bytes_touched(one: Captured, ran: Ran) -> Verdict:
    """Bytes that a call is said to read and write are those that it touches; a bound is not below them."""
    verdict = Verdict()
    for graph in one.capture["graphs"]:
        told, calls = generated(graph), ran.get(graph["id"])
        if calls is None:
            continue
        if isinstance(calls, str) or len(calls) != len(told):
            verdict.false.append(f"{graph['id']}: {calls if isinstance(calls, str) else (len(calls), len(told))}")
            continue
        for call, (read, written, _) in zip(told, calls, strict=True):
            said = call["read_bytes"], call["written_bytes"]
            exact = call["bytes_are"] == "touched" and said == (read, written)
            bound = call["bytes_are"] == "at_most" and said[0] >= read and said[1] >= written
            verdict.held[call["bytes_are"]] += 1
            if not (exact or bound):
                verdict.false.append(f"{call['id']} {call['bytes_are']}: {said}, in truth {(read, written)}")
    return verdict


def _same(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors have the same values, in whatever order they lie in memory."""
    if first.numel() != second.numel() or first.dtype != second.dtype:
        return False
    tolerance = HALF.get(first.dtype, 1e-4)
    ordered = [one.flatten().double().sort().values for one in (first, second)]
    return torch.allclose(*ordered, rtol=tolerance, atol=tolerance, equal_nan=True)


def fates(one: Captured, ran: Ran) -> Verdict:
    """A result is in the memory that the kernels left where it is said to be, and nowhere else."""
    verdict = Verdict()
    for graph in one.capture["graphs"]:
        calls = ran.get(graph["id"])
        random = any("random" in node["target"] for node in graph["nodes"])  # the numbers are others here
        if not calls or isinstance(calls, str) or random:
            continue
        given = {value for call in graph["calls"] for _, value in call["arguments"]}
        loops = [node for node in graph["scheduler_nodes"] if node["operations"]]
        given -= {
            read["buffer"] for node in loops for read in node["reads"] if read["index"] == "*"
        }  # changed in place
        memory = [tensor for _, _, tensors in calls for tensor in tensors]
        told = {node["name"]: node["fate"] for node in graph["nodes"]}
        buffers = {node["name"]: node["buffer"] for node in graph["nodes"]}
        values = {
            name: value for name, value in values_of(one, graph).items()
            if value.dtype.is_floating_point and value.numel() >= 8
        }  # fmt: skip
        for node, value in values.items():
            if told.get(node) not in ("materialised", "inlined", "fused away"):
                continue
            if told[node] == "materialised" and buffers[node] not in given:  # overwritten in place by the same kernel
                continue
            verdict.held[told[node]] += 1
            found = any(_same(value, tensor) for tensor in memory)
            if told[node] == "materialised":
                if not found:
                    verdict.false.append(f"{graph['id']}: {node} is nowhere in memory")
            elif found:
                others = [
                    each for each in values if each != node and told.get(each) in (None, "materialised", "extern call")
                ]
                if not any(_same(value, values[each]) for each in others):
                    verdict.false.append(f"{graph['id']}: {node}, {told[node]}, is in memory")
    return verdict


REFERENCES: dict[str, Callable] = {
    "softmax": lambda x, axes: F.softmax(x, axes[0]),
    "log_softmax": lambda x, axes: F.log_softmax(x, axes[0]),
    "layer_norm": lambda x, axes: (x - x.mean(axes, keepdim=True)) / x.var(axes, keepdim=True, correction=0).sqrt(),
    "rms_norm": lambda x, axes: x * (x * x).mean(axes, keepdim=True).rsqrt(),
}


def names(one: Captured, _ran: Ran) -> Verdict:
    """What a kernel is called is what it computes."""
    verdict = Verdict()
    for view in views_of(one.capture) if runs_here(one) else ():
        whole, values = named_whole(view), values_of(one, view.graph)
        if whole is None or not values:
            continue
        given, result = values[whole.fed_by].double(), values[whole.result]
        expected = REFERENCES[whole.name](given, whole.axes).to(result.dtype)
        verdict.held[whole.name] += 1
        tolerance = max(1e-3, HALF.get(result.dtype, 0))
        if not torch.allclose(result, expected, rtol=tolerance, atol=tolerance, equal_nan=True):
            verdict.false.append(f"{view.call['id']} is no {whole.name}")
    return verdict


def _printed_accesses(one: Captured, graph: dict) -> dict[str, dict[str, set[str]]]:
    """By scheduler node the buffers that it reads and writes, off the text that Inductor prints of it before fusion."""
    found: dict[str, dict[str, set[str]]] = {}
    for node, way, what in COMPARED.findall(one.text(graph, "ir_before")):
        side = found.setdefault(node, {"reads": set(), "writes": set(), "changes": set()})
        side["writes" if way == "writes" else "reads"] |= set(re.findall(r"MemoryDep\('(\w+)'", what))
        side["changes"] |= set(re.findall(r"(?:Star|Weak)Dep\(name='(\w+)'", what))
    return found


def fusions(one: Captured, _ran: Ran) -> Verdict:
    """Why two nodes were not fused agrees with the reads and writes that Inductor prints."""
    verdict = Verdict()
    for graph in one.capture["graphs"]:
        accesses = _printed_accesses(one, graph)
        for decision in graph["decisions"]:
            code = decision["reason"]["code"]
            if code not in ("handed", "changed", "read_by_both", "nothing_shared"):
                continue
            first, second = (
                {way: set().union(*(accesses.get(node, {}).get(way, set()) for node in decision[side]))
                 for way in ("reads", "writes", "changes")} for side in ("first", "second")
            )  # fmt: skip
            handed = first["writes"] & second["reads"] | second["writes"] & first["reads"]
            shared = (first["reads"] | first["writes"]) & (second["reads"] | second["writes"])
            changed = first["writes"] & second["changes"] | second["writes"] & first["changes"]
            truth = "handed" if handed else "changed" if changed else "read_by_both" if shared else "nothing_shared"
            verdict.held[code] += 1
            if truth != code or set(decision["reason"].get("buffers", ())) - shared - changed:
                verdict.false.append(f"{decision['first']} with {decision['second']} {code}, in truth {truth}")
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


PROOFS: dict[str, Callable[[Captured, Ran], Verdict]] = {
    "bytes": bytes_touched,
    "fates": fates,
    "names": names,
    "fusions": fusions,
    "scans": scans,
    "structure": structure,
    "tours": tours,
}
