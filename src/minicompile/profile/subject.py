"""The model that is profiled, and one call of it: of a model that trains, the loss and its backward pass."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from minicompile import models
from minicompile.models import CapturedModel
from minicompile.state.batches import own_loss, tensors_of
from minicompile.watching.model import call_arguments
from minilab import LabError

Step = Callable[[], Any]


class Function(nn.Module):
    """A function as a module, which is what the safety net compiles."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def subject(
    model: str, entry: dict | None, shape: list[int] | None, checkpoint: str | Path, device: str
) -> CapturedModel:
    """Build a model to profile, on a torch device.

    Args:
        model: a name; `entry` is the configuration's, of a user's model.
        shape: of the inputs, (batch, 64) for tiny_head, (batch, time) for MiniGPT; a user's model has its own.

    Raises:
        LabError: there is no such model, or it does not take that shape.
    """
    if entry is not None or shape is None:
        made = models.build(model, checkpoint, entry)
    elif model == "tiny_head":
        made = models.tiny_head(shape[0])
    else:
        made = models.minigpt(checkpoint, model, (shape[0], shape[1]))
    if shape is not None and shape_of(made) != list(shape):
        raise LabError(f"profile: {model} takes shapes (batch, {shape_of(made)[1]}), not {tuple(shape)}.")
    if not isinstance(made.module, nn.Module):
        made = replace(made, module=Function(made.module))
    return made.to(device)


def inputs_of(made: CapturedModel) -> list[Tensor]:
    """The tensors that a call gets."""
    return [tensor for _, tensor in tensors_of((made.inputs, made.kwargs))]


def shape_of(made: CapturedModel) -> list[int]:
    """The shape of the first tensor that a call gets; empty where it gets none."""
    return next((list(tensor.shape) for tensor in inputs_of(made)), [])


def unit(made: CapturedModel) -> tuple[str, int]:
    """What of a call is counted each second, and how many: the ids of the first integer tensor, or rows."""
    tensors = inputs_of(made)
    for tensor in tensors:
        if not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool):
            return "tokens", max(1, tensor.numel())
    return "rows", tensors[0].shape[0] if tensors and tensors[0].ndim else 1


def on_gpu(made: CapturedModel) -> bool:
    """Whether a call runs on a GPU."""
    return any(tensor.is_cuda for tensor in [*inputs_of(made), *made.module.parameters(), *made.module.buffers()])


def synchronise() -> None:
    """Wait for the GPU, where this process uses one."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def seconds_of(call: Callable[[], object]) -> float:
    """Call once; the seconds until the device is done: the clock of every call that is timed."""
    synchronise()
    began = time.perf_counter()
    call()
    synchronise()
    return time.perf_counter() - began


def gradients(made: CapturedModel) -> AbstractContextManager:
    """The grad mode of its calls: a function may run backward by itself, as a whole training step does."""
    return torch.enable_grad() if made.train or isinstance(made.module, Function) else torch.no_grad()


def step(made: CapturedModel, module: Callable | None = None) -> Step:
    """One call of the model, or of `module` with its arguments; it returns the output.

    A model that trains also runs backward from its loss; the gradients are dropped at the next call.
    """
    called = made.module if module is None else module
    args, kwargs = call_arguments(made.module, made.inputs, made.kwargs)
    if not made.train:
        return lambda: called(*args, **kwargs)
    parameters = list(made.module.parameters())

    def train() -> Any:
        for parameter in parameters:
            parameter.grad = None
        output = called(*args, **kwargs)
        own_loss(output).backward()
        return output

    return train


def results(made: CapturedModel, output: Any) -> Iterator[Tensor]:
    """What a call computed, in floating point: its outputs, and the gradients of a model that trains; copies."""
    found = [tensor for _, tensor in tensors_of(output)]
    if made.train:
        found += [parameter.grad for parameter in made.module.parameters() if parameter.grad is not None]
    yield from (tensor.detach().clone() for tensor in found if tensor.is_floating_point())
