"""Turns a model into a training step under each of the four patterns of distributed training.

DDP: Li et al., "PyTorch Distributed" (VLDB 2020). FSDP: Zhao et al., "PyTorch FSDP" (VLDB 2023), after ZeRO
(Rajbhandari et al. 2020). Tensor parallel: Shoeybi et al., "Megatron-LM" (2019). Pipeline parallel: Huang et al.,
"GPipe" (2019), in the 1F1B order of Narayanan et al., "PipeDream" (2019).

In shapes, N is the number of ranks, B the global batch, T the sequence, d the width, V the vocabulary, m the number of
micro-batches.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import Schedule1F1B
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from minicompile.distributed.parts import SplitAttention, StagePart
from minicompile.distributed.pipeline import Stretches, TimedStage
from minimodel.torch_minigpt import Block, GrammarMiniGPT

Step = Callable[[Tensor, Tensor], Tensor | None]


@dataclass(frozen=True)
class Training:
    """What every pattern is told: the learning rate of AdamW, micro-batches of the pipeline, this rank's device.

    `busy` sums what a stage of the pipeline computes; the other patterns do not use it.
    """

    learning_rate: float
    microbatches: int
    device: torch.device
    busy: Stretches


def single(model: GrammarMiniGPT, training: Training) -> Step:
    """Train in one process on the whole batch: the others must agree with it."""
    return _step(model, _optimizer(model, training))


def data_parallel(model: GrammarMiniGPT, training: Training) -> Step:
    """DDP: every rank holds the whole model and a slice of the batch; gradients are averaged, bucket by bucket.

    Buffers are not broadcast: the causal mask, MiniGPT's only one, is the same everywhere, and by default DDP would
    send it from rank 0 before each forward pass. (torch 2.13 calls the argument `forward_sync_buffers`; 2.11 does not.)
    """
    replica = DistributedDataParallel(model, broadcast_buffers=False, gradient_as_bucket_view=True)
    return _on_my_slice(_step(replica, _optimizer(replica, training)))


def fully_sharded(model: GrammarMiniGPT, training: Training) -> Step:
    """FSDP2: every rank keeps 1/N of each parameter, its gradient and its moments, and a slice of the batch.

    Each block is a group that is gathered when it is needed and freed after; the rest of the model is the root group.
    """
    mesh = _mesh(training)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return _on_my_slice(_step(model, _optimizer(model, training)))


def tensor_parallel(model: GrammarMiniGPT, training: Training) -> Step:
    """Tensor parallel: every rank holds H/N heads, 1/N of each feed-forward layer and V/N words, and sees every token.

    Megatron's cut: the first matrix of a pair by columns, the second by rows, so that a pair needs one all-reduce
    forward and one backward. Logits stay sharded by word, and so does the cross-entropy (`loss_parallel`).
    """
    for block in cast(Iterable[Block], model.blocks):
        block.add_module("attention", SplitAttention(block.attention))
    enter = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate())
    plan = {
        "token_embedding": RowwiseParallel(input_layouts=Replicate()),
        "blocks.*.attention": enter,  # once for query, key and value: one all-reduce of their gradients, not three
        **{f"blocks.*.attention.{name}": ColwiseParallel() for name in ("query", "key", "value")},
        "blocks.*.attention.proj": RowwiseParallel(),
        "blocks.*.mlp.fc": ColwiseParallel(),
        "blocks.*.mlp.proj": RowwiseParallel(),
        "lm_head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
    }
    parallelize_module(model, _mesh(training), plan)
    step = _step(model, _optimizer(model, training))

    def parallel_step(ids: Tensor, targets: Tensor) -> Tensor | None:
        with loss_parallel():
            return step(ids, targets)

    return parallel_step


def pipeline_parallel(model: GrammarMiniGPT, training: Training) -> Step:
    """Pipeline parallel: every rank holds L/N blocks; micro-batches flow through them, gradients back.

    Only the last rank knows the loss; the others return None.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    part = StagePart(model, rank, ranks)
    first, last = rank == 0, rank == ranks - 1
    busy = training.busy
    stage = TimedStage(part, rank, ranks, training.device, busy=busy)  # shapes are exchanged in the first step

    def loss_of(logits: Tensor, targets: Tensor) -> Tensor:
        with busy:
            return cross_entropy(logits, targets)

    schedule = Schedule1F1B(stage, training.microbatches, loss_fn=loss_of)
    optimizer = _optimizer(part, training)

    def step(ids: Tensor, targets: Tensor) -> Tensor | None:
        optimizer.zero_grad()
        losses: list[Tensor] = []
        inputs = [ids] if first else []
        if last:
            schedule.step(*inputs, target=targets, losses=losses)
        else:
            schedule.step(*inputs)
        with busy:
            optimizer.step()
        return torch.stack(losses).mean().detach() if last else None

    return step


PATTERNS: dict[str, Callable[[GrammarMiniGPT, Training], Step]] = {
    "single": single,
    "ddp": data_parallel,
    "fsdp": fully_sharded,
    "tp": tensor_parallel,
    "pp": pipeline_parallel,
}


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Compute the mean cross-entropy in nats of logits (B, T, V), in float32, against targets (B, T), int64."""
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def _step(model: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    def step(ids: Tensor, targets: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = cross_entropy(model(ids), targets)
        loss.backward()
        optimizer.step()
        loss = loss.detach()
        return loss.full_tensor() if isinstance(loss, DTensor) else loss

    return step


def _on_my_slice(step: Step) -> Step:
    """Take the step on this rank's B/N sequences; its loss is their mean, so the mean over ranks is the batch's."""

    def sliced_step(ids: Tensor, targets: Tensor) -> Tensor | None:
        rank, ranks = dist.get_rank(), dist.get_world_size()
        return step(ids.chunk(ranks)[rank], targets.chunk(ranks)[rank])

    return sliced_step


def _optimizer(model: nn.Module, training: Training) -> torch.optim.Optimizer:
    """Make AdamW, fused. Sharded and whole parameters lie in groups of their own, because one call cannot mix them."""
    parameters = list(model.parameters())
    groups = [[p for p in parameters if isinstance(p, DTensor) == sharded] for sharded in (False, True)]
    return torch.optim.AdamW([{"params": group} for group in groups if group], lr=training.learning_rate, fused=True)


def _mesh(training: Training):
    return init_device_mesh(training.device.type, (dist.get_world_size(),))
