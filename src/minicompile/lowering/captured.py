"""The shape of a capture, as types: what schemas/capture.schema.yaml says of capture.json, for who reads and builds it.

`Coded` is how a capture, and what is worked out from captures, says something: a code and the fields that its sentence
needs. Pages word it by key, in their language (minicompile.explain.wording).
"""

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict

from minicompile.watching.watched import Kind

Direction = Literal["forward", "backward"]
Size = list[int | str]  # lengths of the axes; text where symbolic
PART = "operator.getitem"  # the target of an ATen node that takes one of an operation's several results
DTYPE_VIEW = "aten.view.dtype"  # the bits of a tensor taken for those of another dtype


class Coded(TypedDict):
    """Something said by a code; its fields stand beside it, and which there are follows from the code."""

    code: str


class Reason(Coded):
    """Why a fusion was taken or refused: about which `buffers`; without a code for it, `reason` is Inductor's words."""

    reason: NotRequired[str]
    buffers: NotRequired[list[str]]


Link = TypedDict("Link", {"from": str, "to": str, "kind": str, "pairs": list[list[int]]})


class Title(Coded):
    """What a pane shows: of a source its `file`, of bytecode the `function`, of assembly the `kernel`."""

    file: NotRequired[str]
    function: NotRequired[str]
    kernel: NotRequired[str]


class Pane(TypedDict):
    """A text, from the source or a stage of the compile."""

    id: str
    kind: str
    title: Title
    language: str
    graph: str | None
    lines: list[str]


class Lowering(TypedDict):
    """torch's function that lowered an ATen node."""

    function: str
    file: str | None
    line: int | None


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
    lowering: Lowering | None
    line: int | None
    # None for inputs, outputs and lengths, which are no tensors that are computed
    fate: str | None
    buffer: str | None
    layer: NotRequired[str | None]  # records made earlier have none


class Buffer(TypedDict):
    """A buffer of Inductor's, or an input of the graph."""

    name: str
    size: Size | None
    dtype: str | None
    bytes: int | None
    node: str | None
    input: bool
    removed: bool


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
    layers: NotRequired[dict[str, str]]
    code_sha256: NotRequired[str]  # what `capture` adds to a graph that is built
    coverage: NotRequired[dict[str, Any]]


class TensorShape(TypedDict):
    """An operand or result of an operation that was chosen for."""

    size: Size | None
    dtype: str | None


class PlacedNode(TypedDict):
    """A node of a graph, and its definition's line where a pane shows it."""

    name: str
    target: str | None
    pane: str | None
    line: int | None


class Demand(PlacedNode):
    """A node whose operand, in `buffer`, had to have a layout."""

    buffer: str | None


class Candidate(TypedDict):
    """What an operation could be computed with; `milliseconds`, or the `reason` why it was not timed."""

    name: str
    kind: str
    template: str | None
    configuration: dict[str, Any]
    milliseconds: float | None
    reason: Coded | None
    chosen: bool
    source: str | None


class AlgorithmChoice(TypedDict):
    """What `select_algorithm` chose for an operation."""

    kind: Literal["algorithm"]
    graph: str
    nodes: list[str]
    lines: list[int | None]
    operation: str
    inputs: list[TensorShape]
    output: TensorShape
    max_autotune: bool
    deferred: bool
    decided: str
    candidates: list[Candidate]
    # time of the fastest of the others over the chosen one's
    margin: float | None


class ClockChoice(TypedDict):
    """A product that is padded where timing it says so."""

    kind: Literal["clock"]
    graph: str
    nodes: list[PlacedNode]
    operation: str
    inputs: list[TensorShape]
    padded: bool
    plain_ms: float | None
    padded_ms: float | None
    how: str


class Configuration(TypedDict):
    """Block sizes, warps and stages with which a Triton kernel could be compiled."""

    configuration: dict[str, Any]
    milliseconds: float | None
    proposed: bool
    chosen: bool


class HeuristicChoice(TypedDict):
    """What a heuristic proposes for a Triton kernel."""

    kind: Literal["heuristic"]
    graph: str
    kernel: str
    heuristic: str
    size_hints: dict[str, Any]
    reduction_hint: str | None
    decided: str
    configurations: list[Configuration]


class PatternChoice(TypedDict):
    """A pattern that matched, and what it put in the place of what."""

    kind: Literal["pattern"]
    graph: str
    stage: str | None
    pattern: str
    replacement: str | None
    before: list[PlacedNode]
    after: list[PlacedNode]


class DecompositionChoice(TypedDict):
    """An operation that was taken apart into others."""

    kind: Literal["decomposition"]
    graph: str
    operation: str
    count: int
    became: dict[str, int]


class LayoutChoice(TypedDict):
    """A layout that somebody asked for."""

    kind: Literal["layout"]
    graph: str
    by: str
    wanted: Coded
    copied: bool
    demands: list[Demand]


class AbsentChoice(TypedDict):
    """Private functions that the installed torch lacks, so that choices made there are not seen."""

    kind: Literal["absent"]
    names: list[str]


Choice = (
    AlgorithmChoice | ClockChoice | HeuristicChoice | PatternChoice | DecompositionChoice | LayoutChoice | AbsentChoice
)


class Target(TypedDict):
    """What the code was made for; `gpu` is the name of one that is here.

    `attention` is `math` where scaled_dot_product_attention was written out, though the device would have a kernel.
    """

    kind: Kind
    device: str
    gpu: str | None
    simulated: bool
    attention: NotRequired[str | None]


class Compile(TypedDict):
    """A frame that Dynamo compiled: `reason` is the guard that failed before, `failure` why it was given up."""

    id: str
    frame: int | None
    recompile: int | None
    function: str | None
    file: str | None
    line: int | None
    reason: str | None
    failure: str | None
    graphs: list[int]
    seconds: float


class Frame(TypedDict):
    """A line of the user's at which something happened; `pane` where the capture has its text."""

    file: str
    line: int
    function: str
    pane: str | None


class GraphBreak(TypedDict):
    """Where Dynamo stopped: after which of its graphs, before which; at the frames of `stack`, the outermost first."""

    reason: str
    explanation: str | None
    hints: list[str]
    skipped: bool
    compile: str
    after: int | None
    before: int | None
    stack: list[Frame]
    count: int


class Warned(Coded):
    """What a capture lacks."""

    what: NotRequired[str]
    reason: NotRequired[str]
    direction: NotRequired[str]
    graph: NotRequired[str]
    names: NotRequired[list[str]]


class Capture(TypedDict):
    """The whole of capture.json."""

    format: int
    model: dict[str, Any]
    target: Target
    environment: dict[str, Any]
    compile: dict[str, Any]
    missing_hooks: list[str]
    compiles: NotRequired[list[Compile]]  # captures of before have none
    graph_breaks: list[GraphBreak]
    guards: list[str]
    recompiles: list[str]
    choices: list[Choice]
    candidate_sources: NotRequired[dict[str, str]]  # not in captures from before there were any
    graphs: list[Graph]
    links: list[Link]
    panes: list[Pane]
    warnings: NotRequired[list[Warned]]
    provenance: NotRequired[dict[str, Any]]
    restored: NotRequired[dict[str, Any]]


def is_one_result(node: Node, nodes: Mapping[str, Node]) -> bool:
    """Whether an ATen node takes one of an operation's several results; where these are views, it is a view instead.

    Args:
        node: of a graph.
        nodes: all of the graph's, by name.
    """
    return node["target"] == PART and nodes[node["inputs"][0]]["fate"] != "view"
