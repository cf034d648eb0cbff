"""`Ties`: which line and which buffer of a lowered graph has which ATen node's values; plain data beside the graph.

A tie holds on every input that was run: the model's own where the graph was called with them, and random ones. Views
of a node have its elements in another order and are not named beside it; their `where` is `view`.

`part` says what of the first node a line or a buffer has, where it is not the node itself: `before_cast`, what is yet
to be rounded to its dtype; `unrounded`, the node but for a rounding of something before it, which the code leaves
out; `accumulated`, what a loop gathers for it; `partial`, what makes it when it is reduced once more by `by`;
`slice`, some of its elements; `repeated`, in a buffer that has more elements than it, those. `first` is said of a
line with values that no earlier line and no buffer had. A line without nodes was run and has no node's values.

`where` of a node: `line`, `library`, `buffer` (found in memory alone); `view`, of a node that is found; `constant`,
made of no input; `unseparated`, the same number everywhere on all inputs; `nowhere`. `few` of a node: its values are of
so few kinds, a flag that is always set say, that they may be another's by chance: alone they show nothing. A node
of a branch is `true_graph_0.cos`; of an operation that changes several of its arguments each is `operation[0]`.

Codes of refusals: `time`, `size`, `error` (of ours, with its kind), `language` (of Triton, with what), `descriptor`,
`out_of_bounds`, `crashed`, `assert`, `several_programs`, `kernel_kind`, `cpp`, `no_compiler`, `not_built`,
`no_vector_unit`, `user_kernel`, `random`, `input`, `integers` (that only the model knows, for an operator that does not
check them), `symbol`, `dtype`, `complex`, `constant`, `not_held`.
"""

from typing import Any, NotRequired, TypedDict

FORMAT = 1


class Refusal(TypedDict):
    """Why nothing of a graph was run."""

    code: str
    detail: str


class Line(TypedDict):
    """A line of a kernel's text, counted from 1, that assigns a value."""

    line: int
    name: str
    nodes: list[str]
    part: str | None
    elements: int
    first: bool


class Store(TypedDict):
    """What a buffer holds after a call that wrote it."""

    buffer: str
    nodes: list[str]
    part: str | None
    elements: int
    line: int | None  # of the kernel's text, that stored it
    by: NotRequired[str]


class Call(TypedDict):
    """A call of the wrapper's, in the order in which they were made."""

    call: int
    kernel: str
    line: int | None
    kind: str
    status: str
    code: str | None
    detail: str
    sampled: dict[str, int] | None
    random: bool
    lines: list[Line]
    computes: list[str]
    moves: list[str]
    reads: list[str]
    writes: list[str]
    in_place: list[list[str]]
    stores: list[Store]


class Buffer(TypedDict):
    """A name of the wrapper's for memory."""

    allocation: str
    bytes: int
    nodes: list[str]
    written_by: list[int]
    read_by: list[int]
    returned: bool
    input: str | None


class Ties(TypedDict):
    """What was found of one lowered graph."""

    format: int
    inputs: int
    own: bool  # whether the first of the inputs is the model's own
    refused: Refusal | None
    seconds: float
    calls: list[Call]
    buffers: dict[str, Buffer]
    nodes: dict[str, dict[str, Any]]


def refused(code: str, detail: str = "", seconds: float = 0.0) -> Ties:
    """Nothing was run."""
    return Ties(format=FORMAT, inputs=0, own=False, refused=Refusal(code=code, detail=detail), seconds=seconds,
                calls=[], buffers={}, nodes={})  # fmt: skip
