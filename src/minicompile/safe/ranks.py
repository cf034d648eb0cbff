"""The ranks of a distributed run decide together: if one falls back to eager, all do."""

from collections.abc import Sequence

import torch.distributed as dist


def ranks_present(group: dist.ProcessGroup | None = None) -> bool:
    """Whether there is another rank to agree with."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size(group) > 1


def failures_of_ranks(reason: str | None, group: dist.ProcessGroup | None = None) -> Sequence[str]:
    """Tell the other ranks this one's reason to fall back, None for success, and hear theirs.

    Every rank of the group must call it: it waits for all. With NCCL, the current device must be this rank's.

    Returns:
        `rank N: reason` of each rank that fell back, in order.
    """
    reasons: list[str | None] = [None] * dist.get_world_size(group)
    dist.all_gather_object(reasons, reason, group=group)
    return [f"rank {rank}: {text}" for rank, text in enumerate(reasons) if text is not None]
