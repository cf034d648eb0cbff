"""The rows of a profile.json, as schemas/profile.schema.yaml describes them; times are microseconds."""

from typing import TypedDict

from minicompile.watching.watched import Watched


class Busy(TypedDict):
    """What else the machine did meanwhile, as `minicompile.profile.busy` measures it."""

    seconds: float
    load_average: float
    involuntary_switches: int
    others_share: float | None
    steal_share: float | None


class Side(TypedDict):
    """Eager or compiled in one mode, timed twice: the median of all calls, percentiles, and tokens (or rows)
    `per_second` at the median; `peak_bytes` is None where it is not known."""

    median_us: float
    p20_us: float
    p80_us: float
    per_second: float
    peak_bytes: int | None
    tokens: int
    samples_us: list[float]
    again_us: list[float]
    noise: float


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
