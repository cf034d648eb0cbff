"""Turns a model into a training step under each of the patterns of distributed training, and under two at once.

DDP: Li et al., "PyTorch Distributed" (VLDB 2020). FSDP: Zhao et al., "PyTorch FSDP" (VLDB 2023), after ZeRO
(Rajbhandari et al. 2020). Tensor parallel: Shoeybi et al., "Megatron-LM" (2019). Pipeline parallel: Huang et al.,
"GPipe" (2019), in the 1F1B order of Narayanan et al., "PipeDream" (2019), interleaved (Narayanan et al. 2021), and in
two orders of Qi et al., "Zero Bubble Pipeline Parallelism" (2023).

In shapes, N is the number of ranks, B the global batch, T the sequence, d the width, V the vocabulary, m the number of
micro-batches.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import (
    Schedule1F1B,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleZBVZeroBubble,
)
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

from minicompile.distributed.formulas import PIPELINES, REPLICAS, stages_of
from minicompile.distributed.parts import SplitAttention, StagePart
from minicompile.distributed.pipeline import Stretches, TimedStage
from minimodel.torch_minigpt import Block, GrammarMiniGPT

Step = Callable[[Tensor, Tensor], Tensor | None]
# With one stage a rank the schedule takes that stage, with more a list of them.
SCHEDULES: dict[str, Callable] = {
    "pp": lambda stages, *args, **more: Schedule1F1B(*stages, *args, **more),
    "pp_interleaved": ScheduleInterleaved1F1B,
    "pp_zb1p": ScheduleInterleavedZeroBubble,
    "pp_zbv": ScheduleZBVZeroBubble,
}


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
    return _on_my_slice(_step(replica, _optimizer(replica, training)), dist.get_rank(), dist.get_world_size())


def fully_sharded(model: GrammarMiniGPT, training: Training) -> Step:
    """FSDP2: every rank keeps 1/N of each parameter, its gradient and its moments, and a slice of the batch.

    Each block is a group that is gathered when it is needed and freed after; the rest of the model is the root group.
    """
    _shard(model, _mesh(training))
    return _on_my_slice(_step(model, _optimizer(model, training)), dist.get_rank(), dist.get_world_size())


def tensor_parallel(model: GrammarMiniGPT, training: Training) -> Step:
    """Tensor parallel: every rank holds H/N heads, 1/N of each feed-forward layer and V/N words, and sees every token.

    Megatron's cut: the first matrix of a pair by columns, the second by rows, so that a pair needs one all-reduce
    forward and one backward. Logits stay sharded by word, and so does the cross-entropy (`loss_parallel`).
    """
    _cut_by_heads(model, _mesh(training))
    return _with_sharded_loss(_step(model, _optimizer(model, training)))


def sharded_and_cut(model: GrammarMiniGPT, training: Training) -> Step:
    """FSDP2 x TP on a mesh of 2 by N/2 ranks: tensor parallel along its rows, FSDP2 between them.

    A row has its slice of the batch. Each rank keeps half of what tensor parallel leaves it of a parameter.
    """
    shape = (REPLICAS, dist.get_world_size() // REPLICAS)
    mesh = init_device_mesh(training.device.type, shape, mesh_dim_names=("dp", "tp"))
    _cut_by_heads(model, mesh["tp"])
    _shard(model, mesh["dp"])
    step = _with_sharded_loss(_step(model, _optimizer(model, training)))
    return _on_my_slice(step, mesh.get_local_rank("dp"), REPLICAS)


def _shard(model: GrammarMiniGPT, mesh: DeviceMesh) -> None:
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)


def _cut_by_heads(model: GrammarMiniGPT, mesh: DeviceMesh) -> None:
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
    parallelize_module(model, mesh, plan)


def _with_sharded_loss(step: Step) -> Step:
    def parallel_step(ids: Tensor, targets: Tensor) -> Tensor | None:
        with loss_parallel():
            return step(ids, targets)

    return parallel_step


def pipeline_parallel(model: GrammarMiniGPT, training: Training, pattern: str = "pp") -> Step:
    """Pipeline parallel: every rank holds L/N blocks; micro-batches flow through them, gradients back.

    Only the rank of the last stage knows the loss; the others return None.

    Args:
        model: what is trained.
        training: as every pattern is told.
        pattern: a key of `SCHEDULES`, the order of a rank's work.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine, count = stages_of(pattern, ranks, rank), PIPELINES[pattern] * ranks
    parts = nn.ModuleList(StagePart(model, stage, count) for stage in mine)
    first, last = 0 in mine, count - 1 in mine
    busy = training.busy
    stages = [  # shapes are exchanged in the first step
        TimedStage(part, stage, count, training.device, busy=busy) for part, stage in zip(parts, mine, strict=True)
    ]

    def loss_of(logits: Tensor, targets: Tensor) -> Tensor:
        with busy:
            return cross_entropy(logits, targets)

    schedule = SCHEDULES[pattern](stages, training.microbatches, loss_fn=loss_of)
    optimizer = _optimizer(parts, training)

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
    "fsdp_tp": sharded_and_cut,
    **{pattern: partial(pipeline_parallel, pattern=pattern) for pattern in SCHEDULES},
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


def _on_my_slice(step: Step, mine: int, slices: int) -> Step:
    """Take the step on this rank's slice of the batch; its loss is its mean, so the mean over ranks is the batch's."""

    def sliced_step(ids: Tensor, targets: Tensor) -> Tensor | None:
        return step(ids.chunk(slices)[mine], targets.chunk(slices)[mine])

    return sliced_step


def _optimizer(model: nn.Module, training: Training) -> torch.optim.Optimizer:
    """Make AdamW, fused. What is sharded over one mesh, over another or whole lies in groups of its own.

    One call cannot mix them.
    """
    groups: dict[DeviceMesh | None, list[nn.Parameter]] = {}
    for parameter in model.parameters():
        groups.setdefault(parameter.device_mesh if isinstance(parameter, DTensor) else None, []).append(parameter)
    return torch.optim.AdamW([{"params": group} for group in groups.values()], lr=training.learning_rate, fused=True)


def _mesh(training: Training):
    return init_device_mesh(training.device.type, (dist.get_world_size(),))
