"""From what the hooks collected to a `Watched`: plain data, with the texts that only this machine can make.

Sources are read off their files, bytecode is decompiled, kernels are compiled to machine code; identities of graphs
become numbers, and folders of this machine are left out.
"""

import itertools
import linecache
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from minicompile.torch_private.names import MINORS, NAMES
from minicompile.torch_private.paths import without_paths
from minicompile.verifying.verify import all_ties
from minicompile.watching.collected import Session
from minicompile.watching.dynamo.bytecode import disassembled, rewritten
from minicompile.watching.dynamo.stacks import PACKAGES_HERE, files_of_users
from minicompile.watching.machine.cpp import cpp_instructions
from minicompile.watching.machine.triton_texts import machine_code
from minicompile.watching.watched import FORMAT, Kind, Watched

LEAST, MOST = 10.0, 3  # seconds that verification may take, and of a long compile how many times its seconds
KERNEL_FOLDER = re.compile(r"(?m)^(# kernel path: ).*/")  # a cache of this process
IDENTITY = re.compile(r"(_id\(.*,) \d{6,}\)")  # by which a guard knows an object: its address


def plain(
    session: Session,
    model: dict,
    target: Kind,
    *,
    device: str,
    gpu: str | None,
    environment: dict,
    options: dict,
    machine_code: bool = True,
    assembly: bool = False,
    verify: bool = False,
) -> Watched:
    """A `Watched` of what one session saw of one model.

    Args:
        session: that has ended, of one model.
        model: `name`, `class`, `train`, `inputs`.
        target: what the code was made for.
        device, gpu, environment: where it was made, as the `Watched` says it.
        options: settings of Inductor's that were not its own.
        machine_code: compile Triton's kernels, and read what each stage makes of them.
        assembly: disassemble the kernels too.
        verify: run what was generated, and add which of it has which node's values.
    """
    lowered, warnings = [dict(one) for one in session.lowered], list(session.warnings)
    for one in lowered:
        one.pop("live", None)
        one |= {"triton": {}, "instructions": None}
    if machine_code:
        warnings += _add_machine_code(lowered, session, target, options, assembly)
    minor = ".".join(environment["versions"]["torch"].split(".")[:2])
    if minor not in MINORS:
        warnings.append({"code": "untried_torch", "minor": minor})
    graphs = [*session.dynamo, *(one["aten"] for one in lowered)]
    made: dict[str, Any] = {
        "format": FORMAT,
        "model": model,
        "target": target,
        "device": device,
        "gpu": gpu,
        "environment": environment,
        "seconds": session.seconds,
        "phases": session.phases,
        "missing_hooks": session.missing_hooks,
        "absent": [NAMES[name].path.replace(":", ".") for name in session.choices.absent],
        "compiles": _without_model(session.compiles),
        "graph_breaks": _without_model(session.graph_breaks),
        "guards": [IDENTITY.sub(r"\1 ...)", line) for one in session.guards for line in one["text"].splitlines()],
        "sources": _sources(
            graphs, session.graph_breaks, [file for one in lowered for file in one.pop("kernel_files")]
        ),
        "bytecode": [_bytecode(one) for one in session.bytecode],
        "dynamo": [_graph(graph) for graph in _without_model(session.dynamo)],
        "joint": [{"index": index, **_graph(graph)} for index, graph in session.joint.items()],
        "lowered": [_lowered(one) for one in lowered],
        "warnings": _without_model(warnings),
    }
    watched: Watched = without_paths(_numbered(made), packages_as=PACKAGES_HERE)
    if verify:
        add_ties(watched, session, max(LEAST, MOST * session.seconds))
    return watched


def add_ties(watched: Watched, session: Session, seconds: float) -> None:
    """Run what was generated beside the graphs, and add which of it has which node's values.

    Args:
        watched: of the session.
        session: that has ended, of one model.
        seconds: that it may take once C++ is built.
    """
    ties = all_ties([one.get("live") for one in session.lowered], seconds)
    for lowered, found in zip(watched["lowered"], ties, strict=True):
        lowered["ties"] = without_paths(found, packages_as=PACKAGES_HERE)


