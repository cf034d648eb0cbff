"""What is said of a capture, held against what its code does: every kind of sentence, by another way than it was made.

Bytes: the addresses that the kernels touch when they run. Fates: the graph runs operation by operation, and each result
is looked for in the memory that the kernels left. Names such as softmax: the result is computed by torch's own
function. Sizes: those of the results. The other proofs read what Inductor prints and writes (`zoo_text_proofs`,
`zoo_fusion_proofs`, and the second reading of the pages).
"""

import json
from collections.abc import Callable
from functools import cache, partial
from math import inf, prod

import torch
from generated_code import inputs_of
from second_reading import Reading, read_capture
from torch.nn import functional as F
from zoo_fusion_proofs import fusions
from zoo_models import Captured, Verdict
from zoo_runs import Ran, runs_here, values_of
from zoo_text_proofs import contents, order, templates, tours

from minicompile.explain.annotation import facts
from minicompile.explain.annotation.annotate import annotate
from minicompile.explain.annotation.choice import views_of
from minicompile.explain.annotation.headline import named_whole
from minicompile.explain.annotation.view import COMPUTED
from minicompile.explain.explorer.tour import tour
from minicompile.explain.wording import Wording
from minicompile.lowering.captured import Graph
from minilab.config.check import check_schema, read_schema

JUMPS = ("floor", "ceil", "round", "trunc", "frac", "sign", "remainder", "fmod")
# of eight bits the interpreter rounds otherwise than PyTorch
HALF = {torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.float8_e4m3fn: 0.25, torch.float8_e5m2: 0.5}


def generated(graph: dict) -> list[dict]:
    """A graph's calls of generated kernels, in the order in which they run."""
    return sorted((call for call in graph["calls"] if not call["extern"]), key=lambda call: call["line"])


schema = cache(partial(read_schema, "schemas/capture.schema.yaml"))
LEAST = 1e-4  # what is smaller is nothing


def explained(one: Captured) -> list[str]:
    """Hold that a capture keeps to its schema and is explained in both languages; what it warns of itself."""
    text = json.dumps(one.capture)
    check_schema(json.loads(text), schema(), f"{one.name}.{one.target}")
    assert " at 0x" not in text, f"{one.name}.{one.target}"  # an address would be another one each time
    assert one.capture["graphs"]
    for language in ("en", "es"):
        assert annotate(one.capture, language=language).startswith("# ")
        assert tour([one.capture], language)
        for graph in one.capture["graphs"]:
            assert all(Wording(language).fusion(decision["reason"]) for decision in graph["decisions"])
    return one.capture["warnings"]


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


def _same(first: torch.Tensor, second: torch.Tensor, tolerance: float) -> bool:
    """Whether two tensors have the same values, in whatever order they lie in memory."""
    if first.numel() != second.numel() or first.dtype != second.dtype:
        return False
    ordered = [one.flatten().double().sort().values for one in (first, second)]
    largest = ordered[0].nan_to_num(0, 0, 0).abs().max().item()  # what cancels out leaves errors of its operands' size
    # half precision is as coarse as its numbers are large: next to nothing, all that is small would be the same
    least = max(LEAST, tolerance * min(1.0, largest), 1e-5 * largest)
    return torch.allclose(*ordered, rtol=tolerance, atol=least, equal_nan=True)


def _tells(value: torch.Tensor) -> bool:
    """Whether a result can be told from zeros that are in memory."""
    value = value.float() if value.is_floating_point() and value.itemsize == 1 else value
    return bool((value.nan_to_num(LEAST, LEAST, LEAST).abs() >= LEAST).any())


