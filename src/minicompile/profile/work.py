"""Reads from a capture how much a generated kernel has to do: bytes by the addresses touched, operations by the loops.

The operations are those of the kernel's loop bodies, each as often as its loop runs; what one costs is in
data/profile_operations.yaml. Williams, Waterman and Patterson's roofline (2009) wants nothing more of a kernel.
"""

from functools import cache
from math import prod
from pathlib import Path
from typing import Literal

import yaml

from minicompile.lowering.captured import Call, Graph, SchedulerNode
from minicompile.lowering.inner_graphs import times
from minicompile.profile.refusal import NotProfiled
from minicompile.profile.rows import Work


@cache
def _prices() -> dict:
    return yaml.safe_load((Path(__file__).parent / "data/profile_operations.yaml").read_text())


def node_flop(node: SchedulerNode) -> int:
    """Count the floating-point operations of one scheduler node of a capture; 0 for a library's call.

    Raises:
        NotProfiled: its loops have symbols for bounds, as those of a model compiled for any shape.
    """
    if node["loop_sizes"] is None:
        return 0
    prices = _prices()
    if any(isinstance(size, str) for sizes in node["loop_sizes"] for size in sizes):
        sentence = f"the loops of {node['name']} have no fixed length; profile a model that is compiled for one shape."
        raise NotProfiled(sentence, "any_shape", names=node["name"])
    elements = prod(int(size) for sizes in node["loop_sizes"] for size in sizes)
    each = 0
    for operation in node["operations"]:
        name = operation["operation"]
        if name == "reduction":
            each += prices["reductions"].get(node["reduction_type"], prices["reductions"]["other"])
        elif name not in prices["free"]:
            each += 1
    return elements * each


def kernel_work(graphs: list[Graph]) -> list[Work]:
    """Return a row for each generated kernel of a capture's `graphs` that is called, in the order of first calls.

    Returns:
        Rows of `name`, `graph` (its id), `calls` in one run of the model, and, for one call, `bytes` read and written
        (addresses touched, each once, or a bound) and `flop`; means where calls differ.
    """
    rows: list[Work] = []
    for graph in graphs:
        flop = {node["name"]: node_flop(node) for node in graph["scheduler_nodes"]}
        generated = [call for call in graph["calls"] if not call["extern"]]
        for name in dict.fromkeys(call["kernel"] for call in generated):
            calls = [call for call in generated if call["kernel"] == name]
            rows.append(
                {
                    "name": name,
                    "graph": graph["id"],
                    "calls": sum(map(times, calls)),
                    "bytes": sum(map(bytes_of, calls)) / len(calls),
                    "flop": sum(flop[node] for call in calls for node in call["scheduler_nodes"]) / len(calls),
                }
            )
    return rows


def softmax_calls(graph: Graph, length: int) -> list[Call]:
    """Find the calls of one graph that run a generated kernel with the softmax of attention's scores in it.

    Scores are (batch, heads, `length`, `length`); such a kernel exponentiates them and reduces over their last axis.
    """
    scores = {
        node["name"]
        for node in graph["nodes"]
        if node["size"] and len(node["size"]) == 4 and node["size"][2:] == [length, length]
    }
    nodes = {node["name"]: node for node in graph["scheduler_nodes"]}

    def holds_softmax(call: Call) -> bool:
        members = [nodes[name] for name in call["scheduler_nodes"]]
        operations = [operation for member in members for operation in member["operations"]]
        reduces = any(member["is_reduction"] and _reduced(member) == [length] for member in members)
        return reduces and any(op["operation"] == "exp" and op["producer"] in scores for op in operations)

    return [call for call in graph["calls"] if not call["extern"] and holds_softmax(call)]


def attention_calls(graph: Graph, length: int) -> list[Call]:
    """Find the calls of one graph that are attention's core: from queries, keys and values to their mixture.

    Written out, they are the kernels of `softmax_calls`, the library calls that make the scores and the ones that read
    the probabilities; fused, the call of torch's own operator.
    """
    nodes = {node["name"]: node for node in graph["scheduler_nodes"]}
    targets = {node["name"]: node["target"] for node in graph["nodes"]}
    softmax = softmax_calls(graph, length)
    scores, probabilities = set(), set()
    for call in softmax:
        members = [nodes[name] for name in call["scheduler_nodes"]]
        reductions = [member for member in members if member["is_reduction"]]
        scores |= _buffers(reductions, "reads")
        reduced = _buffers(reductions, "writes")
        probabilities |= _buffers([member for member in members if _buffers([member], "reads") & reduced], "writes")

    def belongs(call: Call) -> bool:
        if not call["extern"]:
            return call in softmax
        members = [nodes[name] for name in call["scheduler_nodes"]]
        fused = any("scaled_dot_product" in targets[name] for name in call["aten_nodes"])
        return fused or bool(_buffers(members, "writes") & scores or _buffers(members, "reads") & probabilities)

    return [call for call in graph["calls"] if belongs(call)]


def bytes_of(call: Call) -> int:
    """Return the bytes that a call reads and writes.

    Raises:
        NotProfiled: they are not known, as of a model that was compiled for any shape.
    """
    if call["bytes"] is None:
        sentence = f"the bytes of {call['kernel']} are not known; profile a model that is compiled for one shape."
        raise NotProfiled(sentence, "any_shape", names=call["kernel"])
    return call["bytes"]


def _reduced(node: SchedulerNode) -> list[int | str]:
    return node["loop_sizes"][1] if node["loop_sizes"] else []


def _buffers(nodes: list[SchedulerNode], side: Literal["reads", "writes"]) -> set[str]:
    return {access["buffer"] for node in nodes for access in node[side]}
