"""Compile a model twice with one knob flipped, and show side by side what that changed.

Both sides are captured, so that lines, kernels, launches, bytes and intermediates are counted in the code itself; on a
device that is here the two are then timed in turn. The knobs are those of `minicompile.knobs`.
"""

import argparse
import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from minicompile.capturing import capture
from minicompile.command import add_target
from minicompile.explain.capture_diff import diff_compiles
from minicompile.knobs import KNOBS, Knob, knob_for, settings
from minicompile.lowering.captured import Capture, Graph
from minicompile.lowering.counts import code_of, counts, text_of
from minicompile.models import FORMS, named
from minicompile.paired import ROUNDS, Samples, judged, paired
from minicompile.profile.attention import with_fused_attention
from minicompile.torch_private.names import owner
from minicompile.torch_private.profiling import fresh_caches, inductor_options
from minicompile.watching.model import call_arguments
from minilab.files import write_json
from minimodel.torch_minigpt import Attention
from minimodel.writing.shipped import WEIGHTS, at_hand

FORMAT = 1
CHANGES = ("rewritten", "fused", "appeared", "vanished", "fates")
SIDES = ("before", "after")
COMMENT = re.compile(r"\s*(?:#(?!pragma|include)|//)")


def what_if(
    model: Callable,
    args: Any,
    knob: str,
    *,
    target: str = "cpu",
    rounds: int = ROUNDS,
    kwargs: dict | None = None,
    train: bool = False,
    dynamic: bool | None = None,
    options: dict | None = None,
    name: str | None = None,
) -> dict:
    """Compile a model twice, with one knob flipped, and count what each compile made.

    Args:
        model, args, kwargs, target, train, dynamic, options, name: as for `minicompile.lowering.capture.capture`; both
            sides get them, but for what the knob sets. The model is left as it was.
        knob: a name out of `minicompile.knobs.KNOBS`.
        rounds: of timing, on a target that is here; 0 times nothing.

    Returns:
        What schemas/what_if.schema.yaml describes: `before` and `after` with their settings, counts (`COUNTS`), code
        and kernels; how many of `CHANGES` there are; `time`, or None where the code cannot run here.

    Raises:
        LabError: there is no such knob, or none for this target and torch; the model cannot be compiled.
    """
    chosen = knob_for(knob, target)
    with fresh_caches():
        before, after = sides = [_Side(model, chosen, side, dynamic, options) for side in SIDES]
        captures = [side.captured(args, kwargs, target=target, train=train, name=name) for side in sides]
        timed = None
        if target != "simulated" and rounds:
            positional, by_name = call_arguments(model, args, kwargs)
            samples = _timed(before, after, positional, by_name, train, rounds)
            timed = {**judged(samples), "samples": samples}
    diff = diff_compiles(*captures)
    texts = [{text_of(one, graph, kernel) for graph, kernel in _kernels(one)} for one in captures]
    return {
        "format": FORMAT,
        "model": captures[0]["model"],
        "target": captures[0]["target"],
        "torch": captures[0]["environment"]["versions"].get("torch"),
        "knob": {"name": chosen.name, "asks": chosen.asks, "change": chosen.change},
        "before": _side(captures[0], settings(chosen, chosen.before), texts[1]),
        "after": _side(captures[1], settings(chosen, chosen.after), texts[0]),
        "same_code": _statements(captures[0]) == _statements(captures[1]),
        "changes": {what: sum(len(graph[what]) for graph in diff["graphs"]) for what in CHANGES},
        "time": timed,
    }


