"""Which ATen node each line of a generated kernel comes from: hooks that make the link exact, not guessed.

1. `ir.Loops.inner_fn` is wrapped, so that while a loop's body is traced the name of the innermost ATen node
   that contributes to it is on a stack.
2. `LightTracer.create_node` keeps that name with every operation of the loop body.
3. `IndentedBuffer.writeline` tags each line that is emitted while an operation is being written.
   Inductor compares expressions by their text; what it compares is taken untagged.
4. `InterpreterShim.run_node` tells which variable holds an operation's result: one that another operation has
   computed already gets no line of its own, and shares that one's. It tells besides which scheduler nodes are written
   into which kernel: what `define_kernel` is handed may be the first stage of a kernel alone.
5. `define_kernel` takes the tags off again before Inductor sees the kernel, so the code that is compiled is
   the same, byte for byte, as without the hooks.

Where the installed torch lacks one of them, nothing is patched and kernels are linked as wholes.
"""

import functools
import itertools
import operator
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest import mock

from minicompile.torch_private.names import LINE_HOOKS, missing, owner
from minicompile.watching.traffic.vector_tails import VectorLoop, VectorLoops

TAG = re.compile(r"[ \t]*(?:/\*|#) ?@op:(?P<node>\w+):(?P<operation>\w+):(?P<block>\d+)(?:\*/)?(?=[ \t]*(?:\n|$))")
TILE = "alignas("  # a line that declares the tile through which a load or a store transposes
LOAD = re.compile(r"\bload\(")  # Triton's, by a pointer or a descriptor
PASSED_ON = ("to_dtype", "identity")  # may return their operand as it is


class Operation(NamedTuple):
    """One operation of a loop body: its scheduler node, its name there, and the graph that holds it."""

    scheduler_node: str
    name: str
    block: int


@dataclass
class KernelDefinition:
    """A kernel as Inductor defines it for one call: several calls may share the text."""

    name: str
    source: list[str]  # lines, as they are emitted, from the first one that is not blank
    operations: list[tuple[int, Operation]]  # each with the index into `source` of a line that computes it
    scheduler_nodes: list[str]
    in_place: dict[str, str] = field(default_factory=dict)  # buffers that share memory, by the parameter for it
    vector_loops: list[VectorLoop] = field(default_factory=list)  # those in which masks let more through
    handed: set[Operation] = field(default_factory=set)  # loads that have a line, of what is in a register


def split_tags(tagged: str) -> tuple[str, list[tuple[int, Operation]]]:
    """The text without its tags, and the tagged operation of each line, counted from the first non-blank one."""
    lines = tagged.split("\n")
    found = []
    for index, line in enumerate(lines):
        if match := _tag(line):
            lines[index] = line[: match.start()] + line[match.end() :]
            found.append((index, Operation(match["node"], match["operation"], int(match["block"]))))
    clean = "\n".join(lines)
    skipped = len(clean) - len(clean.lstrip("\n"))
    return clean, [(index - skipped, operation) for index, operation in found]


def _tag(line: str) -> re.Match | None:
    """A line's tag: looked for where its mark is, since few lines have one and the blanks before it may be many."""
    place = line.rfind("@op:")
    return None if place < 0 else TAG.search(line, len(line[:place].rstrip(" \t/*#")))


def _untagged(text: str) -> str:
    """Code of one line or of several without its tags."""
    return TAG.sub("", text) if "@op:" in text else text


