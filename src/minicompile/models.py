"""The models that the lab captures, each as a module with example inputs, and a user's own.

`tiny_head` is the smallest model with a softmax in it. `minigpt` is the trained model with its last softmax as
`F.softmax`, so that Inductor writes the kernel; `minigpt_swapped` has the lab's Triton kernel there instead;
`minigpt_train` is the model's loss, for a backward pass. `gemv` is what a language model does for each new word at
batch 1: a matrix times one vector, which reads each weight once; in float32, bfloat16, and with int8 weights.
"""

import dataclasses
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from minilab import ConfigError, LabError
from minilab.user_code import load_function
from minilab.yaml_files import given_text, parse_yaml

BUILT_IN = ("tiny_head", "minigpt", "minigpt_train", "minigpt_swapped", "gemv", "gemv_bfloat16", "gemv_int8")
SEED = 42
CHECKPOINT = Path("results/17/checkpoint.npz")
CONFIGURATION = Path("config.yaml")
ENTRY = {"source", "factory", "train", "dynamic", "options", "kwargs"}  # keys of a user's model there
FORMS = "tiny_head, minigpt, ..., one of config.yaml's models, or FILE.py:FACTORY"


@dataclass(frozen=True)
class CapturedModel:
    """A model to capture: the module, its example inputs, and whether it gives a loss to run backward from.

    `dynamic` is torch.compile's, `options` are Inductor's, as `minicompile.lowering.capture.capture` takes them.
    """

    name: str
    module: Any
    inputs: Any
    train: bool = False
    kwargs: dict = field(default_factory=dict)
    dynamic: bool | None = None
    options: dict | None = None

    @property
    def settings(self) -> dict:
        """What `capture` is given beside the module and its inputs."""
        return {key: getattr(self, key) for key in ("kwargs", "train", "dynamic", "options", "name")}

    def to(self, device: str) -> "CapturedModel":
        """The same on another device; the module is moved, not copied."""
        module = self.module.to(device) if isinstance(self.module, nn.Module) else self.module
        return replace(self, module=module, inputs=_moved(self.inputs, device), kwargs=_moved(self.kwargs, device))


