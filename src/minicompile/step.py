"""Step through Inductor in the debugger, at one operation: `minicompile step MODEL --at aten._softmax`.

pdb stops twice: when Inductor is about to lower the operation, and when its scheduler is about to decide on fusing
what came of it. What is worth looking at is printed first; `s` steps into torch from there, `c` goes on. An operation
that was decomposed, as softmax is, is found by the name it had.

MODEL is one of the lab's (tiny_head, minigpt, ...), one of config.yaml's models, or FILE.py:FACTORY, a function that
returns (module, inputs).
"""

import argparse
import contextlib
import pdb
import sys
from collections.abc import Callable

from minicompile.capturing import capture
from minicompile.command import add_target
from minicompile.models import FORMS, CapturedModel, named
from minicompile.torch_private.stepping import operation_names, origins, stopping
from minilab import LabError
from minimodel.writing.shipped import WEIGHTS, at_hand


class Stops:
    """What happens at the operation: the names to look at are printed, and pdb starts."""

    def __init__(self, operation: str, every: bool, make_debugger: Callable[[], pdb.Pdb] = pdb.Pdb) -> None:
        self.operation, self.every, self.make_debugger = operation, every, make_debugger
        self.seen: set[str] = set()
        self.found = False
        self.debugger: pdb.Pdb | None = None

    @property
    def left(self) -> bool:
        """Whether pdb was left with q, which ends the compile by an exception."""
        return self.debugger is not None and self.debugger.quitting

    def is_wanted(self, name: str) -> bool:
        """`aten.sum` is `aten.sum.dim_IntList` too; `aten._softmax` is not `aten._softmax_backward_data`."""
        return name == self.operation or name.startswith(self.operation + ".")

    def at_lowering(self, lower, node, target, arguments, lowering, graph):
        """In place of lowering one node."""
        self.found = True
        if not self.due("lowering"):
            return lower()
        self.show(
            f"Inductor lowers {target}, part of {operation_names(node)[-1]}.",
            node=node.format_node(),
            target="the operation",
            arguments="what it is applied to, Inductor's IR",
            lowering=f"torch's function for it, {getattr(lowering, '__qualname__', 'none: it falls back')}",
            graph="the graph so far: graph.buffers, graph.operations",
            lower="s steps into GraphLowering.call_function, which calls the lowering",
        )
        self.stop()
        return lower()

    def at_fusion(self, decide, first, second, scheduler):
        """In place of one fusion decision."""
        if not self.due("fusion"):
            return decide()
        self.show(
            "Inductor's scheduler decides whether two nodes become one kernel.",
            first=f"{first.get_name()}, of {', '.join(sorted(origins(first)))}",
            second=f"{second.get_name()}, of {', '.join(sorted(origins(second)))}",
            scheduler="it holds all nodes: scheduler.nodes",
            decide="s steps into Scheduler.can_fuse",
        )
        self.stop()
        return decide()

    def due(self, kind: str) -> bool:
        """Whether to stop: at the first of a kind, or at every one."""
        first = kind not in self.seen
        self.seen.add(kind)
        return (first or self.every) and not self.left

    def show(self, what: str, **names: str) -> None:
        print(f"\n{what} Names to look at:")
        for name, meaning in names.items():
            print(f"  {name:<10} {meaning}")
        print("s steps in, n goes on a line, up shows the caller, c continues, q ends.")

    def stop(self) -> None:
        """Start pdb in the method that called this; the next line is the call into torch."""
        self.debugger = self.debugger or self.make_debugger()
        self.debugger.set_trace(sys._getframe(1))


def step(model: CapturedModel, operation: str, target: str = "cpu", every: bool = False, **settings) -> Stops:
    """Compile a model and stop at an operation.

    Args:
        model: as `minicompile.models.build` makes it.
        operation: `aten._softmax`, or with its overload `aten.sum.dim_IntList`.
        target: `cpu`, `cuda` or `simulated`.
        every: stop at each part of the operation and at each decision, rather than at the first.
        settings: of `Stops`.

    Raises:
        LabError: the compile never came to the operation.
    """
    stops = Stops(operation, every, **settings)
    with contextlib.ExitStack() as stack:
        for patch in stopping(stops.is_wanted, stops.at_lowering, stops.at_fusion):
            stack.enter_context(patch)
        try:
            made = capture(model.module, model.inputs, target=target, **model.settings)
        except Exception:
            if not stops.left:
                raise
            return stops
    if not stops.found:
        targets = sorted({node["target"] for graph in made["graphs"] for node in graph["nodes"] if node["lowering"]})
        raise LabError(f"{model.name} has no {operation}; write one that Inductor lowers in it: {', '.join(targets)}.")
    return stops


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help=FORMS)
    parser.add_argument(
        "--at",
        required=True,
        metavar="OPERATION",
        help="e.g. aten._softmax, or by its overload aten.sum.default",
    )
    add_target(parser)
    parser.add_argument("--every", action="store_true", help="stop at each part and each decision, not at the first")
    parser.add_argument("--checkpoint", help=WEIGHTS)


def run(arguments: argparse.Namespace) -> None:
    model = named(arguments.model, arguments.checkpoint or at_hand())
    step(model.to("cuda") if arguments.target == "cuda" else model, arguments.at, arguments.target, arguments.every)
