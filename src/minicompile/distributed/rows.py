"""The rows of a distributed.json, as schemas/distributed.schema.yaml describes them, and what ranks are told."""

from typing import NotRequired, TypedDict

from minicompile.distributed.collectives import Counts


class Job(TypedDict):
    """What every rank of one run is told."""

    pattern: str
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
    """What one rank saw; the loss of a step is None where this rank does not know it."""

    losses: list[float | None]
    step_seconds: list[float]
    collectives: Counts
    peak_memory_bytes: int


class Run(TypedDict):
    """One pattern on one number of ranks; lists with a value for each rank are in the ranks' order."""

    pattern: str
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
