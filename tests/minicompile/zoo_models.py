"""The models of `zoo/`, a file each, and what was watched of their compiles, which needs no C++ or Triton compiler.

`compiles/{minor of torch}/{target}/{model}.json.xz` keeps what was watched, so that a test of what is concluded
compiles nothing; `watched_models.py` watches them anew. A file of a model has `make()`, which returns a module and its
inputs, and perhaps `TRAIN`, `DYNAMIC` (by input, the axes whose length may change), `UNBACKED` (those whose length no
graph may know), `DYNAMO` (its configuration), `OPTIONS` (torch.compile's) or `TARGETS`. To try another model, add a
file and watch it: nothing is said of what to expect.
"""

import contextlib
import copy
import importlib.util
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from unittest import mock

import torch
import torch._dynamo.decorators
from captured import FAST
from torch._inductor.async_compile import AsyncCompile

from minicompile.lowering.capture import as_capture
from minicompile.lowering.captured import Capture, Graph
from minicompile.watching.model import watch_model
from minicompile.watching.watched import Watched, read_watched

ZOO, KEPT = Path(__file__).parent / "zoo", Path(__file__).parent / "compiles"
NEWEST = "2.13"  # of the minor versions of torch that all models are kept of; of others, a dozen
NAMES = sorted(path.stem for path in ZOO.glob("*.py"))
TARGETS = ("cpu", "simulated")


@dataclass(frozen=True)
class ZooModel:
    """A model of the zoo; `make` builds it and its inputs anew, with the same numbers."""

    name: str
    make: Callable[[], tuple]
    train: bool
    targets: tuple[str, ...]
    dynamo: dict[str, object]
    options: dict[str, object]


def load(name: str, folder: Path = ZOO) -> ZooModel:
    """The model of a file."""
    specification = importlib.util.spec_from_file_location(f"zoo_{name}", folder / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    train = getattr(module, "TRAIN", False)
    marks = {"DYNAMIC": torch._dynamo.mark_dynamic, "UNBACKED": torch._dynamo.decorators.mark_unbacked}

    def make(device: str = "cpu") -> tuple:
        torch.manual_seed(0)
        model, inputs = module.make()
        model, inputs = model.to(device), tuple(one.to(device) for one in inputs)
        for marked, mark in marks.items():
            for position, axes in getattr(module, marked, {}).items():
                for axis in axes:
                    mark(inputs[position], axis)
        return model.train(train), inputs

    targets, dynamo, options = (
        getattr(module, marked, default) for marked, default in (("TARGETS", TARGETS), ("DYNAMO", {}), ("OPTIONS", {}))
    )
    return ZooModel(name, make, train, targets, dynamo, options)


@dataclass
class Captured:
    """A model's capture for a target; `values` keeps the results of its graphs' operations once these were run."""

    name: str
    target: str
    capture: Capture
    values: dict[str, dict[str, torch.Tensor]] = field(default_factory=dict)

    def text(self, graph: Graph, pane: str) -> str:
        """What a pane of a graph shows."""
        return "\n".join(next(one["lines"] for one in self.capture["panes"] if one["id"] == graph["panes"][pane]))

    def code(self, graph: Graph) -> str:
        """A graph's generated code, after a comment for each input: its name and its dtype."""
        inputs = [node for node in graph["nodes"] if node["op"] == "placeholder"]
        return "\n".join([*(f"# {node['name']}: {node['dtype']}" for node in inputs), self.text(graph, "code")])


@dataclass
class Verdict:
    """How many claims of each kind were held against the code, and those that are false, each in a line."""

    held: Counter = field(default_factory=Counter)
    false: list[str] = field(default_factory=list)

    def __add__(self, other: "Verdict") -> "Verdict":
        return Verdict(self.held + other.held, self.false + other.false)

    def hold(self, kind: str, said: object, truth: object, of: str) -> None:
        """Hold one claim against the truth."""
        self.held[kind] += 1
        if said != truth:
            self.false.append(f"{of}: {kind} {said}, in truth {truth}")


def _zeros(size: tuple, stride: tuple, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype).zero_()


def watched(name: str, target: str, folder: Path = ZOO) -> Watched:
    """Watch a model's compile. For `cpu` and `simulated` its kernels are written, and nothing is built or run."""
    model = load(name, folder)
    module, inputs = model.make("cuda" if target == "cuda" else "cpu")
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch._dynamo.config.patch(model.dynamo))
        if target != "cuda":
            stack.enter_context(mock.patch.object(AsyncCompile, "cpp_pybinding", return_value=lambda *_arguments: None))
            # the library's calls get zeros, which are indices, where no kernel has written
            stack.enter_context(mock.patch.object(torch._C._dynamo.guards, "_empty_strided_cpu", _zeros))
        options = {**(FAST if target == "cpu" else {}), **model.options}
        return watch_model(
            module, inputs, target=target, train=model.train, name=name, options=options, machine_code=False
        )


def path_of(name: str, target: str, version: str, kept: Path = KEPT) -> Path:
    """Where what was watched of a model is kept, by the minor version of torch."""
    return kept / version / target / f"{name}.json.xz"


def of_kept(name: str, target: str, path: Path) -> Captured:
    """The capture of what a file keeps."""
    return Captured(name, target, as_capture(read_watched(path)))


@cache
def _captured(name: str, target: str, version: str) -> Captured:
    return of_kept(name, target, path_of(name, target, version))


def captured(name: str, target: str, version: str = NEWEST) -> Captured:
    """The capture of what is kept of a model; a copy, which a test may change."""
    return copy.deepcopy(_captured(name, target, version))


def captured_anew(name: str, target: str, folder: Path = ZOO) -> Captured:
    """The capture of a model that is compiled now."""
    return Captured(name, target, as_capture(watched(name, target, folder)))
