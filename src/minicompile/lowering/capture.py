"""`capture`: what torch.compile makes of a model, from its source to each line of each kernel, all of it linked.

The idea is tlparse's (github.com/meta-pytorch/tlparse), with links as fine as lines within kernels, the IR, every
fusion decision and the backward pass. The result is plain data; schemas/capture.schema.yaml describes every field.
"""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from typing import cast

import torch

from minicompile.lowering.captured import Capture, Graph, Kind
from minicompile.lowering.coverage import check_complete, coverage
from minicompile.lowering.cpp_assembly import with_cpp_assembly
from minicompile.lowering.panes import Panes
from minicompile.lowering.record import Record
from minicompile.lowering.triton_assembly import with_assembly
from minicompile.torch_private.paths import without_paths
from minicompile.torch_private.session import Session, guards, recompile_reasons, watch
from minilab import LabError
from minilab.device import cpu_device, gpu_devices, gpu_names, hardware
from minilab.records.provenance import versions

FORMAT = 1
SIMULATED_DEVICE = "simulated-h200"
TARGETS = ("cpu", "cuda", "simulated")


def capture(
    model: torch.nn.Module,
    args: tuple,
    *,
    target: str = "cpu",
    train: bool = False,
    name: str | None = None,
    options: dict | None = None,
    assembly: bool = False,
) -> Capture:
    """Compile a model once with every stage of torch.compile watched.

    All compile caches are off for that one compile, and Dynamo is reset before and after it, so what was compiled
    earlier in the process neither shows nor stays: functions that were compiled before compile again at their next
    call. The generated code is the same, byte for byte, as without the capture. Parameters, gradients and the
    model's mode are left as they were.

    Args:
        model: on the CPU for the targets `cpu` and `simulated`, on a GPU for `cuda`.
        args: example inputs, on the same device.
        target: `cpu` (C++), `cuda` (Triton, on a GPU that is here), `simulated` (Triton for an H200 that is not).
        train: the model returns a scalar loss; its backward pass is captured as well.
        name: what to call the model; its class by default.
        options: settings of Inductor's to compile with, over its own.
        assembly: compile C++ kernels once more, to show their machine code; that takes a few seconds for each graph.

    Returns:
        The capture, plain data as schemas/capture.schema.yaml describes it.

    Raises:
        LabError: the model cannot be compiled, or something in the compile is tied to nothing; the sentence names it.
    """
    name = name or type(model).__name__
    _check_target(model, args, target)
    session = watch(_runner(model, args, target, train, name), model, target, options or {})
    if not session.lowered:
        raise LabError(
            f"torch.compile found nothing to compile in {name}; capture a model that computes with tensors, and unset "
            f"TORCHDYNAMO_DISABLE if it is set."
        )
    graphs, panes = _built(Record(session), session, target, (options or {}) if assembly else None)
    made: Capture = {
        "format": FORMAT,
        "model": {"name": name, "class": type(model).__qualname__, "train": train, "inputs": [_shown(a) for a in args]},
        "target": {
            "kind": cast(Kind, target),
            "device": device_slug(target),
            "gpu": gpu_names()[0] if target == "cuda" else None,
            "simulated": target == "simulated",
        },
        "environment": environment(target, options or {}),
        "compile": {"seconds": session.seconds, "phases": _phases(session.phases)},
        "missing_hooks": session.missing_hooks,
        "graph_breaks": session.graph_breaks,
        "guards": guards(session),
        "recompiles": recompile_reasons(session),
        "choices": session.choices,
        "graphs": graphs,
        "links": panes.links(),
        "panes": panes.panes,
    }
    made = without_paths(made)
    check_complete(made)
    return made