def fates(one: Captured, ran: Ran) -> Verdict:
    """A result is in the memory that the kernels left where it is said to be, and nowhere else."""
    verdict = Verdict()
    for graph in one.capture["graphs"]:
        calls = ran.get(graph["id"])
        random = any("random" in node["target"] for node in graph["nodes"])  # the numbers are others here
        # a GPU's convolution lays its result out otherwise than the CPU's, which stands in for it
        foreign = one.target != "cpu" and any("convolution" in node["target"] for node in graph["nodes"])
        if not calls or isinstance(calls, str) or random or foreign:
            continue
        given = {value for call in graph["calls"] for _, value in call["arguments"]}
        loops = [node for node in graph["scheduler_nodes"] if node["operations"]]
        given -= {
            read["buffer"] for node in loops for read in node["reads"] if read["index"] == "*"
        }  # changed in place
        memory = [tensor for _, _, tensors in calls for tensor in tensors]
        told = _told(graph)
        buffers = {node["name"]: node["buffer"] for node in graph["nodes"]}
        results = values_of(one, graph)
        values = {
            name: value for name, value in results.items()
            if value.dtype.is_floating_point and value.numel() >= 8
        }  # fmt: skip
        converted = _converted(graph, results)
        tolerances = _tolerances(graph)
        for node, value in values.items():
            if told.get(node) not in COMPUTED:
                continue
            if told[node] == "materialised" and buffers[node] not in given:  # overwritten in place by the same kernel
                continue
            if told[node] != "materialised" and not _tells(value):
                continue
            if tolerances[node] == inf:
                continue
            verdict.held[told[node]] += 1
            exact = tolerances[node]
            found = any(_same(value, tensor, exact) for tensor in memory)
            if told[node] == "materialised":
                if not found:
                    verdict.false.append(f"{graph['id']}: {node} is nowhere in memory")
            elif found:
                others = [values[each] for each in values if each != node and _lies_in_memory(each, graph)]
                others += inputs_of(one.code(graph))  # as they were before the graph changed them
                if not any(_same(value, other, exact) for other in others + converted):
                    verdict.false.append(f"{graph['id']}: {node}, {told[node]}, is in memory")
    return verdict


