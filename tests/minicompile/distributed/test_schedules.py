"""What a pipeline's schedules leave idle: torch's own orders, played with equal parts, against the formulas."""

from itertools import chain

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B
from torch.testing._internal.distributed.fake_pg import FakeStore

from minicompile.distributed.formulas import PIPELINES, bubble_bound, idle_slots, stages_of
from minicompile.distributed.patterns import SCHEDULES

CPU = torch.device("cpu")
PARTS = {"F": 1, "I": 1, "W": 1, "B": 2}  # a whole backward pass is that of the input and that of the weights
Action = tuple[int, str, int]  # stage, what it computes, micro-batch


def orders(pattern: str, ranks: int, microbatches: int) -> list[list[Action]]:
    """What torch lets each rank do, in turn; one stage a rank, interleaved, is 1F1B."""
    schedule = ScheduleInterleaved1F1B if pattern == "pp" else SCHEDULES[pattern]
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    try:
        count = PIPELINES[pattern] * ranks
        stages = [PipelineStage(nn.Identity(), stage, count, CPU) for stage in stages_of(pattern, ranks, 0)]
        order = schedule(stages, microbatches, loss_fn=lambda logits, targets: logits).pipeline_order
    finally:
        dist.destroy_process_group()
    told = [[action for action in order[rank] if action is not None] for rank in range(ranks)]
    return [[(one.stage_index, one.computation_type.value, one.microbatch_index) for one in own] for own in told]


def played(orders: list[list[Action]], stages: int) -> int:
    """Play all ranks at once, each as early as what it waits for is done; return when the last one ends."""
    ended: dict[Action, int] = {}
    at, left = [0] * len(orders), [list(order) for order in orders]
    while any(left):
        before = len(ended)
        for rank, order in enumerate(left):
            while order and all(one in ended for one in waits_for(order[0], stages)):
                stage, part, microbatch = order.pop(0)
                start = max([at[rank], *(ended[one] for one in waits_for((stage, part, microbatch), stages))])
                at[rank] = start + PARTS[part]
                ended[stage, "I" if part == "B" else part, microbatch] = at[rank]
        assert len(ended) > before  # else every rank waits for another
    return max(at)


def waits_for(action: Action, stages: int) -> list[Action]:
    stage, part, microbatch = action
    if part == "W":
        return [(stage, "I", microbatch)]
    if part == "F":
        return [(stage - 1, "F", microbatch)] if stage else []
    return [(stage + 1, "I", microbatch)] if stage < stages - 1 else [(stage, "F", microbatch)]


@pytest.mark.parametrize("pattern", PIPELINES)
@pytest.mark.parametrize(("ranks", "microbatches"), [(2, 2), (2, 8), (3, 4), (4, 4), (4, 5), (4, 8), (8, 11), (8, 16)])
def test_a_schedule_leaves_idle_what_its_formula_says(pattern: str, ranks: int, microbatches: int):
    order = orders(pattern, ranks, microbatches)
    stages = PIPELINES[pattern]
    for own in order:  # each rank computes the same, all of it and nothing twice
        assert len(set(own)) == len(own)
        assert sum(PARTS[part] for _, part, _ in own) == 3 * microbatches * stages
    idle = played(order, stages * ranks) / stages - 3 * microbatches
    assert idle == idle_slots(pattern, ranks, microbatches)


@pytest.mark.parametrize("pattern", PIPELINES)
def test_every_stage_is_of_one_rank_where_torch_has_it(pattern: str):
    held = [stages_of(pattern, 4, rank) for rank in range(4)]
    assert sorted(chain(*held)) == list(range(4 * PIPELINES[pattern]))
    for mine, own in zip(held, orders(pattern, 4, 8), strict=True):
        assert {stage for stage, _, _ in own} == set(mine)


def test_a_smaller_bubble_allows_more():
    bounds = [bubble_bound(pattern, 4, 8) for pattern in ("pp", "pp_interleaved", "pp_zb1p")]
    assert bounds == pytest.approx([4 * 8 / 11, 4 * 8 / 9.5, 4 * 8 / 8.5])
    assert bubble_bound("pp_zbv", 4, 8) == bubble_bound("pp_zb1p", 4, 8)
    assert bubble_bound("pp_zbv", 4, 4) < bubble_bound("pp_zb1p", 4, 4)  # the V does not fill