class LineHooks:
    """The hooks, and what they have seen of the graph that is being compiled."""

    def __init__(self) -> None:
        self.definitions: list[KernelDefinition] = []
        self.missing = missing(required_only=False, among=LINE_HOOKS)
        self._producers: list[str | None] = []
        # by scheduler node: when, operations, what kind of operation each is, and the variable that holds its result
        self._results: dict[str, list[tuple[int, Operation, str, object]]] = {}
        # by identity of a kernel that is being written: it, so that it keeps that identity, and what is written into it
        self._written_into: dict[int, tuple[Any, dict[str, None]]] = {}
        self._counted = itertools.count()
        self._vectors = VectorLoops()

    def take(self) -> list[KernelDefinition]:
        """Hand over the kernels that were defined for the graph at hand, and forget it."""
        definitions = list(self.definitions)
        self.definitions.clear()
        self._results.clear()
        self._written_into.clear()
        self._vectors.take()
        return definitions

    def patches(self) -> Iterator[AbstractContextManager]:
        """The patches to enter for the time of a compile."""
        for scheduling in ("cpp_scheduling", "triton_scheduling"):
            yield self._defining(owner(scheduling), scheduling == "triton_scheduling")
        if self.missing:
            return
        yield self._creating_loops()
        yield from self._storing()
        yield self._tracing()
        yield self._writing()
        yield self._comparing()
        yield self._computing()
        yield from self._vectors.patches()

    def _creating_loops(self) -> AbstractContextManager:
        # Each loop is given a closure as its body, so there is no method to patch: it is replaced as the node is made.
        node_class, virtual = owner("loops"), owner("V").V
        loops, original, producers = owner("ir").Loops, owner("loops").__post_init__, self._producers

        def post_init(node) -> None:
            original(node)
            if not isinstance(node, loops) or "inner_fn" not in vars(node):
                return
            current = getattr(virtual.graph, "current_node", None) if virtual.graph else None
            # The graph's current node is the ATen node whose lowering is making this loop.
            producer, inner_fn = getattr(current, "name", None), node.inner_fn

            @functools.wraps(inner_fn)
            def remembered(*args, **kwargs):
                producers.append(producer)
                try:
                    return inner_fn(*args, **kwargs)
                finally:
                    producers.pop()

            object.__setattr__(node, "_producer", producer)  # the dataclass is frozen
            object.__setattr__(node, "inner_fn", remembered)

        return mock.patch.object(node_class, "__post_init__", post_init)

    def _storing(self) -> Iterator[AbstractContextManager]:
        """The store that ends a loop's body is written outside `inner_fn`; it is its loop's all the same."""
        ir = owner("ir")
        for kind in [kind for kind in vars(ir).values() if isinstance(kind, type) and issubclass(kind, ir.Loops)]:
            for method in {"store_output", "store_reduction"} & vars(kind).keys():
                yield mock.patch.object(kind, method, self._stored(vars(kind)[method]))

    def _stored(self, original):
        def stored(node, *args, **kwargs):
            self._producers.append(getattr(node, "_producer", None))
            try:
                return original(node, *args, **kwargs)
            finally:
                self._producers.pop()

        return stored

    def _tracing(self) -> AbstractContextManager:
        import torch

        virtual, producers = owner("V").V, self._producers

        def create_node(tracer, *args, **kwargs):
            node = torch.fx.proxy.TracerBase.create_node(tracer, *args, **kwargs)
            producer = next((name for name in reversed(producers) if name), None)
            if producer is None:  # a body that is traced again from an older one inherits
                current = getattr(virtual.interpreter, "current_node", None)
                producer = getattr(current, "meta", {}).get("producer")
            node.meta["producer"] = producer
            return node

        # The class inherits the method: `create` puts one into it, so that no other tracer is touched.
        return mock.patch.object(owner("tracer").LightTracer, "create_node", create_node, create=True)

    def _writing(self) -> AbstractContextManager:
        import torch

        virtual, deferred = owner("V").V, owner("deferred").DeferredLineBase
        buffer = owner("writeline")
        original = buffer.writeline

        def tagged(text: str, tag: str) -> bool:
            # A comment behind a backslash would end the line that the backslash continues.
            return bool(text.strip()) and "@op:" not in text and "\n" not in text and not text.rstrip().endswith("\\")

        def writeline(self, line):
            operation = getattr(virtual.interpreter, "current_node", None)
            if not isinstance(operation, torch.fx.Node):  # most lines: of the wrapper, of a kernel's frame
                return original(self, line)
            node = getattr(virtual.kernel, "current_node", None)
            if hasattr(node, "get_name"):
                # A loop body and the blocks in it each number their operations from the start; the graph parts them.
                tag = f"@op:{node.get_name()}:{operation.name}:{id(operation.graph)}"
                tag = f" # {tag}" if "riton" in type(virtual.kernel).__name__ else f" /*{tag}*/"
                if isinstance(line, str) and tagged(line, tag):
                    line = line + tag
                elif isinstance(line, deferred) and tagged(line.line, tag):
                    line = line._new_line(line.line + tag)
            return original(self, line)

        return mock.patch.object(buffer, "writeline", writeline)

    def _comparing(self) -> AbstractContextManager:
        """Common subexpressions are found by their text, which for code of several lines would carry the tags.

        They are tagged again when that code is copied into the kernel.
        """
        cse, buffer, deferred = owner("cse"), owner("writeline"), owner("deferred").DeferredLineBase
        original = cse.generate

        def untagged(line):
            if isinstance(line, str):
                return _untagged(line)
            tagged = isinstance(line, deferred) and "@op:" in line.line
            return line._new_line(_untagged(line.line)) if tagged else line

        def generate(cse_, target, expression, *args, **kwargs):
            if isinstance(expression, buffer):
                expression._lines = [untagged(line) for line in expression._lines]
            return original(cse_, target, expression, *args, **kwargs)

        return mock.patch.object(cse, "generate", generate)

    def _computing(self) -> AbstractContextManager:
        shim, virtual = owner("run_node"), owner("V").V
        original = shim.run_node

        def run_node(interpreter, node):
            result = original(interpreter, node)
            kernel = virtual.kernel
            current = getattr(kernel, "current_node", None)
            if hasattr(current, "get_name"):
                self._written_into.setdefault(id(kernel), (kernel, {}))[1][current.get_name()] = None
            if node.op == "call_method" and hasattr(current, "get_name"):
                operation = Operation(current.get_name(), node.name, id(node.graph))
                results = result if isinstance(result, tuple) else (result,)
                # a load gets what was stored in a fused loop without loading it: only one of the same buffer is shared
                kind = f"load {node.args[1]}" if node.target == "load" else node.target
                self._results.setdefault(operation.scheduler_node, []).extend(
                    (next(self._counted), operation, kind, one) for one in results if hasattr(one, "name")
                )
            return result

        return mock.patch.object(shim, "run_node", run_node)

    def _shared(self, operations: list[tuple[int, Operation]], members: list[str]) -> list[tuple[int, Operation]]:
        """Lines of those operations whose result another one had computed already.

        A load that gets a value from its fused producer has its variable too, but computes nothing.
        """
        lines: dict[Operation, list[int]] = {}
        for index, operation in operations:
            lines.setdefault(operation, []).append(index)
        holders: dict[int, list[tuple[Operation, str]]] = {}
        found = [one for member in dict.fromkeys(members) for one in self._results.get(member, ())]
        for _, operation, kind, result in sorted(found, key=operator.itemgetter(0)):
            holders.setdefault(id(result), []).append((operation, kind))
        shared: dict[tuple[int, Operation], None] = {}
        for together in holders.values():
            written = next(((operation, kind) for operation, kind in together if operation in lines), None)
            if written is None:
                continue
            for operation, kind in together:
                if operation not in lines and kind in (written[1], *PASSED_ON):
                    shared |= dict.fromkeys((index, operation) for index in lines[written[0]])
        return list(shared)

    def _members_of(self, handed: list[Any]) -> list[str]:
        """The scheduler nodes that were written into the kernel among what `define_kernel` was handed, in order."""
        written = [self._written_into.get(id(part)) for one in handed for part in _parts(one)]
        return [name for found in written if found is not None for name in found[1]]

    def _handed(self, source: str, operations: list[tuple[int, Operation]]) -> set[Operation]:
        """The loads of a Triton kernel whose lines load nothing: they give another shape to what is in a register."""
        lines, loads = source.lstrip("\n").split("\n"), set()
        for _, operation, kind, _ in itertools.chain.from_iterable(self._results.values()):
            loads |= {operation} if kind.startswith("load ") else set()
        return loads - {operation for index, operation in operations if LOAD.search(lines[index])}

    def _defining(self, scheduling: Any, triton: bool) -> AbstractContextManager:
        original = scheduling.define_kernel

        def define_kernel(backend, source, nodes, *args, **kwargs):
            clean, operations = split_tags(source)
            operations = _written(clean, operations)
            name = original(backend, clean, nodes, *args, **kwargs)
            given = [name for node in nodes for name in _names(node)]
            more = [one for one in self._members_of([*args, *kwargs.values()]) if one not in given]
            operations = operations + self._shared(operations, [*given, *more])
            members = [*_members(nodes, operations), *more]
            lines, in_place = clean.lstrip("\n").split("\n"), _in_place(backend, *args, *kwargs.values())
            loops, handed = self._vectors.take(), self._handed(clean, operations) if triton else set()
            self.definitions.append(KernelDefinition(name, lines, operations, members, in_place, loops, handed))
            return name

        return mock.patch.object(scheduling, "define_kernel", define_kernel)


