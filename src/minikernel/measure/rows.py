"""The rows of stage 24's artefacts, as types: what `bench.json` and `contest.json` hold. Times are microseconds."""

from typing import Any, TypedDict

Samples = dict[str, list[float]]  # provider -> every launch


class RawSamples(TypedDict):
    """Every launch of a row's own provider and of what was timed beside it; no graphs on a CPU."""

    samples_us: Samples
    graph_samples_us: Samples


class NoiseFloors(TypedDict):
    """How far a duplicate's median lay from the provider's own; None for graphs where there are none."""

    # how far the kernel timed twice lay from itself
    noise_floor: float
    graph_noise_floor: float | None


class Launched(NoiseFloors):
    """What all rows that were timed together share."""

    launches: int


class SoftmaxFigures(TypedDict):
    """The part of a softmax's row that follows from the timings of one shape."""

    kernel: str
    direction: str
    rows: int
    cols: int
    dtype: str
    median_us: float
    p20_us: float
    p80_us: float
    # one launch within a CUDA graph of twenty; None on a CPU
    graph_us: float | None
    # the fewest bytes that the operation has to move, over the
    # median: a kernel that reads twice shows half of what it moved
    gb_per_s: float
    # of a large copy's bandwidth in the same process, `copy_gb_per_s`
    fraction_of_copy: float
    flop_per_byte: float
    tflop_per_s: float
    l2_resident: bool
    reference_us: float
    reference_graph_us: float | None
    # over the reference's median in the same turns: below 1 is faster
    ratio_to_reference: float
    copy_us: float
    copy_gb_per_s: float
    # faster than a copy by more than a kernel can honestly be: looked into, not celebrated
    above_roof: bool
    # False when it is measured; restoring a record says it anew
    stale: bool


class BenchRow(SoftmaxFigures, RawSamples):
    """A row of `bench.json`."""

    max_rel_err: float
    config: dict[str, int] | None
    launches: int
    noise_floor: float
    ceiling: dict[str, Any]


class ContestRow(SoftmaxFigures, RawSamples, Launched):
    """A row of `contest.json`'s softmaxes."""

    max_rel_err: float
    copy_graph_us: float | None
    # which of the kernels at this place was timed a second time
    duplicated: str
    config: dict[str, int] | None


class HeadFigures(TypedDict):
    """The part of an LM head's row that follows from its timing."""

    kernel: str
    # whether the logits stayed on the chip, which decides what `bytes` counts
    fused: bool
    rows: int
    features: int
    cols: int
    dtype: str
    median_us: float
    p20_us: float
    p80_us: float
    graph_us: float | None
    bytes: int
    flop: int
    flop_per_byte: float
    tflop_per_s: float
    gb_per_s: float
    fraction_of_copy: float


class HeadRow(HeadFigures, RawSamples, Launched):
    """A row of `contest.json`'s LM heads."""

    max_rel_err: float
    duplicated: str


class Spread(TypedDict):
    """A provider's batches of calls on the host."""

    median_us: float
    p20_us: float
    p80_us: float
    noise_floor: float


class HostRow(Spread):
    """A row of `contest.json`'s costs on the host."""

    kernel: str
    rows: int
    cols: int
    dtype: str
    # with a gradient to record, autograd's own cost is part of the call
    requires_grad: bool
    calls: int
    batches: int
    samples_us: Samples


class StandardPlace(TypedDict):
    """Where a standard is asked for, and how it was timed there."""

    direction: str
    rows: int
    cols: int
    dtype: str
    timing: str
    noise_floor: float | None


class Compared(TypedDict):
    """The names of the two that a standard compares; None for one that is not there."""

    ours: str | None
    peer: str | None


class Judgement(TypedDict):
    """A value held against its bar; None is what could not be measured, which is not met."""

    ours_us: float | None
    peer_us: float | None
    value: float | None
    bar: float
    met: bool
    # missed, by no more than the noise floor: said beside the miss, which stays one
    within_noise: bool


class Standard(StandardPlace, Compared, Judgement):
    """An entry of `contest.json`'s standards."""

    standard: int
    what: str
