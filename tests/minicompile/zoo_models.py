"""The models of `zoo/`, a file each, and how each is compiled: what the checker tries every sentence on.

A file has `make()`, which returns a module and its inputs, and perhaps `TRAIN`, `DYNAMIC` (by input, the axes whose
length may change) or `TARGETS`.
"""

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from captured import FAST

ZOO = Path(__file__).parent / "zoo"
NAMES = sorted(path.stem for path in ZOO.glob("*.py"))
TARGETS = ("cpu", "simulated")


@dataclass(frozen=True)
class ZooModel:
    """A model of the zoo; `make` builds it and its inputs anew, with the same numbers."""

    name: str
    make: Callable[[], tuple]
    train: bool
    targets: tuple[str, ...]

    def options(self, target: str) -> dict:
        return FAST if target == "cpu" else {}


def load(name: str) -> ZooModel:
    """The model of a file."""
    specification = importlib.util.spec_from_file_location(f"zoo_{name}", ZOO / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    train = getattr(module, "TRAIN", False)

    def make() -> tuple:
        torch.manual_seed(0)
        model, inputs = module.make()
        for position, axes in getattr(module, "DYNAMIC", {}).items():
            for axis in axes:
                torch._dynamo.mark_dynamic(inputs[position], axis)
        return model.train(train), inputs

    return ZooModel(name, make, train, getattr(module, "TARGETS", TARGETS))
