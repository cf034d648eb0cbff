"""The shape of a capture, as types: what schemas/capture.schema.yaml says of capture.json, for who reads and builds it.

`Coded` is how a capture, and what is worked out from captures, says something: a code and the fields that its sentence
needs. Pages word it by key, in their language (minicompile.explain.wording).
"""

from typing import Any, Literal, NotRequired, TypedDict

Direction = Literal["forward", "backward"]
Size = list[int | str]  # lengths of the axes; text where symbolic


class Coded(TypedDict):
    """Something said by a code; its fields stand beside it, and which there are follows from the code."""

    code: str


class Opaque(Coded):
    """A fusion that was refused for a reason that the lab has no code for: `reason` is Inductor's own words."""

    reason: str


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
    dtype: str | None
    bytes: int | None
    lowering: Lowering | None
    line: int | None
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
    line: int | None
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
    is_reduction: bool
    reduction_type: str | None
    extern: str | None
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
    bytes: int | str


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


Kind = Literal["cpu", "cuda", "simulated"]


class Target(TypedDict):
    """What the code was made for; `gpu` is the name of one that is here."""

    kind: Kind
    device: str
    gpu: str | None
    simulated: bool


class Capture(TypedDict):
    """The whole of capture.json."""

    format: int
    model: dict[str, Any]
    target: Target
    environment: dict[str, Any]
    compile: dict[str, Any]
    missing_hooks: list[str]
    graph_breaks: list[dict[str, Any]]
    guards: list[str]
    recompiles: list[str]
    choices: list[dict[str, Any]]
    graphs: list[Graph]
    links: list[Link]
    panes: list[Pane]
    provenance: NotRequired[dict[str, Any]]
    restored: NotRequired[dict[str, Any]]
