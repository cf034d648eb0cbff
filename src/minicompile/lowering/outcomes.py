"""What became of each ATen node, and why two scheduler nodes were not fused.

A node's fate is where its result is: in memory, in a register, in a library's call, or nowhere.

- `materialised`: its result is in memory, as a buffer of its own or as what it stores in another one: `aten.copy_`
  changes its input, zeros are stored where `aten.index_put_` then adds.
- `extern call`: a library's kernel or a user's own computes it.
- `fused away`: it was a buffer until fusion let its consumers use the value at once.
- `inlined`: lowering made it part of its consumers' loops; it never was a buffer.
- `view`: another view of the same memory, or one of several results.
- `folded`: no code of its own is left; it is an index or a constant in its consumers' code, or nobody reads it.

Inductor's reasons for not fusing become codes by the patterns in `data/fusion_reasons.yaml`, first match first. A
reason that it does not know, as a newer torch may give one, is quoted as it stands rather than guessed at.
"""

import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from minicompile.lowering.captured import Coded, Opaque

DATA = Path(__file__).parent / "data/fusion_reasons.yaml"
STORES = ("store", "store_reduction")


@cache
def reason_codes() -> list[tuple[re.Pattern, str]]:
    """(pattern, code) pairs, in order."""
    return [(re.compile(entry["reason"]), entry["code"]) for entry in yaml.safe_load(DATA.read_text())]


def reason(taken: bool, given: list[str]) -> Coded | Opaque:
    """Why a fusion was taken or refused, given Inductor's own words; the last ones decided."""
    if taken:
        return {"code": "taken"}
    if not given:
        return {"code": "ungiven"}
    for pattern, code in reason_codes():
        if pattern.search(given[-1]):
            return {"code": code}
    return {"code": "own_words", "reason": given[-1]}


def fate(node: dict, buffers: dict[str, dict], extern_nodes: set[str], producers: set[str], stored: set[str]) -> str:
    """The fate of one ATen node.

    Args:
        node: as in a capture, with `target` and `is_view`.
        buffers: the buffer whose contents are exactly that node's result, by the node's name.
        extern_nodes: nodes that an extern kernel computes.
        producers: nodes that contribute an operation to some loop body.
        stored: those of them that store their result in a buffer which is in memory.
    """
    name, buffer = node["name"], buffers.get(node["name"])
    if node["target"] == "operator.getitem" or (node["is_view"] and name not in producers):
        return "view"
    if name in extern_nodes:
        return "extern call"
    if name in stored or (buffer is not None and not buffer["removed"]):
        return "materialised"
    if buffer is not None:
        return "fused away"
    return "inlined" if name in producers else "folded"


def fates(lowered: dict[str, Any], own: dict[str, list[str]]) -> dict[str, str]:
    """The fate of each ATen node that computes something, by name.

    Args:
        lowered: one of `Session.lowered`.
        own: the ATen nodes of each scheduler node, as `own_aten_nodes` gives them.
    """
    nodes = lowered["scheduler_nodes"]
    loops = [(node, one) for node in nodes for one in node["operations"]]
    producers = {one["producer"] for _, one in loops}
    removed = {buffer["name"] for buffer in lowered["buffers"] if buffer["removed"]}
    stored = {
        one["producer"]
        for node, one in loops
        if one["operation"] in STORES and not {write["buffer"] for write in node["writes"]} <= removed
    }
    opaque = [node["name"] for node in nodes if node["extern"] or node["user_triton"]]
    extern = {origin for name in opaque for origin in own[name]}
    buffers = {buffer["node"]: buffer for buffer in lowered["buffers"] if buffer["node"]}
    return {
        node["name"]: fate(node, buffers, extern, producers, stored)
        for node in lowered["aten"]["nodes"]
        if node["op"] == "call_function"
    }


def own_aten_nodes(lowered: dict[str, Any]) -> dict[str, list[str]]:
    """By scheduler node, the ATen nodes that it computes: Inductor's `origins` reach back over what others compute."""
    nodes = {node["name"]: node for node in lowered["scheduler_nodes"]}
    owners: dict[str, set[str]] = defaultdict(set)
    made_by = {buffer: name for name, node in nodes.items() for buffer in node["buffers"]}
    for name, node in nodes.items():
        for operation in node["operations"]:
            owners[operation["producer"]].add(name)
    for buffer in lowered["buffers"]:
        if buffer["node"] and buffer["name"] in made_by:
            owners[buffer["node"]].add(made_by[buffer["name"]])
    found = {}
    for name, node in nodes.items():
        own = {producer for producer, names in owners.items() if producer and name in names}
        own |= {one for one in node["origins"] if one not in owners}
        found[name] = sorted(own) or node["origins"]  # a convolution shares its node with its layout copies
    return found