def _converted(graph: Graph, results: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """What concatenations in memory make of operands of another dtype: numbers of theirs, which no node stands for."""
    return [
        results[name].to(results[node["name"]].dtype)
        for node in graph["nodes"]
        if node["target"] == "aten.cat.default" and node["name"] in results and _lies_in_memory(node["name"], graph)
        for name in node["inputs"]
        if name in results and results[name].dtype != results[node["name"]].dtype
    ]


def _tolerances(graph: Graph) -> dict[str, float]:
    """How exact a result can be: kernels leave out rounding to half precision, and eager PyTorch rounds on the way.

    What jumps where it was rounded is not exact at all.
    """
    found: dict[str, float] = {}
    for node in graph["nodes"]:
        own = HALF.get(getattr(torch, node["dtype"] or "float32", torch.float32), 1e-4)
        exact = max([own, *(found.get(name, own) for name in node["inputs"])])
        jumps = node["target"].split(".")[1:2] in ([name] for name in JUMPS)
        found[node["name"]] = inf if jumps and exact > 1e-4 else exact
    return found


def _told(graph: Graph) -> dict[str, str | None]:
    """What is said of each result; one of several that kernels compute is stored where it has a buffer in memory."""
    told = {node["name"]: node["fate"] for node in graph["nodes"]}
    allocated = {buffer["name"] for buffer in graph["buffers"] if not buffer["removed"]}
    for node in graph["nodes"]:
        if node["target"] == "operator.getitem" and told[node["inputs"][0]] in COMPUTED:
            told[node["name"]] = "materialised" if node["buffer"] in allocated else "inlined"
    return told


def _lies_in_memory(name: str, graph: Graph) -> bool:
    """Whether a result is said to be in memory, as an input, stored, by a library's call, or as a view of one of these.

    One of several results of a library's call is such a view.
    """
    nodes, told = {node["name"]: node for node in graph["nodes"]}, _told(graph)
    while told[name] == "view" and nodes[name]["inputs"]:
        name = nodes[name]["inputs"][0]
    return told[name] in (None, "materialised", "extern call")


def standardised(x: torch.Tensor, axes: tuple[int, ...], eps: float) -> torch.Tensor:
    return (x - x.mean(axes, keepdim=True)) / (x.var(axes, keepdim=True, correction=0) + eps).sqrt()


REFERENCES: dict[str, Callable] = {
    "softmax": lambda x, axes, _eps: F.softmax(x, axes[0]),
    "log_softmax": lambda x, axes, _eps: F.log_softmax(x, axes[0]),
    **dict.fromkeys(("layer_norm", "standardise"), standardised),
    "rms_norm": lambda x, axes, eps: x * ((x * x).mean(axes, keepdim=True) + eps).rsqrt(),
}


def _epsilon(result: str, graph: Graph, values: dict[str, torch.Tensor]) -> float:
    """By how much what a norm takes the root of is more than what was reduced; 0 where it takes none."""
    nodes = {node["name"]: node for node in graph["nodes"]}
    for root in (nodes[name] for name in nodes[result]["inputs"]):
        if "sqrt" in root["target"]:
            [added] = root["inputs"]
            return (values[added] - values[nodes[added]["inputs"][0]]).double().median().item()
    return 0.0


def names(one: Captured, _ran: Ran) -> Verdict:
    """What a kernel is called is what it computes."""
    verdict = Verdict()
    for view in views_of(one.capture) if runs_here(one) else ():
        whole = named_whole(view)
        if whole is None or not (values := values_of(one, view.graph)):
            continue
        if _tolerances(view.graph)[whole.result] == inf:
            continue
        given, result = values[whole.fed_by].double(), values[whole.result]
        eps = _epsilon(whole.result, view.graph, values)
        expected = REFERENCES[whole.name](given, whole.axes, eps).to(result.dtype)
        verdict.held[whole.name] += 1
        tolerance = max(1e-3, _tolerances(view.graph)[whole.result])  # what feeds it may have been rounded
        if expected.shape != result.shape or not torch.allclose(
            result, expected, rtol=tolerance, atol=tolerance, equal_nan=True
        ):
            verdict.false.append(f"{view.call['id']} is no {whole.name}")
    return verdict


def _addresses(value: torch.Tensor) -> int:
    """Bytes of a tensor's different addresses."""
    lengths = (length for length, step in zip(value.shape, value.stride(), strict=True) if step or not length)
    return prod(lengths) * value.element_size()


def sizes(one: Captured, _ran: Ran) -> Verdict:
    """Bytes that a kernel's operations would move one by one: off their results."""
    verdict = Verdict()
    for view in views_of(one.capture) if runs_here(one) else ():
        apart, values = facts.absent(view)["apart"], values_of(one, view.graph)
        if apart is None or not all(node["name"] in values and {*node["inputs"]} <= {*values} for node in view.fused):
            continue
        moved = 0
        for node in (node for node in view.fused if node["target"] != "aten.view.dtype"):  # nothing to compute
            read = list(dict.fromkeys(node["inputs"]))[node["target"] == facts.COPY :]
            moved += _addresses(values[node["name"]])
            moved += sum(_addresses(values[name]) for name in read if view.nodes[name]["fate"] != "folded")
        verdict.hold("bytes apart", apart, moved, view.call["id"])
    return verdict


def sentences(one: Captured, _ran: Ran) -> Verdict:
    """What a page says plainly is what the second reading finds in the compiler's texts; it has a table of its own."""
    reading = Reading()
    read_capture(one.capture, reading, one.target)
    plain = [(page, each) for page, each in reading.false if not each.sentence.noted]
    return Verdict(false=[f"{page}: {each.sentence.text}: {each.cause}" for page, each in plain])


PROOFS: dict[str, Callable[[Captured, Ran], Verdict]] = {
    "bytes": bytes_touched,
    "fates": fates,
    "names": names,
    "sizes": sizes,
    "fusions": fusions,
    "contents": contents,
    "templates": templates,
    "order": order,
    "tours": tours,
}


def judged(one: Captured, runs: Ran) -> dict[str, Verdict]:
    """What each proof says of a capture; one that stops proves nothing, and says so."""

    def explains(one: Captured, _runs: Ran) -> Verdict:
        explained(one)
        return Verdict()

    verdicts = {}
    for kind, proof in {**PROOFS, "explained": explains, "sentences": sentences}.items():
        try:
            verdicts[kind] = proof(one, runs)
        except Exception as error:
            verdicts[kind] = Verdict(false=[f"{kind}: {type(error).__name__}: {error}"])
    return verdicts