def _built(record: Record, session: Session, target: str, assembled_with: dict | None) -> tuple[list[Graph], Panes]:
    """The graphs with all that is known of them, and all panes with their links."""
    panes, graphs = record.panes, record.graphs
    codes = [lowered["code"] for lowered in session.lowered]
    if target != "cpu" or assembled_with is not None:
        compiled = [
            with_cpp_assembly(graph, code.split("\n"), assembled_with or {})
            if target == "cpu"
            else with_assembly(graph, code.split("\n"), target)
            for graph, code in zip(graphs, codes, strict=True)
        ]
        graphs = [graph for graph, _ in compiled]
        for _, texts in compiled:
            panes.extend(texts)
    links = panes.links()
    return [
        {**graph, "code_sha256": code_digest(code), "coverage": coverage(graph, links)}
        for graph, code in zip(graphs, codes, strict=True)
    ], panes


def code_digest(code: str) -> str:
    """SHA-256 of generated code, without the comments that count the process' compiles or name its cache folder."""
    code = re.sub(r"^# AOT ID: .*\n", "", code)
    return hashlib.sha256(re.sub(r"(?m)^# kernel path: .*/", "# kernel path: ", code).encode()).hexdigest()


def device_slug(target: str) -> str:
    """The slug under which results of a target are filed."""
    if target == "simulated":
        return SIMULATED_DEVICE
    return cpu_device() if target == "cpu" else gpu_devices()[0]


def environment(target: str, options: dict) -> dict:
    """Versions, hardware, C++ compiler and the settings that the code depends on."""
    compiler = os.environ.get("CXX", "g++")
    answer = subprocess.run([compiler, "--version"], capture_output=True, text=True) if shutil.which(compiler) else None
    return {
        "versions": versions(),
        "hardware": hardware(cpu_device() if target == "simulated" else device_slug(target)),
        "compiler": answer.stdout.splitlines()[0] if answer and answer.stdout else None,
        "threads": torch.get_num_threads(),
        "options": {key: str(value) for key, value in options.items()},
    }


def _check_target(model: torch.nn.Module, args: tuple, target: str) -> None:
    if target not in TARGETS:
        raise LabError(f"target {target!r} is not one of {', '.join(TARGETS)}; write one of those.")
    if target == "cuda" and not torch.cuda.is_available():
        raise LabError("target 'cuda' needs a GPU, and torch sees none; write target='simulated' for its code alone.")
    wanted = "cuda" if target == "cuda" else "cpu"
    tensors = [*model.parameters(), *model.buffers(), *(value for value in args if isinstance(value, torch.Tensor))]
    found = {tensor.device.type for tensor in tensors} - {wanted}
    if found:
        raise LabError(
            f"target {target!r} captures a model on {wanted}, and a tensor of it or of its inputs is on {found.pop()}; "
            f"move both with .to({wanted!r})."
        )


def _runner(model: torch.nn.Module, args: tuple, target: str, train: bool, name: str) -> Callable[[Callable], None]:
    """What runs the compiled model once, backward included, and leaves its gradients as they were."""

    def run(compiled: Callable) -> None:
        if not train:
            with torch.no_grad():
                compiled(*args)
            return
        loss = compiled(*args)
        if not (isinstance(loss, torch.Tensor) and loss.numel() == 1):
            raise LabError(f"train=True needs a model that returns a scalar loss, and {name} does not; return one.")
        if target == "simulated":
            return  # its backward was lowered with its forward, and nothing has run
        before = [parameter.grad for parameter in model.parameters()]
        model.zero_grad(set_to_none=True)  # backward would add to those in place
        loss.backward()
        for parameter, gradient in zip(model.parameters(), before, strict=True):
            parameter.grad = gradient

    return run


def _phases(phases: dict[str, float]) -> list[dict]:
    ordered = sorted(phases.items(), key=lambda phase: -phase[1])
    return [{"phase": phase, "seconds": seconds} for phase, seconds in ordered]


def _shown(value: object) -> dict:
    if isinstance(value, torch.Tensor):
        return {"kind": "tensor", "size": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
    return {"kind": type(value).__name__, "size": None, "dtype": None}
