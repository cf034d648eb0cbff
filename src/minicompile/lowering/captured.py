"""The shape of a capture, as types: what schemas/capture.schema.yaml says of capture.json, for who reads and builds it.

What is typed is what several modules walk through; of choices, compiles and graph breaks the schema alone tells the
fields.
"""

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict

from minicompile.watching.watched import Kind

Direction = Literal["forward", "backward"]
Size = list[int | str]  # lengths of the axes; text where symbolic
PART = "operator.getitem"  # the target of an ATen node that takes one of an operation's several results
DTYPE_VIEW = "aten.view.dtype"  # the bits of a tensor taken for those of another dtype

# Something said by a code: `code`, and beside it the fields that its sentence needs. Pages word it by key, in their
# language (minicompile.explain.wording). So are a pane's title, the reason of a fusion, and what a capture lacks.
Coded = dict[str, Any]

Link = TypedDict("Link", {"from": str, "to": str, "kind": str, "pairs": list[list[int]]})


class Pane(TypedDict):
    """A text, from the source or a stage of the compile."""

    id: str
    kind: str
    title: Coded
    language: str
    graph: str | None
    lines: list[str]


class Node(TypedDict):
    """A node of the ATen graph, and what became of its result."""

    name: str
    op: str
    target: str
    inputs: list[str]
    size: Size | None
    stride: Size | None
    dtype: str | None
    bytes: int | None
    lowering: dict[str, Any] | None  # torch's function that lowered it
    line: int | None
    fate: str | None  # None for inputs, outputs and lengths, which are no tensors that are computed
    buffer: str | None
    layer: NotRequired[str | None]  # records made earlier have none
    by: NotRequired[Literal["values"]]  # its fate was found by its values; Inductor's notes tell others'


class Buffer(TypedDict):
    """A buffer of Inductor's, or an input of the graph."""

    name: str
    size: Size | None
    dtype: str | None
    bytes: int | None
    node: str | None
    input: bool
    removed: bool
    by: NotRequired[Literal["values"]]  # the node was found by its values


class Access(TypedDict):
    """A read or a write of a scheduler node."""

    buffer: str
    index: str
    sizes: Size


class Operation(TypedDict):
    """An operation of a loop body."""

    name: str
    operation: str
    producer: str | None
    stores: str | None
    buffer: str | None
    line: int | None
    # constants and indices are written into the lines of others
    emitted: bool


class SchedulerNode(TypedDict):
    """What the scheduler fuses."""

    name: str
    kind: str
    computes: str | None
    origins: list[str]
    aten_nodes: list[str]
    buffers: list[str]
    reads: list[Access]
    writes: list[Access]
    changes: list[str]
    is_reduction: bool
    reduction_type: str | None
    extern: str | None
    overload: str | None
    origin_node: str | None
    user_triton: bool
    template: bool
    loop_sizes: list[Size] | None
    indexing: dict[str, str]
    lines: dict[str, int | None]
    operations: list[Operation]


class Group(TypedDict):
    """Scheduler nodes that share a kernel call."""

    line: int
    kind: str
    members: list[str]
    bytes: int | None


class Decision(TypedDict):
    """A fusion that was considered: `reasons` are Inductor's own words, `reason` says the same by a code."""

    first: list[str]
    second: list[str]
    shared_buffers: list[str]
    taken: bool
    reasons: list[str]
    reason: Coded
    joined: NotRequired[bool]  # refused, and yet one call runs both: another fusion brought them together


class Assembly(TypedDict):
    """What Triton compiled a kernel to."""

    architecture: str
    configuration: dict[str, Any]
    # that autotuning would time; of a simulated GPU the first is shown
    candidates: int
    registers: int | None
    shared_bytes: int
    stack_bytes: int | None
    panes: dict[str, str | None]


class Kernel(TypedDict):
    """A kernel whose text stands in the code pane."""

    name: str
    language: str
    first: int
    last: int
    granularity: str
    scheduler_nodes: list[str]
    reductions: list[str | None]
    lines: int
    lines_tied: int
    assembly: Assembly | None
    listing: NotRequired[str | None]  # the pane of a C++ kernel's assembly, where it was asked for and fits


class Runs(TypedDict):
    """How often what stands in a graph within a graph runs in one call of that graph."""

    times: int  # every branch taken, and each loop turned once whose turns are not known
    branch: bool
    loop: bool
    turned: bool  # in a loop whose turns are known


