"""From a `Watched` to a capture: what torch.compile made of a model, from its source to each line of each kernel.

The idea is tlparse's (github.com/meta-pytorch/tlparse), with links as fine as lines within kernels, the IR, every
fusion decision and the backward pass. The result is plain data; schemas/capture.schema.yaml describes every field.
"""

import re
from typing import Any

from minicompile.lowering.captured import Capture, Graph
from minicompile.lowering.choices import chosen
from minicompile.lowering.coverage import coverage, gaps
from minicompile.lowering.invariants import invariants, outcome, unseen, with_doubts
from minicompile.lowering.panes.cpp_assembly import with_cpp_assembly
from minicompile.lowering.panes.triton_assembly import with_assembly
from minicompile.lowering.record import Record
from minicompile.watching.dynamo.stacks import PACKAGES_HERE
from minicompile.watching.watched import Watched
from minilab.files import digest

FORMAT = 1
ATTENTION = "scaled_dot_product_attention"


def as_capture(watched: Watched) -> Capture:
    """The capture of one watched compile; where torch.compile compiled nothing, it has no graphs."""
    record = Record(watched)
    graphs, panes, target = _with_machine_code(record), record.panes, watched["target"]
    choices, sources = chosen(record.built, watched["absent"], graphs, panes.panes, target)
    attends = any(ATTENTION in node["target"] for graph in watched["dynamo"] for node in graph["nodes"])
    phases = sorted(watched["phases"].items(), key=lambda phase: -phase[1])
    made: Capture = {
        "format": FORMAT,
        "model": watched["model"],
        "target": {
            "kind": target,
            "device": watched["device"],
            "gpu": watched["gpu"],
            "simulated": target == "simulated",
            "attention": "math" if target == "simulated" and attends else None,
        },
        "environment": watched["environment"],
        "compile": {
            "seconds": watched["seconds"],
            "phases": [{"phase": phase, "seconds": seconds} for phase, seconds in phases],
        },
        "missing_hooks": watched["missing_hooks"],
        "compiles": record.compiles(),
        "graph_breaks": record.graph_breaks(),
        "guards": watched["guards"],
        "recompiles": [one["reason"] for one in watched["compiles"] if one["reason"]],
        "choices": choices,
        "candidate_sources": sources,
        "graphs": graphs,
        "links": [],  # numbers in the main, in which no folder can be
        "panes": panes.panes,
        "warnings": list(record.warnings),
    }
    made = _shown(made)
    made["links"] = panes.links()
    made["warnings"] = [
        {**one, **outcome(graphs)} if one["code"] == "untried_torch" else one for one in made["warnings"]
    ]
    made["warnings"] += [*unseen(graphs), *gaps(made)]
    if "restored" in watched:
        made["restored"] = watched["restored"]
    return made


def _shown(value: Any) -> Any:
    """The same data, files of packages named by their ends."""
    if isinstance(value, str):
        return value.replace(PACKAGES_HERE, "") if PACKAGES_HERE in value else value
    if isinstance(value, dict):
        return {_shown(key): _shown(one) for key, one in value.items()}
    return [_shown(one) for one in value] if isinstance(value, list) else value


def _with_machine_code(record: Record) -> list[Graph]:
    """The graphs with all that is known of them; the record gets the panes of their machine code."""
    graphs: list[Graph] = []
    for graph, lowered in zip(record.graphs, record.built, strict=True):
        if compiled := {name: one["compiled"] for name, one in lowered["triton"].items() if one["compiled"]}:
            graph = with_assembly(graph, compiled, record.panes)
        elif lowered["instructions"] is not None:
            graph = with_cpp_assembly(graph, lowered["instructions"], record.panes)
        graphs.append({**graph, "code_sha256": code_digest(lowered["code"])})
    links, panes = record.panes.links(), {pane["id"]: pane["lines"] for pane in record.panes.panes}
    by_line, simulated = not record.watched["missing_hooks"], record.watched["target"] == "simulated"
    found = []
    for graph in graphs:
        held = invariants(graph, links, panes[graph["panes"]["code"]], by_line=by_line, simulated=simulated)
        found.append(with_doubts({**graph, "coverage": coverage(graph, links), "invariants": held}))
    return found


def code_digest(code: str) -> str:
    """SHA-256 of generated code, without what comments say of the process' count of compiles and of folders."""
    # the same model compiled second in a process, or for another user, has the same code
    code = re.sub(r"^# AOT ID: .*\n", "", code)
    return digest(re.sub(r"(?m)^(# (?:kernel|Original) path: ).*/", r"\1", code))