def _without_model(entries: Iterable[dict]) -> list[dict]:
    return [{name: value for name, value in one.items() if name != "model"} for one in entries]


def _sources(graphs: list[dict], graph_breaks: list[dict], more: list[str]) -> dict[str, list[str]]:
    """The lines of the user's files; code that was never in a file, or is there no more, has none."""
    files = {file: linecache.getlines(file) for file in files_of_users(graphs, graph_breaks, more)}
    return {file: [line.rstrip("\n") for line in lines] for file, lines in files.items() if lines}


def _bytecode(one: dict) -> dict:
    """A function that Dynamo rewrote: as Python where that can be read back, and as instructions."""
    old, new = one["old"], one["new"]
    return {"function": old.co_qualname, "decompiled": rewritten(old, new), "instructions": disassembled(new)}


def _graph(graph: dict) -> dict:
    return {**graph, "identities": [[number, prefix] for number, prefix in graph["identities"].items()]}


def _lowered(one: dict) -> dict:
    definitions = [
        {
            "name": made.name,
            "source": made.source,
            "operations": [[line, *operation] for line, operation in made.operations],
            "scheduler_nodes": made.scheduler_nodes,
        }
        for made in one["definitions"]
    ]
    traffic = [found and asdict(found) for found in one["traffic"]]
    return {
        **one,
        "code": KERNEL_FOLDER.sub(r"\1", one["code"]),
        "aten": _graph(one["aten"]),
        "definitions": definitions,
        "traffic": traffic,
    }


def _add_machine_code(
    lowered: list[dict], session: Session, target: Kind, options: dict, assembly: bool
) -> list[dict[str, Any]]:
    """Add to each graph what its kernels were compiled to; returns warnings about those that could not be."""
    if target == "cpu":
        for one in lowered if assembly else ():
            one["instructions"] = cpp_instructions(one["code"], options)
        return []
    warnings: list[dict[str, Any]] = []
    codes = [one["code"] for one in lowered]
    compiled = machine_code(codes, target, session.choices.kernel_times, assembly)
    for one, (found, error) in zip(lowered, compiled, strict=True):
        one["triton"] = found
        if error is not None:
            what = f"{one['index']}.{'backward' if one['backward'] else 'forward'}"
            warnings.append({"code": "no_assembly", "what": what, "reason": str(error)})
    return warnings


def _numbered(made: dict[str, Any]) -> dict[str, Any]:
    """The same with identities of graphs, addresses of this process, as numbers in the order in which they come."""
    numbers: dict[int, int] = defaultdict(itertools.count().__next__)

    def graph(found: dict) -> dict:
        identities = [[numbers[one], prefix] for one, prefix in found["identities"]]
        return {**found, "identities": identities, "nodes": [*map(node, found["nodes"])]}

    def node(found: dict) -> dict:
        return {**found, "origins": [[name, numbers[one]] for name, one in found["origins"]]}

    def loops(found: dict) -> dict:
        operations = [{**one, "identity": numbers[one["identity"]]} for one in found["operations"]]
        return {**found, "operations": operations}

    def definition(found: dict) -> dict:
        operations = [[line, where, name, numbers[block]] for line, where, name, block in found["operations"]]
        return {**found, "operations": operations}

    def lowered(found: dict) -> dict:
        return {
            **found,
            "aten": graph(found["aten"]),
            "inner_nodes": [*map(node, found["inner_nodes"])],
            "scheduler_nodes": [*map(loops, found["scheduler_nodes"])],
            "definitions": [*map(definition, found["definitions"])],
        }

    return {
        **made,
        "dynamo": [*map(graph, made["dynamo"])],
        "joint": [*map(graph, made["joint"])],
        "lowered": [*map(lowered, made["lowered"])],
    }