def _parts(kernel: Any) -> list[Any]:
    """What a kernel is written in: itself, or the parts of a combined one."""
    return [kernel, *getattr(kernel, "sub_kernels", ())]


def _members(nodes: Any, operations: list[tuple[int, Operation]]) -> list[str]:
    """The scheduler nodes that a kernel is written for, by its operations.

    For nodes side by side that are combined, torch may write several kernels: each is for those of which it has lines.
    """
    lined = {operation.scheduler_node for _, operation in operations}
    found: list[str] = []
    for node in nodes:
        parts = [_names(part) for part in node.get_subkernel_nodes()] if hasattr(node, "get_subkernel_nodes") else []
        here = [name for part in parts if lined & {*part} for name in part]
        found += here or _names(node)
    return found


def _names(node: Any) -> list[str]:
    return [one.get_name() for one in node.get_nodes()] if hasattr(node, "get_nodes") else []


def _written(source: str, operations: list[tuple[int, Operation]]) -> list[tuple[int, Operation]]:
    """The pairs of those operations that have more than the declaration of a tile: to fill it was left out."""
    lines = source.lstrip("\n").split("\n")
    written = {operation for index, operation in operations if not lines[index].lstrip().startswith(TILE)}
    return [(index, operation) for index, operation in operations if operation in written]


def _in_place(*holders: Any) -> dict[str, str]:
    """The buffers that one parameter of a kernel stands for, by that parameter's name.

    Its arguments are kept by the kernel, by each part of a combined one, or by the C++ backend's group of kernels.
    """
    found: dict[str, str] = {}
    for holder in holders:
        held = [*_parts(holder), getattr(holder, "kernel_group", None)]
        for arguments in [getattr(one, "args", one) for one in held]:
            for buffer, shared in (getattr(arguments, "inplace_buffers", None) or {}).items():
                if hasattr(shared, "inner_name"):
                    found[buffer] = f"{id(arguments)}.{shared.inner_name}"
    return found
