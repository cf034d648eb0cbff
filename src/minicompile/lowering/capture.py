"""`capture`: what torch.compile makes of a model, from its source to each line of each kernel, all of it linked.

The idea is tlparse's (github.com/meta-pytorch/tlparse), with links as fine as lines within kernels, the IR, every
fusion decision and the backward pass. The result is plain data; schemas/capture.schema.yaml describes every field.
"""

import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache, partial
from typing import Any, cast

import torch

from minicompile.batches import split_batch, tensors_of
from minicompile.frozen_state import frozen
from minicompile.lowering.captured import Capture, Graph, Kind, Warned
from minicompile.lowering.choices import chosen, clock_choices
from minicompile.lowering.coverage import coverage, gaps
from minicompile.lowering.panes.cpp_assembly import with_cpp_assembly
from minicompile.lowering.panes.panes import Panes
from minicompile.lowering.panes.triton_assembly import with_assembly
from minicompile.lowering.record import Record, without
from minicompile.torch_private.paths import without_addresses, without_paths
from minicompile.torch_private.snapshot import described
from minicompile.torch_private.triton_kernels import TritonKernels
from minicompile.torch_private.watching.session import Session, fresh_dynamo, guards, watch
from minilab import LabError
from minilab.device import cpu_device, gpu_devices, gpu_names, hardware
from minilab.records.provenance import versions

FORMAT = 1
SIMULATED_DEVICE = "simulated-h200"
ATTENTION = "scaled_dot_product_attention"
TARGETS = ("cpu", "cuda", "simulated")


def capture(
    model: Callable,
    args: Any = (),
    kwargs: dict | None = None,
    *,
    target: str = "cpu",
    train: bool = False,
    dynamic: bool | None = None,
    name: str | None = None,
    options: dict | None = None,
    replay: Capture | None = None,
    assembly: bool = False,
) -> Capture:
    """Compile a model once with every stage of torch.compile watched.

    All compile caches are off for that one compile, and Dynamo is reset before and after it, so what was compiled
    earlier in the process neither shows nor stays: functions that were compiled before compile again at their next
    call. The generated code is the same, byte for byte, as without the capture. The model, its optimizer, its inputs
    and the random numbers are left as they were (`minicompile.frozen_state`).

    Args:
        model: a module or a function, a whole training step say, whose graphs are then captured one by one; what it
            computes with is on the CPU for the targets `cpu` and `simulated`, on a GPU for `cuda`.
        args: example inputs, on the same device: a tuple of positional arguments, or one argument alone. A dictionary
            goes in by name where `model` has parameters of these names, and whole where it has not.
        kwargs: keyword arguments beside them.
        target: `cpu` (C++), `cuda` (Triton, on a GPU that is here), `simulated` (Triton for an H200 that is not).
        train: the model returns a loss, or something with one: `.loss`, `["loss"]`, the first scalar of a tuple. Its
            backward pass is captured as well. A function that calls `backward` itself needs no `train`.
        dynamic: torch.compile's: True, sizes are symbols from the start; False, never; None, where they vary.
        name: what to call the model; its class by default.
        options: settings of Inductor's to compile with, over its own.
        replay: a capture of the same model on a real GPU; where a clock decided there, the simulated target decides
            the same, which it would otherwise leave undone.
        assembly: show the machine code of the kernels too. For C++ each graph is compiled once more, which takes a few
            seconds; for Triton each kernel is disassembled, which takes about half a second.

    Returns:
        The capture, plain data as schemas/capture.schema.yaml describes it. Where torch.compile compiled nothing, it
        has no graphs, and `graph_breaks` and `compiles` say why.

    Raises:
        LabError: the target is not there, the inputs are elsewhere, an option is unknown, or there is no loss.
    """
    args, kwargs = call_arguments(model, args, kwargs)
    named = _named(model)
    name = name or named["name"]
    _check_target(model, (args, kwargs), target)
    compiled = _compiled(model, dynamic, options)
    run = partial(_run, compiled, model, args, kwargs, target, train, name)
    with (
        frozen(model, args, kwargs),
        fresh_dynamo(),
        watch(
            "simulated" if target == "simulated" else None, clock_choices(replay["choices"]) if replay else ()
        ) as seen,
    ):
        began = time.perf_counter()
        with torch.enable_grad() if train or not isinstance(model, torch.nn.Module) else torch.no_grad():
            run()
        seconds = time.perf_counter() - began
    seen.seconds = seconds
    inputs = [*args, *kwargs.values()]
    subject = {"name": name, "class": named["class"], "train": train, "inputs": [described(value) for value in inputs]}
    return as_capture(seen, subject, cast(Kind, target), options or {}, assembly=assembly)