class _Side:
    """A model as one side of a knob compiles it."""

    def __init__(self, model: Callable, knob: Knob, side: str, dynamic: bool | None, options: dict | None) -> None:
        self.model = _with_fused_attention(model) if knob.change == "attention" and side == "after" else model
        self.written_out = knob.change == "attention" and side == "before"
        self.dynamic = (side == "after") if knob.change == "dynamic" else dynamic
        self.options = {**(options or {}), **getattr(knob, side)}

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """A context in which Inductor compiles as this side does."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(inductor_options(self.options))
            if self.written_out:
                stack.enter_context(torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH))
            yield

    def captured(self, args: Any, kwargs: dict | None, **named: Any) -> Capture:
        """What the side's compile makes."""
        with self.entered():
            return capture(self.model, args, kwargs, dynamic=self.dynamic, **named)

    def step(self, args: tuple, kwargs: dict, train: bool) -> Callable[[], None]:
        """A call of the compiled model, with its backward pass where it trains; it has run once."""
        compile_fx = owner("compile_fx").compile_fx
        # a backend of its own, so that neither side takes the other's code
        function = torch.compile(
            self.model, backend=lambda graph, inputs: compile_fx(graph, inputs), dynamic=self.dynamic
        )
        parameters = list(self.model.parameters()) if isinstance(self.model, nn.Module) else []
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
        leaves = [tensor for tensor in (*parameters, *given) if tensor.requires_grad]

        def step() -> None:
            result = function(*args, **kwargs)
            if train:
                torch.autograd.grad(result, leaves, allow_unused=True)

        # the backward would be lowered in a thread of autograd's, which may not see the options of this one
        at_once = owner("functorch_config").patch(force_non_lazy_backward_lowering=True)
        with self.entered(), at_once, torch.set_grad_enabled(train):
            step()
        return step


def _with_fused_attention(model: Callable) -> Callable:
    if not isinstance(model, nn.Module) or not any(isinstance(one, Attention) for one in model.modules()):
        return model
    # in a list, since the model may itself be attention
    return next(iter(with_fused_attention(nn.ModuleList([model])).children()))


def _timed(before: _Side, after: _Side, args: tuple, kwargs: dict, train: bool, rounds: int) -> Samples:
    """Time both sides in turn."""
    steps = [side.step(args, kwargs, train) for side in (before, after)]
    with torch.set_grad_enabled(train):
        return paired(steps[0], steps[1], rounds)


def _kernels(made: Capture) -> Iterator[tuple[Graph, Any]]:
    return ((graph, kernel) for graph in made["graphs"] for kernel in graph["kernels"])


def _side(made: Capture, chosen: dict, other_texts: set[str]) -> dict:
    return {
        "settings": {option: str(value) for option, value in chosen.items()},
        "counts": counts(made),
        "bytes_at_most": any(call["bytes_are"] == "at_most" for graph in made["graphs"] for call in graph["calls"]),
        "compile_seconds": made["compile"]["seconds"],
        "graphs": [
            {
                "id": graph["id"],
                "lines": code_of(made, graph),
                "kernels": [
                    {
                        **{key: kernel[key] for key in ("name", "language", "first", "last")},
                        "changed": text_of(made, graph, kernel) not in other_texts,
                    }
                    for kernel in graph["kernels"]
                ],
            }
            for graph in made["graphs"]
        ],
    }


def _statements(made: Capture) -> list[list[str]]:
    """Each graph's code without comments: these count the process' compiles and quote strides of the IR."""
    return [[line for line in code_of(made, graph) if not COMMENT.match(line)] for graph in made["graphs"]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command line takes."""
    parser.add_argument("model", metavar="MODEL", help=FORMS)
    parser.add_argument(
        "knob", metavar="KNOB", help=f"one of {', '.join(KNOBS)}, or any switch of Inductor's by its name"
    )
    add_target(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="also write KNOB.json and the page KNOB.html there")
    parser.add_argument("--language", default="en", choices=("en", "es"), help="language of page and output")
    parser.add_argument("--checkpoint", help=WEIGHTS)


def run(arguments: argparse.Namespace) -> None:
    """Do what the command line asks: print both sides, and write the result and its page where that is asked.

    Raises:
        LabError: as `what_if`, and `minicompile.models.named`.
    """
    from minicompile.explain.what_if import render_what_if, summary

    knob_for(arguments.knob, arguments.target)  # before a model is built for it
    model = named(arguments.model, arguments.checkpoint or at_hand())
    if arguments.target == "cuda":
        model = model.to("cuda")
    found = what_if(model.module, model.inputs, arguments.knob, target=arguments.target, **model.settings)
    print(summary(found, arguments.language))
    if arguments.out:
        write_json(arguments.out / f"{arguments.knob}.json", found)
        render_what_if(found, arguments.out / f"{arguments.knob}.html", arguments.language)
        print(arguments.out / f"{arguments.knob}.html")