def _moved(value: Any, device: str) -> Any:
    """A value with the tensors inside it on a device."""
    if isinstance(value, Tensor | nn.Module):
        return value.to(device)
    if isinstance(value, dict):
        return type(value)((key, _moved(one, device)) for key, one in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_moved(one, device) for one in value))
    if isinstance(value, list | tuple):
        return type(value)(_moved(one, device) for one in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        held = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        return replace(value, **_moved(held, device))
    return value


class TinyHead(nn.Module):
    """The end of a language model alone: a linear layer, then softmax over the vocabulary; (B, 64) to (B, 600)."""

    def __init__(self, n_embd: int = 64, vocab_size: int = 600) -> None:
        super().__init__()
        self.proj = nn.Linear(n_embd, vocab_size)

    def forward(self, x: Tensor) -> Tensor:
        logits = self.proj(x)
        return F.softmax(logits, dim=-1)


class MatrixVector(nn.Module):
    """A weight matrix (N, K) times one vector, (1, K) to (1, N).

    With int8 weights each row has a scale, and the vector and the result are bfloat16.

    Args:
        shape: (N, K).
        dtype: of the weights: float32, bfloat16 or int8.
    """

    weight: Tensor
    scale: Tensor

    def __init__(self, shape: tuple[int, int], dtype: str = "float32") -> None:
        super().__init__()
        if dtype == "int8":
            self.register_buffer("weight", torch.randint(-127, 128, shape, dtype=torch.int8))
            self.register_buffer("scale", torch.full((shape[0],), 1 / 127, dtype=torch.bfloat16))
        else:
            self.register_buffer("weight", torch.randn(shape).to(getattr(torch, dtype)))
        self.quantised = dtype == "int8"

    def forward(self, x: Tensor) -> Tensor:
        if self.quantised:
            return F.linear(x, self.weight.to(x.dtype)) * self.scale
        return F.linear(x, self.weight)


class NextWord(nn.Module):
    """Probabilities of the next word, (B, T, V), from ids (B, T): the model's logits, then a softmax."""

    def __init__(self, model: nn.Module, softmax: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.model, self.softmax = model, softmax

    def forward(self, ids: Tensor) -> Tensor:
        return self.softmax(self.model(ids))


class Loss(nn.Module):
    """Mean cross-entropy, a scalar, of the words `targets` (B, T) that follow `ids` (B, T)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        logits = self.model(ids)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def last_axis_softmax(logits: Tensor) -> Tensor:
    """`F.softmax`, which Inductor turns into a kernel of its own."""
    return F.softmax(logits, dim=-1)


def tiny_head(batch: int = 2) -> CapturedModel:
    """`TinyHead` on random hidden states (batch, 64)."""
    torch.manual_seed(SEED)
    return CapturedModel("tiny_head", TinyHead().eval(), (torch.randn(batch, 64),))


def gemv(name: str = "gemv", shape: tuple[int, int] = (1024, 1024)) -> CapturedModel:
    """`MatrixVector` of a shape (N, K) on a random vector; its name ends with a dtype other than float32."""
    torch.manual_seed(SEED)
    dtype = name.removeprefix("gemv").removeprefix("_") or "float32"
    x = torch.randn(1, shape[1]).to(torch.float32 if dtype == "float32" else torch.bfloat16)
    return CapturedModel(name, MatrixVector(shape, dtype).eval(), (x,))


def minigpt(checkpoint: str | Path, name: str = "minigpt", shape: tuple[int, int] = (2, 16)) -> CapturedModel:
    """The trained model on random ids of `shape` (B, T), as `name` says: `minigpt`, `minigpt_train`, `minigpt_swapped`.

    Raises:
        LabError: the checkpoint is missing or is not one of the model's; T is more than its block size.
    """
    from minimodel.checkpoint import load_checkpoint
    from minimodel.port import port

    model, _ = port(load_checkpoint(checkpoint))
    if shape[1] > model.config.block_size:
        raise LabError(
            f"capture.shape asks for {shape[1]} tokens, but the model's block_size is {model.config.block_size}; "
            f"write at most that."
        )
    generator = torch.Generator().manual_seed(SEED)
    ids, following = (torch.randint(0, model.config.vocab_size, shape, generator=generator) for _ in range(2))
    if name == "minigpt_train":
        return CapturedModel(name, Loss(model.train()), (ids, following), train=True)
    if name == "minigpt_swapped":
        # by a string, so that the other models' captures do not depend on the kernel; it needs Triton, and a GPU to run
        swapped = importlib.import_module("minikernel.ops.operator.triton_operator").softmax
        return CapturedModel(name, NextWord(model, swapped).eval(), (ids,))
    return CapturedModel(name, NextWord(model, last_axis_softmax).eval(), (ids,))


def user_model(name: str, source: str | Path, factory: str = "make", **settings: Any) -> CapturedModel:
    """A user's own model, as a factory in a file of the user's makes it.

    Args:
        source: the file.
        factory: a function in it that returns (module or function, inputs), or these and keyword arguments; inputs are
            a tuple, or one input alone.
        settings: `train`, `dynamic`, `options` of `CapturedModel`, and `kwargs` over those of the factory.

    Raises:
        LabError: the file is missing, cannot be imported, has no such function, or returns something else.
    """
    made = load_function("model", name, source, factory)()
    parts = made if isinstance(made, tuple) else (made,)
    if len(parts) not in (2, 3) or not callable(parts[0]) or not isinstance(parts[2] if parts[2:] else {}, dict):
        raise LabError(
            f"model {name}: {source}: {factory}() must return (nn.Module, inputs) or (nn.Module, inputs, keyword "
            f"arguments) and returned {type(made).__name__}; end it with `return module, (input,)`."
        )
    given = {**(parts[2] if parts[2:] else {}), **(settings.pop("kwargs", None) or {})}
    return CapturedModel(name, parts[0], parts[1], kwargs=given, **settings)


def named(text: str, checkpoint: str | Path = CHECKPOINT) -> CapturedModel:
    """The model that somebody names at a command: one of the lab's, of config.yaml's, or FILE.py:FACTORY.

    Raises:
        ConfigError: config.yaml, in whatever folder this is called, is no YAML or says nonsense of the model.
        LabError: there is none of that name, or it cannot be made.
    """
    source, colon, factory = text.rpartition(":")
    if colon:
        return user_model(Path(source).stem, source, factory)
    return build(text, checkpoint, _configured(text))


def _configured(name: str) -> dict | None:
    """What config.yaml says of a user's model; None where it, or the file, is not there."""
    if not CONFIGURATION.is_file():
        return None
    held = parse_yaml(given_text(CONFIGURATION, "YAML"), str(CONFIGURATION))
    models = held.get("models") if isinstance(held, dict) else held
    entry = models.get(name) if isinstance(models, dict) else None
    for where, value in (("models", models), (f"models.{name}", entry)):
        if value is not None and not isinstance(value, dict):
            raise ConfigError(f"{CONFIGURATION}: {where} is {shorten(repr(value), 60)}; write a mapping there.")
    if entry is not None and ("source" not in entry or entry.keys() - ENTRY):
        keys = ", ".join(sorted(ENTRY))
        raise ConfigError(f"{CONFIGURATION}: models.{name} needs source, and takes {keys}; mend it.")
    return entry


def build(
    name: str, checkpoint: str | Path | None = None, entry: dict | None = None, shape: tuple[int, int] = (2, 16)
) -> CapturedModel:
    """The model that the workflow calls `name`, on the CPU.

    Args:
        checkpoint: of the trained MiniGPT, for the models that are made of it.
        entry: of a user's model in the configuration: `source`, `factory`, and what else `user_model` takes.
        shape: (B, T) of the ids that those models get.

    Raises:
        LabError: no model has that name, or it cannot be made.
    """
    if entry is not None:
        return user_model(name, **entry)
    if name == "tiny_head":
        return tiny_head()
    if name.startswith("gemv") and name in BUILT_IN:
        return gemv(name)
    if name in BUILT_IN:
        if checkpoint is None:
            raise LabError(f"model {name} is made of a checkpoint; give the path of one, results/17/checkpoint.npz.")
        return minigpt(checkpoint, name, shape)
    raise LabError(
        f"no model is called {name!r}; there are {', '.join(BUILT_IN)}, and those of config.yaml's models; a command "
        f"takes FILE.py:FACTORY too."
    )