def call_arguments(model: Callable, args: Any, kwargs: dict | None) -> tuple[tuple, dict]:
    """Positional and keyword arguments of a model's call out of what `capture` takes as `args` and `kwargs`."""
    if isinstance(args, tuple) and not hasattr(args, "_fields"):
        return args, kwargs or {}
    if isinstance(args, dict) and args:
        positional, by_name, _ = split_batch(model, args)
        return positional, {**by_name, **(kwargs or {})}
    return (args,), kwargs or {}


def as_capture(session: Session, model: dict, target: Kind, options: dict, *, assembly: bool = False) -> Capture:
    """A capture of what one session saw.

    Args:
        session: that has ended.
        model: what the capture's `model` says: `name`, `class`, `train`, `inputs`.
        target: what the code was made for.
        options: settings of Inductor's that were not its own.
        assembly: show the machine code of the kernels too.
    """
    record = Record(session)
    with nullcontext() if target == "cpu" else TritonKernels(target) as kernels:
        best = session.choices.kernel_times.best
        graphs, panes, warnings = _built(record, kernels, options if assembly else None, best)
        choices, sources = chosen(record.built, session.choices, graphs, panes.panes, kernels)
    made: Capture = {
        "format": FORMAT,
        "model": model,
        "target": {
            "kind": target,
            "device": device_slug(target),
            "gpu": gpu_names()[0] if target == "cuda" else None,
            "simulated": target == "simulated",
            "attention": "math" if target == "simulated" and _attends(session) else None,
        },
        "environment": environment(target, options),
        "compile": {"seconds": session.seconds, "phases": _phases(session.phases)},
        "missing_hooks": session.missing_hooks,
        "compiles": record.compiles(),
        "graph_breaks": record.graph_breaks(),
        "guards": guards(session),
        "recompiles": [one["reason"] for one in session.compiles if one["reason"]],
        "choices": choices,
        "candidate_sources": sources,
        "graphs": graphs,
        "links": [],  # numbers in the main, in which no folder can be
        "panes": panes.panes,
        "warnings": [*(cast(Warned, without(one, "model")) for one in session.warnings), *warnings],
    }
    made = without_paths(made)
    made["links"] = panes.links()
    made["warnings"] += gaps(made)
    return made


def _attends(session: Session) -> bool:
    return any(ATTENTION in node["target"] for graph in session.dynamo for node in graph["nodes"])


def _built(
    record: Record,
    kernels: TritonKernels | None,
    assembled_with: dict | None,
    chosen_blocks: Callable[[str], dict | None],
) -> tuple[list[Graph], Panes, list[Warned]]:
    """The graphs with all that is known of them, all panes with their links, and what could not be had."""
    panes, warnings, graphs = record.panes, list[Warned](), []
    codes = [lowered["code"] for lowered in record.built]
    for graph, code in zip(record.graphs, codes, strict=True):
        if kernels is not None:
            try:
                graph, texts = with_assembly(
                    graph, code.split("\n"), kernels, chosen_blocks, sass=assembled_with is not None
                )
                panes.extend(texts)
            except LabError as error:
                warnings.append({"code": "no_assembly", "what": graph["id"], "reason": str(error)})
        elif assembled_with is not None:
            graph, texts = with_cpp_assembly(graph, code.split("\n"), assembled_with)
            panes.extend(texts)
        graphs.append(graph)
    links = panes.links()
    made: list[Graph] = [
        {**graph, "code_sha256": code_digest(code), "coverage": coverage(graph, links)}
        for graph, code in zip(graphs, codes, strict=True)
    ]
    return made, panes, record.warnings + warnings


def code_digest(code: str) -> str:
    """SHA-256 of generated code, without what comments say of the process' count of compiles, folders and addresses."""
    code = re.sub(r"^# AOT ID: .*\n", "", without_addresses(code))
    return hashlib.sha256(re.sub(r"(?m)^(# (?:kernel|Original) path: ).*/", r"\1", code).encode()).hexdigest()


