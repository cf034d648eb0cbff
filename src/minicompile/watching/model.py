"""One compile of one model, watched, in a process that compiles nothing else meanwhile."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, cast

import torch

from minicompile.state.batches import split_batch, tensors_of
from minicompile.state.frozen_state import frozen
from minicompile.torch_private.names import NAMES
from minicompile.watching.plain import plain
from minicompile.watching.session import Session, fresh_dynamo, watch
from minicompile.watching.snapshot import described
from minicompile.watching.watched import Kind, Watched
from minilab import LabError
from minilab.device import cpu_device, gpu_devices, gpu_names, hardware, is_cpu
from minilab.records.provenance import SIMULATED, versions

SIMULATED_DEVICE = "simulated-h200"
TARGETS = ("cpu", "cuda", "simulated")


def watch_model(
    model: Callable,
    args: Any = (),
    kwargs: dict | None = None,
    *,
    target: str = "cpu",
    train: bool = False,
    dynamic: bool | None = None,
    name: str | None = None,
    options: dict | None = None,
    clock: Sequence[dict] = (),
    machine_code: bool = True,
    assembly: bool = False,
    verify: bool = False,
) -> Watched:
    """Compile a model once with every stage of torch.compile watched.

    All compile caches are off for that one compile, and Dynamo is reset before and after it, so what was compiled
    earlier in the process neither shows nor stays: functions that were compiled before compile again at their next
    call. The generated code is the same, byte for byte, as without the watch. The model, its optimizer, its inputs
    and the random numbers are left as they were (`minicompile.state.frozen_state`).

    Args:
        model: a module or a function, a whole training step say, whose graphs are then watched one by one; what it
            computes with is on the CPU for the targets `cpu` and `simulated`, on a GPU for `cuda`.
        args: example inputs, on the same device, as `minicompile.state.batches` hands them over: a tuple of positional
            arguments, a mapping by name, or one argument alone.
        kwargs: keyword arguments beside them.
        target: `cpu` (C++), `cuda` (Triton, on a GPU that is here), `simulated` (Triton for an H200 that is not).
        train: the model returns a loss, or something with one: `.loss`, `["loss"]`, the first scalar of a tuple. Its
            backward pass is watched as well. A function that calls `backward` itself needs no `train`.
        dynamic: torch.compile's: True, sizes are symbols from the start; False, never; None, where they vary.
        name: what to call the model; its class by default.
        options: settings of Inductor's to compile with, over its own.
        clock: what a clock decided in a watch of the same model on a real GPU (`clock_choices`); the simulated target
            decides the same, which it would otherwise leave undone.
        machine_code: compile Triton's kernels, and keep what each stage makes of them.
        assembly: keep the machine code of the kernels too. For C++ each graph is compiled once more, which takes a few
            seconds; for Triton each kernel is disassembled, which takes about half a second.
        verify: run what was generated beside the graph, and add which line and which buffer has which node's values.

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
        watch("simulated" if target == "simulated" else None, clock) as seen,
    ):
        began = time.perf_counter()
        with torch.enable_grad() if train or not isinstance(model, torch.nn.Module) else torch.no_grad():
            run()
        seconds = time.perf_counter() - began
    seen.seconds = seconds
    inputs = [*args, *kwargs.values()]
    subject = {"name": name, "class": named["class"], "train": train, "inputs": [described(value) for value in inputs]}
    return watched_session(
        seen, subject, cast(Kind, target), options or {}, machine_code=machine_code, assembly=assembly, verify=verify
    )


def watched_session(
    session: Session,
    model: dict,
    target: Kind,
    options: dict,
    *,
    machine_code: bool = True,
    assembly: bool = False,
    verify: bool = False,
) -> Watched:
    """A `Watched` of what one session saw of one model.

    Args:
        session: that has ended.
        model: `name`, `class`, `train`, `inputs`.
        target: what the code was made for.
        options: settings of Inductor's that were not its own.
        machine_code: compile Triton's kernels, and keep what each stage makes of them.
        assembly: keep the machine code of the kernels too.
        verify: run what was generated beside the graph (`minicompile.verifying`).
    """
    return plain(
        session,
        model,
        target,
        device=device_slug(target),
        gpu=gpu_names()[0] if target == "cuda" else None,
        environment=environment(target, options),
        options=options,
        machine_code=machine_code,
        assembly=assembly,
        verify=verify,
    )


def clock_choices(watched: Watched) -> list[dict]:
    """What a clock decided on a real device, for `watch_model` to decide on the simulated target."""
    return [choice for lowered in watched["lowered"] for choice in lowered["choices"]["clock"]]


def call_arguments(model: Callable, args: Any, kwargs: dict | None) -> tuple[tuple, dict]:
    """Positional and keyword arguments of a model's call out of what `capture` takes as `args` and `kwargs`."""
    if isinstance(args, Mapping | list | tuple) and not args:  # an empty tuple is no argument, and all else is one
        return () if isinstance(args, tuple) else (args,), kwargs or {}
    positional, by_name, _ = split_batch(model, args)
    return positional, {**by_name, **(kwargs or {})}


def target_of(device: str) -> str:
    """What to compile for, given a slug of results/25."""
    if device.startswith(SIMULATED):
        return "simulated"
    return "cpu" if is_cpu(device) else "cuda"


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
        "options_of": NAMES["config"].path.partition(":")[0],
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
    named = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
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
