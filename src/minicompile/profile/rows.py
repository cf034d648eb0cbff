"""The rows of a profile.json, as schemas/profile.schema.yaml describes them; times are microseconds."""

from typing import TypedDict

from minicompile.watching.watched import Watched


class Spread(TypedDict):
    """Calls of one kind: the median, percentiles, and tokens (or rows) `per_second` at the median."""

    median_us: float
    p20_us: float
    p80_us: float
    per_second: float


class Busy(TypedDict):
    """What else the machine did meanwhile, as `minicompile.profile.busy` measures it."""

    seconds: float
    load_average: float
    involuntary_switches: int
    others_share: float | None
    steal_share: float | None


class Side(Spread):
    """Eager or compiled in one mode, timed twice; `peak_bytes` is None where it is not known."""

    peak_bytes: int | None
    tokens: int
    samples_us: list[float]
    again_us: list[float]
    noise: float


class FirstCall(TypedDict):
    """What the first calls of a compile in a process of its own cost and gave."""

    start_seconds: float
    cold_compile_seconds: float
    warm_compile_seconds: float
    max_difference: float | None
    graph_breaks: int
    peak_bytes: int | None
    eager_peak_bytes: int | None
    pool_bytes: int | None


class Timing(TypedDict):
    """One mode of torch.compile against eager, on one batch."""

    shape: list[int]
    mode: str
    calls: int
    start_seconds: float
    cold_compile_seconds: float
    warm_compile_seconds: float
    max_difference: float | None
    recompiles: int
    graph_breaks: int
    pool_bytes: int | None
    speedup: float
    noise: float
    verdict: str
    eager: Side
    compiled: Side


class LeftOut(TypedDict):
    """A part of a profile that could not be measured: `mode`, or the call taken apart (None), and the reason's code."""

    shape: list[int] | None
    mode: str | None
    reason: dict


class Round(TypedDict):
    """Every sample of each part of a call in one round; `libraries_us` by place in the call."""

    call_us: list[float]
    guards_us: list[float]
    wrapper_us: list[float]
    kernels_us: dict[str, list[float]]
    libraries_us: list[list[float]]


class TakenApart(TypedDict):
    """A compiled call as it was timed: so many `samples` in each of the `rounds`, and what was `compiled`, watched."""

    name: str
    on_gpu: bool
    samples: int
    rounds: list[Round]
    busy: Busy
    compiled: Watched


class Parts(TypedDict):
    """One time for each part of a call."""

    call_us: float
    guards_us: float
    wrapper_us: float
    kernels_us: dict[str, float]
    libraries_us: list[float]


class Split(TypedDict):
    """How a call's time divides; `rest_us` is None where host and device overlap."""

    samples: int
    overlapping: bool
    call_us: float
    guards_us: float
    wrapper_us: float
    kernels_us: float
    libraries_us: float
    rest_us: float | None


class Work(TypedDict):
    """What a generated kernel has to do in one call of it; `graph` is a captured graph's id."""

    name: str
    graph: str
    calls: int
    bytes: float
    flop: float


class TimedKernel(Work):
    """The same with its time, and what follows from that; `noise` is how far its two quietest rounds lie apart."""

    median_us: float
    noise: float
    gb_per_s: float
    tflop_per_s: float
    fraction_of_copy: float
    flop_per_byte: float
    share_of_call: float


class Core(TypedDict):
    """Attention alone, from queries, keys and values to their mixture, all layers together."""

    calls: int
    bytes: int
    us: float


class VariantNoise(TypedDict):
    """How far the two quietest rounds lie apart, of the whole call and of attention's core."""

    call: float
    core: float


class Variant(TypedDict):
    """A compiled model with its attention written one way."""

    split: Split
    noise: VariantNoise
    rounds: list[Round]
    generated_kernels: int
    library_calls: int
    bytes: int
    softmax_kernel: str | None
    operator: str | None
    core: Core