def device_slug(target: str) -> str:
    """The slug under which results of a target are filed."""
    if target == "simulated":
        return SIMULATED_DEVICE
    return cpu_device() if target == "cpu" else gpu_devices()[0]


def environment(target: str, options: dict) -> dict:
    """Versions, hardware, C++ compiler and the settings that the code depends on."""
    return {
        "versions": dict(_versions()),
        "hardware": hardware(cpu_device() if target == "simulated" else device_slug(target)),
        "compiler": _compiler(shutil.which(os.environ.get("CXX", "g++"))),
        "threads": torch.get_num_threads(),
        "options": {key: str(value) for key, value in options.items()},
    }


_versions = cache(versions)  # of what is installed, which is read off files


@cache
def _compiler(program: str | None) -> str | None:
    """What a C++ compiler calls itself; None where there is none."""
    answer = subprocess.run([program, "--version"], capture_output=True, text=True).stdout if program else ""
    return answer.splitlines()[0] if answer else None


def _compiled(model: Callable, dynamic: bool | None, options: dict | None) -> Callable:
    try:
        return torch.compile(model, dynamic=dynamic, options=options or None)
    except RuntimeError as error:
        raise LabError(f"torch.compile takes no such options: {str(error).split(', known options')[0]}.") from error


def _check_target(model: Callable, inputs: Any, target: str) -> None:
    if target not in TARGETS:
        raise LabError(f"target {target!r} is not one of {', '.join(TARGETS)}; write one of those.")
    if target == "cuda" and not torch.cuda.is_available():
        raise LabError("target 'cuda' needs a GPU, and torch sees none; write target='simulated' for its code alone.")
    wanted = "cuda" if target == "cuda" else "cpu"
    tensors = [tensor for _, tensor in tensors_of(inputs)]
    if isinstance(model, torch.nn.Module):
        tensors += [*model.parameters(), *model.buffers()]
    found = {tensor.device.type for tensor in tensors if tensor.ndim or target != "cuda"} - {wanted}
    if found:
        raise LabError(
            f"target {target!r} captures a model on {wanted}, and a tensor of it or of its inputs is on {found.pop()}; "
            f"move both with .to({wanted!r})."
        )


def _run(compiled: Callable, model: Callable, args: tuple, kwargs: dict, target: str, train: bool, name: str) -> None:
    """Run the compiled model once, backward included."""
    if not train:
        compiled(*args, **kwargs)
        return
    if isinstance(model, torch.nn.Module):
        model.zero_grad(set_to_none=True)  # backward would add to what is there
    loss = loss_of(compiled(*args, **kwargs))
    if loss is None:
        raise LabError(
            f"train=True needs a model that returns a scalar loss, and {name} does not; return one, or something with "
            f"a .loss, or leave train out."
        )
    if not loss.requires_grad:
        raise LabError(
            f"train=True needs a loss that depends on something that requires a gradient, and that of {name} does not; "
            f"give it a parameter or an input with requires_grad=True, or leave train out."
        )
    if target != "simulated":  # there the backward was lowered with the forward, and none of the code can run
        loss.backward()


def loss_of(output: Any) -> torch.Tensor | None:
    """The loss in what a model returns: the scalar itself, its `.loss` or `["loss"]`, the first scalar of a tuple."""
    if isinstance(output, torch.Tensor):
        return output if output.numel() == 1 else None
    named = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    if isinstance(named, torch.Tensor):
        return loss_of(named)
    parts = output if isinstance(output, list | tuple) else ()
    return next((part for part in parts if isinstance(part, torch.Tensor) and part.numel() == 1), None)


def _named(model: Callable) -> dict:
    """The name and the class of a module, the names of a function."""
    if isinstance(model, torch.nn.Module):
        model = getattr(model, "_orig_mod", model)
        return {"name": type(model).__name__, "class": type(model).__qualname__}
    kind = type(model).__name__
    return {"name": getattr(model, "__name__", kind), "class": getattr(model, "__qualname__", kind)}


def _phases(phases: dict[str, float]) -> list[dict]:
    ordered = sorted(phases.items(), key=lambda phase: -phase[1])
    return [{"phase": phase, "seconds": seconds} for phase, seconds in ordered]
