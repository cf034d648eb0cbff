"""The models of `zoo/`, a file each, captured without being compiled by a C++ or a Triton compiler.

A file has `make()`, which returns a module and its inputs, and perhaps `TRAIN`, `DYNAMIC` (by input, the axes whose
length may change) or `TARGETS`. To try another model, add a file: nothing is said of what to expect.
"""

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import torch
from captured import FAST
from torch._inductor.async_compile import AsyncCompile

from minicompile.lowering.capture import capture
from minicompile.lowering.captured import Capture, Graph
from minicompile.lowering.panes import Panes
from minicompile.torch_private import session

ZOO = Path(__file__).parent / "zoo"
NAMES = sorted(path.stem for path in ZOO.glob("*.py"))
TARGETS = ("cpu", "simulated")


@dataclass(frozen=True)
class ZooModel:
    """A model of the zoo; `make` builds it and its inputs anew, with the same numbers."""

    name: str
    make: Callable[[], tuple]
    train: bool
    dynamic: bool
    targets: tuple[str, ...]


def load(name: str) -> ZooModel:
    """The model of a file."""
    specification = importlib.util.spec_from_file_location(f"zoo_{name}", ZOO / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    train, dynamic = getattr(module, "TRAIN", False), getattr(module, "DYNAMIC", {})

    def make() -> tuple:
        torch.manual_seed(0)
        model, inputs = module.make()
        for position, axes in dynamic.items():
            for axis in axes:
                torch._dynamo.mark_dynamic(inputs[position], axis)
        return model.train(train), inputs

    return ZooModel(name, make, train, bool(dynamic), getattr(module, "TARGETS", TARGETS))


@dataclass
class Captured:
    """A capture, and the ATen graphs that Inductor wrote code for, in the order of its graphs."""

    model: ZooModel
    target: str
    capture: Capture
    modules: list[torch.fx.GraphModule] = field(default_factory=list)

    def code(self, graph: Graph) -> str:
        """A graph's generated code, after a comment for each input: its name and its dtype."""
        pane = next(pane for pane in self.capture["panes"] if pane["id"] == graph["panes"]["code"])
        inputs = [node for node in graph["nodes"] if node["op"] == "placeholder"]
        return "\n".join([*(f"# {node['name']}: {node['dtype']}" for node in inputs), *pane["lines"]])


def captured(name: str, target: str) -> Captured:
    """Capture a model; its kernels are written, and nothing is built or run."""
    model, modules = load(name), []
    module, inputs = model.make()
    read = session.lowered_graph

    def noted(graph, code: str) -> dict:
        if code:  # a branch of another graph has none of its own
            modules.append(graph.module)
        return read(graph, code)

    options = FAST if target == "cpu" else {}
    with (
        mock.patch.object(AsyncCompile, "cpp_pybinding", return_value=lambda *_arguments: None),
        mock.patch("minicompile.lowering.capture.with_assembly", lambda graph, *_: (graph, Panes())),
        mock.patch.object(session, "lowered_graph", noted),
    ):
        made = capture(module, inputs, target=target, train=model.train, name=name, options=options)
    return Captured(model, target, made, modules)
