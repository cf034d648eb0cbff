"""Trains the PyTorch port as `minimodel.training` trains the NumPy model: weights, rows, rates, clipping, AdamW.

What NumPy does by hand PyTorch does by autograd and `torch.optim`; nothing else differs, so that the two curves of
the loss can be laid on one another. A trainer keeps its own clock: several can take turns in one process.
"""

import logging
import math
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from minicompile.models import Loss
from minicompile.safe.compile_config import CompileConfig
from minicompile.safe.safe_compile import maybe_compile
from minikernel.ops.linear_cross_entropy.operator import LinearCrossEntropyLoss
from minilab import LabError
from minimodel.checkpoint import Checkpoint
from minimodel.corpus import TokenStream
from minimodel.model_config import MiniGPTConfig
from minimodel.numpy_minigpt import NumpyMiniGPT
from minimodel.optim import cosine_schedule
from minimodel.port import port
from minimodel.torch_minigpt import GrammarMiniGPT
from minimodel.torch_optim import decay_groups
from minimodel.training import steps_of


class Batch(NamedTuple):
    """One training step's ids and targets, int64 (B, T), and its learning rate."""

    ids: Tensor
    targets: Tensor
    learning_rate: float


def batches(stream: TokenStream, training: dict, steps: int | None, device: str) -> Iterator[Batch]:
    """Yield the batches of the NumPy training, in its order, on a torch device.

    Args:
        training: the `training` section of the config.
        steps: how many of them; None is all.
    """
    generator = np.random.default_rng(training["seed"])
    shapes = list(steps_of(training["phases"]))
    for step, (batch, length) in enumerate(shapes[:steps]):
        rows = stream.rows(stream.random_places(generator, batch, length))
        ids, targets = (torch.from_numpy(array).to(device) for array in rows)
        rate = cosine_schedule(
            step, len(shapes), training["learning_rate"], training["final_learning_rate"], training["warmup"]
        )
        yield Batch(ids, targets, rate)


class FusedLoss(nn.Module):
    """`Loss` without the logits: the head's product is a part of the lab's linear + cross-entropy."""

    def __init__(self, model: GrammarMiniGPT) -> None:
        super().__init__()
        self.model, self.head, self.loss = model, model.lm_head, LinearCrossEntropyLoss()
        model.add_module("lm_head", nn.Identity())

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        return self.loss(self.model(ids), self.head.weight, targets, bias=self.head.bias)


LOSSES: dict[str, type[nn.Module]] = {"logits": Loss, "fused": FusedLoss}


def initial_model(config: MiniGPTConfig, seed: int, device: str, loss: str = "logits") -> nn.Module:
    """Build the port with the weights that the NumPy training begins with, as a module that returns the mean loss.

    Args:
        loss: one of `LOSSES`.
    """
    arrays = NumpyMiniGPT.initialise(config, seed).arrays
    model, _ = port(Checkpoint(config, arrays, metadata={}))
    return LOSSES[loss](model.train()).to(device)


def adamw(module: nn.Module, training: dict) -> torch.optim.AdamW:
    """Make AdamW with the NumPy training's settings."""
    groups, betas = decay_groups(module, training["weight_decay"]), (training["beta_1"], training["beta_2"])
    return torch.optim.AdamW(groups, lr=training["learning_rate"], betas=betas)


class Trainer:
    """A model in training.

    Args:
        config, training: the model's sizes, and the `training` section of the config.
        device: a torch device.
        loss: one of `LOSSES`.

    Attributes:
        module: (ids, targets) -> mean cross-entropy, a scalar, in nats.
        losses: of every step so far.
        seconds: the clock: what has been spent on compiling and on steps so far.
        marks: the clock at the end of each stretch.
    """

    def __init__(self, config: MiniGPTConfig, training: dict, device: str, loss: str = "logits") -> None:
        self.module = initial_model(config, training["seed"], device, loss)
        self.optimizer = adamw(self.module, training)
        self.clip = training["clip"]
        self.losses: list[float] = []
        self.seconds = 0.0
        self.marks: list[float] = []

    def compile(self, cfg: CompileConfig, sample: Batch, logger: logging.Logger) -> None:
        """Put the model through `maybe_compile`, with the optimizer that trains it; its time is on the clock."""
        began = time.perf_counter()
        maybe_compile(self.module, cfg, logger, (sample.ids, sample.targets), optimizer=self.optimizer)
        self.seconds += time.perf_counter() - began

    def stretch(self, steps: list[Batch]) -> None:
        """Train on each batch in turn, and wait for the device once, at the end.

        Raises:
            LabError: the loss is no longer finite.
        """
        began = time.perf_counter()
        losses = torch.stack([self._step(batch) for batch in steps]).tolist()
        self.seconds += time.perf_counter() - began
        self.losses += losses
        self.marks.append(self.seconds)
        if not all(map(math.isfinite, losses)):
            raise LabError(
                f"the port's loss is no longer finite within its first {len(self.losses)} steps; lower "
                f"training.learning_rate."
            )

    def _step(self, batch: Batch) -> Tensor:
        for group in self.optimizer.param_groups:
            group["lr"] = batch.learning_rate
        torch.compiler.cudagraph_mark_step_begin()  # under CUDA graphs the last step's tensors may be written over
        loss = self.module(batch.ids, batch.targets)
        loss.backward()
        nn.utils.clip_grad_norm_(self.module.parameters(), self.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach().clone()

    @torch.no_grad()
    def cross_entropy(self, inputs: np.ndarray, targets: np.ndarray, batch: int = 32) -> float:
        """Compute the mean cross-entropy over all targets, in nats. Ids and targets: int64 (rows, T)."""
        device = next(self.module.parameters()).device
        total = 0.0
        for start in range(0, len(inputs), batch):
            rows = [torch.from_numpy(array[start : start + batch]).to(device) for array in (inputs, targets)]
            total += self.module(*rows).item() * rows[1].numel()
        return total / targets.size