class SubgraphCall(TypedDict):
    """A call of graphs within a graph: of a region, of one branch of torch.cond, of a loop's test and its body."""

    kind: str
    node: str | None
    line: int | None
    within: str | None  # the graph within the graph that it stands in itself
    graphs: list[str]
    turns: NotRequired[int | None]  # of a loop, where its text says so


class Stored(TypedDict):
    """A buffer that a call reads or writes, and the ATen nodes whose values are in it then; several are equal."""

    buffer: str
    nodes: list[str]
    part: str | None  # of nodes[0], where it is not the whole
    returned: bool


class CallValues(TypedDict):
    """What was found of a call when it was run beside the ATen graph; of one that was not, `code` tells why."""

    status: Literal["verified", "refused"]
    code: str | None
    elements: NotRequired[int]  # on how many it was compared, lines and stores together
    sampled: NotRequired[dict[str, int] | None]
    # nodes whose values are first found here, in the order of the lines' dependencies; those found before that are
    # computed once more; and of which only a part is
    computes: NotRequired[list[str]]
    again: NotRequired[list[str]]
    parts: NotRequired[list[dict[str, str]]]
    finishes: NotRequired[list[str]]  # those of `computes` that a library's call began
    moves: NotRequired[list[str]]
    reads: NotRequired[list[Stored]]
    stores: NotRequired[list[Stored]]
    in_place: NotRequired[list[list[str]]]  # (buffer written, buffer whose bytes it takes over)
    lines: NotRequired[list[dict[str, Any]]]


class Verified(TypedDict):
    """How much of a graph was found by values."""

    inputs: int
    refused: str | None  # why nothing was, where the graph could not be run
    kernels: list[int]  # of the calls of Inductor's kernels and the user's, how many, and how many there are


class Call(TypedDict):
    """A call of a kernel, generated or a library's."""

    id: str
    kernel: str
    extern: bool
    line: int | None
    arguments: list[list[str | None]]
    scheduler_nodes: list[str]
    aten_nodes: list[str]
    groups: list[int]
    bytes: int | None
    read_bytes: int | None
    written_bytes: int | None
    bytes_are: Literal["touched", "at_most", "counted"] | None
    within: NotRequired[str]  # the graph within the graph that it stands in
    runs: NotRequired[Runs]  # where that is not once
    values: NotRequired[CallValues]  # where the graph was run to verify it
    doubted: NotRequired[bool]  # the hooks passed something over (`invariants`), so its kernel's work is not told


class Graph(TypedDict):
    """One compiled graph and direction."""

    id: str
    index: int
    direction: Direction
    inference: bool
    panes: dict[str, str]
    nodes: list[Node]
    buffers: list[Buffer]
    scheduler_nodes: list[SchedulerNode]
    groups: list[Group]
    decisions: list[Decision]
    kernels: list[Kernel]
    calls: list[Call]
    subgraph_calls: NotRequired[list[SubgraphCall]]  # captures of before have none
    layers: NotRequired[dict[str, str]]
    verified: NotRequired[Verified]  # where the graph was run to verify it
    code_sha256: NotRequired[str]  # what `capture` adds to a graph that is built
    coverage: NotRequired[dict[str, Any]]
    invariants: NotRequired[dict[str, dict[str, Any]]]


class Target(TypedDict):
    """What the code was made for; `gpu` is the name of one that is here.

    `attention` is `math` where scaled_dot_product_attention was written out, though the device would have a kernel.
    """

    kind: Kind
    device: str
    gpu: str | None
    simulated: bool
    attention: NotRequired[str | None]


class Capture(TypedDict):
    """The whole of capture.json."""

    format: int
    model: dict[str, Any]
    target: Target
    environment: dict[str, Any]
    compile: dict[str, Any]
    missing_hooks: list[str]
    compiles: NotRequired[list[dict[str, Any]]]  # captures of before have none
    graph_breaks: list[dict[str, Any]]
    guards: list[str]
    recompiles: list[str]
    choices: list[dict[str, Any]]
    candidate_sources: NotRequired[dict[str, str]]  # not in captures from before there were any
    graphs: list[Graph]
    links: list[Link]
    panes: list[Pane]
    warnings: NotRequired[list[Coded]]
    provenance: NotRequired[dict[str, Any]]
    restored: NotRequired[dict[str, Any]]


def is_one_result(node: Node, nodes: Mapping[str, Node]) -> bool:
    """Whether an ATen node takes one of an operation's several results; where these are views, it is a view instead.

    Args:
        node: of a graph.
        nodes: all of the graph's, by name.
    """
    return node["target"] == PART and nodes[node["inputs"][0]]["fate"] != "view"
