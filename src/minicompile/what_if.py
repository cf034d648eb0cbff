"""`what_if`: a model compiled twice with one knob flipped, and what that changed, side by side.

Both sides are captured, so that lines, kernels, launches, bytes and intermediates are counted in the code itself; on a
device that is here the two are then timed in turn. The knobs are those of `minicompile.lowering.knobs`.
"""

import argparse
import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from minicompile.explain.capture_diff import diff_compiles
from minicompile.lowering.capture import TARGETS, capture
from minicompile.lowering.captured import Capture, Graph
from minicompile.lowering.knobs import KNOBS, Knob, knob_for, settings
from minicompile.models import CapturedModel, build
from minicompile.profile.attention import with_fused_attention
from minicompile.profile.paired import ROUNDS, Samples, judged, paired
from minicompile.torch_private.names import owner
from minicompile.torch_private.profiling import fresh_caches, inductor_options
from minilab.files import write_json
from minimodel.torch_minigpt import Attention

FORMAT = 1
COUNTS = ("lines", "kernels", "launches", "generated_launches", "library_launches", "bytes", "materialised")
CHANGES = ("rewritten", "fused", "appeared", "vanished", "fates")
SIDES = ("before", "after")
COMMENT = re.compile(r"\s*(?:#(?!pragma|include)|//)")
CHECKPOINT = Path("results/17/checkpoint.npz")


def what_if(
    model: nn.Module,
    args: tuple,
    knob: str,
    *,
    target: str = "cpu",
    train: bool = False,
    name: str | None = None,
    rounds: int = ROUNDS,
) -> dict:
    """Compile a model twice, with one knob flipped, and count what each compile made.

    Args:
        model, args, target, train, name: as for `minicompile.lowering.capture.capture`. The model is left as it was.
        knob: a name out of `minicompile.lowering.knobs.KNOBS`.
        rounds: of timing, on a target that is here; 0 times nothing.

    Returns:
        What schemas/what_if.schema.yaml describes: `before` and `after` with their settings, counts (`COUNTS`), code
        and kernels; how many of `CHANGES` there are; `time`, or None where the code cannot run here.

    Raises:
        LabError: there is no such knob, or none for this target and torch; the model cannot be compiled.
    """
    chosen = knob_for(knob, target)
    with fresh_caches():
        captures = {}
        for side in SIDES:
            with _flipped(chosen, side):
                module = _module(model, chosen, side)
                captures[side] = capture(
                    module, args, target=target, train=train, name=name, options=dict(getattr(chosen, side))
                )
        timed = None
        if target != "simulated" and rounds:
            samples = _timed(model, args, chosen, train, rounds)
            timed = {**judged(samples), "samples": samples}
    before, after = (captures[side] for side in SIDES)
    diff = diff_compiles(before, after)
    texts = [{_text(one, graph, kernel) for graph, kernel in _kernels(one)} for one in (before, after)]
    return {
        "format": FORMAT,
        "model": before["model"],
        "target": before["target"],
        "torch": before["environment"]["versions"].get("torch"),
        "knob": {"name": chosen.name, "asks": chosen.asks, "change": chosen.change},
        "before": _side(before, settings(chosen, chosen.before), texts[1]),
        "after": _side(after, settings(chosen, chosen.after), texts[0]),
        "same_code": _statements(before) == _statements(after),
        "changes": {what: sum(len(graph[what]) for graph in diff["graphs"]) for what in CHANGES},
        "time": timed,
    }


@contextlib.contextmanager
def _flipped(knob: Knob, side: str) -> Iterator[None]:
    """A context in which what is changed that is no option of Inductor's is as one side has it."""
    with contextlib.ExitStack() as stack:
        if knob.change == "dynamic" and side == "after":
            stack.enter_context(owner("assume_static").patch(assume_static_by_default=False))
        if knob.change == "attention" and side == "before":
            stack.enter_context(torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH))
        yield


def _module(model: nn.Module, knob: Knob, side: str) -> nn.Module:
    if knob.change != "attention" or side == "before":
        return model
    has_own = any(isinstance(one, Attention) for one in model.modules())
    # in a list, since the model may itself be attention
    return next(iter(with_fused_attention(nn.ModuleList([model])).children())) if has_own else model


def counts(made: Capture) -> dict[str, int | None]:
    """Count what one compile made, all graphs and directions together.

    Returns:
        By the names in `COUNTS`: lines of generated code, kernels in it, `launches` (calls of kernels, generated ones
        and a library's), bytes that these calls read and write (None where one's are not known), and results of ATen
        nodes that are `materialised` in memory by a generated kernel.
    """
    calls = [call for graph in made["graphs"] for call in graph["calls"]]
    generated = sum(not call["extern"] for call in calls)
    sizes = [call["bytes"] for call in calls]
    known = [size for size in sizes if size is not None]
    return {
        "lines": sum(len(_code(made, graph)) for graph in made["graphs"]),
        "kernels": sum(len(graph["kernels"]) for graph in made["graphs"]),
        "launches": len(calls),
        "generated_launches": generated,
        "library_launches": len(calls) - generated,
        "bytes": sum(known) if len(known) == len(sizes) else None,
        "materialised": sum(node["fate"] == "materialised" for graph in made["graphs"] for node in graph["nodes"]),
    }


