"""The rows of `model.json` as types: what it holds of each rung. Times are microseconds."""

from typing import TypedDict

Samples = dict[str, list[float]]  # rung -> every call


class Place(TypedDict):
    """Where forward passes are timed beside one another: sequences, tokens of each, and the model's dtype."""

    batch: int
    time: int
    dtype: str


class Parts(TypedDict):
    """What the device's time of a rung consists of; what is not known is None.

    `launches_us` is the time in which no kernel runs. Of a rung whose kernels write stamps, the rest is
    `memory_us`, `arithmetic_us` and `waiting_us`; of any other rung it is `kernels_us`.
    """

    # at least what an empty kernel in a graph takes: 3.55 us on an H200
    launches_us: float
    memory_us: float | None
    arithmetic_us: float | None
    waiting_us: float | None
    kernels_us: float | None


class ForwardFigures(TypedDict):
    """The part of a forward pass's row that follows from its samples."""

    device_us: float
    p20_us: float
    p80_us: float
    wall_us: float
    wall_p20_us: float
    wall_p80_us: float
    # of a duplicate of one rung at this place, under either clock
    noise_floor: float
    wall_noise_floor: float
    tflop_per_s: float


class Stamped(TypedDict):
    """What the blocks of one forward pass wrote down, in figures; `KIND_us` are sums over all blocks.

    `blocks` ran, `side_by_side` of them at the same moment at most, and at least one for `covered_us`.
    """

    blocks: int
    side_by_side: int
    covered_us: float
    memory_us: float
    arithmetic_us: float
    waiting_us: float


class ForwardRow(Place, ForwardFigures):
    """A row of `forward`: one rung at one place.

    Attributes:
        in_graph: whether the device's clock was read around the replay of a CUDA graph.
        max_rel_err: of the probabilities, against float64.
        tolerance_used: how much of the port's tolerances their logarithms use, at most 1 where they are allclose to
            float64's; None for other dtypes than float32.
        loss: on the held-out text, nats a token; None where it is not finite.
        kernels, kernels_us: how many kernels and copies torch's profiler saw in a pass, and the sum of what they took;
            None where it was not asked.
        stamped: what the kernels wrote down; None where they write nothing.
        parts: what the device's time consists of, by what the kernels wrote down, or else by the profiler.
        samples_us, wall_samples_us: every call under each clock; in a place's first row the duplicate's too.
    """

    rung: str
    in_graph: bool
    max_rel_err: float
    tolerance_used: float | None
    loss: float | None
    loss_tokens: int
    first_call_seconds: float
    launches: int
    duplicated: str
    flop: int
    bytes: int
    flop_per_byte: float
    stamped: Stamped | None
    kernels: int | None
    kernels_us: float | None
    parts: Parts | None
    samples_us: Samples
    wall_samples_us: Samples


class WritingFigures(TypedDict):
    """The part of a text's row that follows from its samples.

    A text has two times, as those who serve models count them: until its first token, in which the prompt is read and
    the call begins, and for each token after that, a token of every sequence. The figures of every rung are wall times
    that begin with the call and end when the device has done its work.

    Attributes:
        us_per_token: (a whole text - a text of one token after the same prompt) / (new_tokens - 1), the median over
            pairs that were timed one after the other; `p20_us` and `p80_us` of the same.
        first_token_us: a text of one token.
        noise_floor: of `us_per_token`.
        tokens_per_s: new tokens of all sequences over the time of a whole text, the prompt's included, as gpt-fast
            (github.com/meta-pytorch/gpt-fast) counts them.
    """

    us_per_token: float
    p20_us: float
    p80_us: float
    first_token_us: float
    noise_floor: float
    tokens_per_s: float


class GenerateRow(WritingFigures):
    """A row of `generate`: a rung that writes `new_tokens` after `given` ones, for some sequences side by side.

    `same_tokens`: the share of its tokens that are eager's. `samples_us` are whole texts' wall times, and
    `first_samples_us` those of texts of one token; in the first row for so many sequences the duplicate's too.
    """

    rung: str
    sequences: int
    dtype: str
    given: int
    new_tokens: int
    # below 1 where rounding turned a near tie: from there on the two texts are different ones
    same_tokens: float
    # compiling and packing included: what a user waits for once
    first_call_seconds: float
    duplicated: str
    samples_us: Samples
    first_samples_us: Samples


class Bar(TypedDict):
    """A value held against what was asked for; None is what could not be measured, which is not met."""

    what: str
    batch: int | None
    time: int | None
    sequences: int | None
    dtype: str
    ours_us: float | None
    peer: str | None
    peer_us: float | None
    value: float | None
    bar: float
    met: bool
    within_noise: bool
