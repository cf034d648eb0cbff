"""The rows of a distributed.json, as schemas/distributed.schema.yaml describes them, and what ranks are told."""

from typing import NotRequired, TypedDict

Counts = dict[str, dict[str, int]]  # kind of collective -> {"count": calls, "bytes": their payload}


class Job(TypedDict):
    """What every rank of one launch is told; `runs` are pairs of a pattern and a dtype, trained one after the other."""

    runs: list[tuple[str, str]]
    devices: list[str]
    sizes: dict[str, int]
    seed: int
    learning_rate: float
    batch: int
    microbatches: int
    steps: int
    backend: str
    threads: int
    time_limit_seconds: float


class RankResult(TypedDict):
    """What one rank saw of one run; the loss of a step is None where this rank does not know it.

    `busy_seconds` are a pipeline's: of each timed step, in the stage's forward, loss, backward and optimizer.
    `alone_seconds` are rank 0's, of tensor and pipeline parallel: what `pipeline.alone_seconds` times.
    Elsewhere both are empty.
    """

    losses: list[float | None]
    step_seconds: list[float]
    busy_seconds: list[float]
    alone_seconds: list[float]
    collectives: Counts
    peak_memory_bytes: int


class Run(TypedDict):
    """One pattern in one dtype on one number of ranks; lists with a value for each rank are in the ranks' order."""

    pattern: str
    dtype: str
    ranks: int
    tokens_per_s: float
    step_seconds: list[float]
    step_seconds_by_rank: list[list[float]]
    peak_memory_bytes: list[int]
    collectives: list[Counts]
    formula: list[Counts]
    matches_formula: bool
    sent_bytes: list[float]
    losses: list[float]
    loss_max_rel_difference: NotRequired[float]
    busy_seconds_by_rank: NotRequired[list[list[float]]]
    alone_seconds: NotRequired[list[float]]