def _code(made: Capture, graph: Graph) -> list[str]:
    return next(pane["lines"] for pane in made["panes"] if pane["id"] == graph["panes"]["code"])


def _kernels(made: Capture) -> Iterator[tuple[Graph, Any]]:
    return ((graph, kernel) for graph in made["graphs"] for kernel in graph["kernels"])


def _text(made: Capture, graph: Graph, kernel: Any) -> str:
    """A kernel's text without its name and, of Triton, without what is noted for the launch above the function."""
    text = "\n".join(_code(made, graph)[kernel["first"] - 1 : kernel["last"]])
    start = re.search(rf"^def {re.escape(kernel['name'])}\(", text, re.M)
    heuristics = re.search(r"^@triton_heuristics\.\w+", text, re.M)
    body = text[start.start() :] if start else text
    return f"{heuristics[0] if heuristics else ''}\n{body}".replace(kernel["name"], "")


def _side(made: Capture, chosen: dict, other_texts: set[str]) -> dict:
    return {
        "settings": {option: str(value) for option, value in chosen.items()},
        "counts": counts(made),
        "bytes_at_most": any(call["bytes_are"] == "at_most" for graph in made["graphs"] for call in graph["calls"]),
        "compile_seconds": made["compile"]["seconds"],
        "graphs": [
            {
                "id": graph["id"],
                "lines": _code(made, graph),
                "kernels": [
                    {
                        **{key: kernel[key] for key in ("name", "language", "first", "last")},
                        "changed": _text(made, graph, kernel) not in other_texts,
                    }
                    for kernel in graph["kernels"]
                ],
            }
            for graph in made["graphs"]
        ],
    }


def _statements(made: Capture) -> list[list[str]]:
    """Each graph's code without comments: these count the process' compiles and quote strides of the IR."""
    return [[line for line in _code(made, graph) if not COMMENT.match(line)] for graph in made["graphs"]]


def _timed(model: nn.Module, args: tuple, knob: Knob, train: bool, rounds: int) -> Samples:
    """Time both sides in turn, each compiled under its own backend, so that neither takes the other's code."""
    on_gpu = any(isinstance(value, torch.Tensor) and value.is_cuda for value in args)
    before, after = (_compiled(model, args, knob, side, train) for side in SIDES)
    with torch.set_grad_enabled(train):
        return paired(before, after, torch.cuda.synchronize if on_gpu else lambda: None, rounds)


def _compiled(model: nn.Module, args: tuple, knob: Knob, side: str, train: bool) -> Callable[[], None]:
    """A call of the model as one side compiles it, with its backward pass where it trains; it has run once."""
    module = _module(model, knob, side)
    compile_fx = owner("compile_fx").compile_fx
    function = torch.compile(module, backend=lambda graph, inputs: compile_fx(graph, inputs))

    tensors = [*module.parameters(), *(value for value in args if isinstance(value, torch.Tensor))]
    leaves = [tensor for tensor in tensors if tensor.requires_grad]

    def step() -> None:
        result = function(*args)
        if train:
            torch.autograd.grad(result, leaves, allow_unused=True)

    # the backward would be lowered in a thread of autograd's, which may not see the options of this one
    at_once = owner("functorch_config").patch(force_non_lazy_backward_lowering=True)
    with _flipped(knob, side), inductor_options(dict(getattr(knob, side))), at_once, torch.set_grad_enabled(train):
        step()
    return step


def model_for(name: str, checkpoint: str | Path = CHECKPOINT) -> CapturedModel:
    """One of the lab's models, or a user's own as FILE.py:FACTORY, on the CPU.

    Raises:
        LabError: no model has that name, or it cannot be made.
    """
    source, colon, factory = name.rpartition(":")
    entry = {"source": source, "factory": factory} if colon else None
    return build(Path(source).stem if colon else name, checkpoint, entry)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command line takes."""
    parser.add_argument("model", metavar="MODEL", help="tiny_head, minigpt, ... or FILE.py:FACTORY")
    parser.add_argument("knob", metavar="KNOB", help=f"one of {', '.join(KNOBS)}")
    parser.add_argument("--target", default="cpu", choices=TARGETS)
    parser.add_argument("--out", type=Path, metavar="DIR", help="also write KNOB.json and the page KNOB.html there")
    parser.add_argument("--language", default="en", choices=("en", "es"), help="of the page and of what is printed")
    parser.add_argument("--checkpoint", default=CHECKPOINT, help=f"of the trained MiniGPT (default: {CHECKPOINT})")


def run(arguments: argparse.Namespace) -> None:
    """Do what the command line asks: print both sides, and write the result and its page where that is asked.

    Raises:
        LabError: as `what_if`, and `model_for`.
    """
    from minicompile.explain.what_if import render_what_if, summary

    knob_for(arguments.knob, arguments.target)  # before a model is built for it
    model = model_for(arguments.model, arguments.checkpoint)
    if arguments.target == "cuda":
        model = model.to("cuda")
    found = what_if(
        model.module, model.inputs, arguments.knob, target=arguments.target, train=model.train, name=model.name
    )
    print(summary(found, arguments.language))
    if arguments.out:
        write_json(arguments.out / f"{arguments.knob}.json", found)
        render_what_if(found, arguments.out / f"{arguments.knob}.html", arguments.language)
        print(arguments.out / f"{arguments.knob}.html")
