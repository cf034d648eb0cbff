"""How many bytes of memory each kernel call touches: the addresses that its loads and stores reach, each once.

Only operations that have a line in the kernel's text are counted, since a value that is still in a register is not
loaded.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy

from minicompile.watching.traffic.grids import how_many, in_union, within
from minicompile.watching.traffic.loop_accesses import Access, accesses
from minicompile.watching.traffic.vector_tails import VectorLoop, beyond


@dataclass
class Traffic:
    """Bytes that a kernel call reads and writes, each address once; `exact`, or else at most so many."""

    read_bytes: int
    written_bytes: int
    exact: bool


def count(touched: Iterable[Access], itemsize: Callable[[str], int], length: Callable[[str], int]) -> Traffic:
    """The bytes of all accesses of one call together.

    Args:
        touched: the accesses, of buffers that are in memory.
        itemsize: of a buffer, in bytes.
        length: elements of a buffer, which bounds what is not known.
    """
    read, written, exact = 0, 0, True
    by_buffer: dict[str, list[Access]] = defaultdict(list)
    for access in touched:
        by_buffer[access.buffer].append(access)
    for buffer, all_of_it in by_buffer.items():
        for way in ("reads", "writes"):
            some = [access for access in all_of_it if getattr(access, way)]
            elements, known = _union(some, length(buffer))
            exact &= known
            if way == "reads":
                read += elements * itemsize(buffer)
            else:
                written += elements * itemsize(buffer)
    return Traffic(read, written, exact)


def _union(some: list[Access], length: int) -> tuple[int, bool]:
    """How many different elements these accesses touch, and whether that is exact."""
    different: dict[Any, Any] = {}
    for access in some:
        key = access.elements if not isinstance(access.elements, numpy.ndarray) else access.elements.tobytes()
        different[key] = access.elements
    known = [elements for elements in different.values() if elements is not None]
    together = in_union(known) if len(known) > 1 else sum(map(how_many, known))
    unknown = sum(access.most for access in some if not access.exact)
    if together is None or (unknown and together < length):
        return min(length, unknown + (sum(map(how_many, known)) if together is None else together)), False
    return together, True


def of_calls(graphs: list[Any], calls: list[dict], definitions: list[Any]) -> list[Traffic | None]:
    """The traffic of each of a graph's calls of a generated kernel; None where it cannot be told.

    Args:
        graphs: the live `GraphLowering`, and those of the branches and loop bodies within it.
        calls: with the `scheduler_nodes` of each.
        definitions: the `KernelDefinition`s, which say what operations have a line.
    """
    nodes = {
        member.get_name(): (member, graph)
        for graph in graphs
        for node in graph.scheduler.nodes
        for member in node.get_nodes()
    }
    emitted = {one for made in definitions for _, one in made.operations if one not in made.handed}
    defined = {name for made in definitions if made.operations for name in made.scheduler_nodes}
    vector_loops: dict[str, list[VectorLoop]] = defaultdict(list)
    for loop in (loop for made in definitions for loop in made.vector_loops):
        vector_loops[loop.scheduler_node].append(loop)
    size_of = hints(graphs[0].sizevars)
    bodies: dict[str, dict | None] = {}

    def of_node(name: str) -> list[Access] | None:
        node, graph = nodes.get(name, (None, None))
        body = getattr(node, "_body", None)
        if graph is None or body is None or name not in defined:
            return None
        if name not in bodies:
            bodies[name] = _in_vectors(body, vector_loops[name], graph, size_of)
        found = bodies[name]
        if found is None:
            return None
        return [access for (operation, block), some in found.items() if (name, operation, block) in emitted
                for access in some if access.buffer not in graph.removed_buffers]  # fmt: skip

    def of_call(call: dict) -> Traffic | None:
        try:
            return of_known_sizes(call)
        except UnknownSize:
            return None

    def of_known_sizes(call: dict) -> Traffic | None:
        some = [of_node(name) for name in call["scheduler_nodes"]]
        if not some or any(one is None for one in some):
            return None
        graph = nodes[call["scheduler_nodes"][0]][1]
        real = getattr(graph.scheduler, "mutation_real_name", {})
        shared = {buffer: memory for made in definitions if set(made.scheduler_nodes) & set(call["scheduler_nodes"])
                  for buffer, memory in made.in_place.items()}  # fmt: skip
        touched = [access for one in some for access in one or ()]
        name_of = {access.buffer: _memory(access.buffer, real, shared) for access in touched}
        buffer_of = {name: buffer for buffer, name in name_of.items()}
        counted = count(
            [replace(access, buffer=name_of[access.buffer]) for access in touched],
            lambda name: graph.get_dtype(buffer_of[name]).itemsize,
            lambda name: _reach(_layout(buffer_of[name], graph), size_of),
        )
        viewed = [_viewed(name, graph.name_to_buffer) for name in buffer_of]
        return counted if len(set(viewed)) == len(viewed) else replace(counted, exact=False)

    return [of_call(call) for call in calls]


def _in_vectors(body: Any, loops: list[VectorLoop], graph: Any, hint: Callable[[Any], int]) -> dict | None:
    """What each operation of a loop body touches, and what the vectors of its kernels add to that."""
    found, more = accesses(body, hint), [beyond(body, loop, hint) for loop in loops]
    if found is None or None in more:
        return None
    for operation, some in (one for each in more for one in (each or {}).items()):
        for access in some:
            memory = _extent(access.buffer, graph, hint)
            parts = within(access.elements, *memory) if access.exact else [None]
            found[operation] += [replace(access, elements=part) for part in parts]
    return found


def _extent(buffer: str, graph: Any, hint: Callable[[Any], int]) -> tuple[int, int]:
    """Where the memory begins and ends that holds a buffer, in elements from the buffer's own first one."""
    layout = _layout(buffer, graph)
    if view := getattr(layout, "view", None):  # in another buffer's memory
        first, end = _extent(view.get_name(), graph, hint)
        offset = hint(view.get_layout().offset)
        return first - offset, end - offset
    return 0, _reach(layout, hint)


def _layout(buffer: str, graph: Any) -> Any:
    layout = graph.get_buffer(buffer).get_layout()
    return layout.real_layout() if hasattr(layout, "real_layout") else layout


def _reach(layout: Any, hint: Callable[[Any], int]) -> int:
    """How many elements there are from a buffer's own first one to its own last, in whatever memory it is."""
    return 1 + sum((hint(size) - 1) * hint(step) for size, step in zip(layout.size, layout.stride, strict=True))


def _memory(buffer: str, real: dict[str, str], shared: dict[str, str]) -> str:
    """What memory a buffer's name stands for: another buffer that it changes, or a parameter that several share."""
    while buffer in real and real[buffer] != buffer:
        buffer = real[buffer]
    return shared.get(buffer, buffer)


def _viewed(buffer: str, buffers: dict[str, Any]) -> str:
    """The buffer whose memory another one is a view of, where an operation that is no kernel made the view."""
    while (one := buffers.get(buffer)) is not None and (inside := one.get_inputs_that_alias_output()):
        buffer = inside[0]
    return buffer


class UnknownSize(ValueError):
    """A size that follows from data: how many elements a mask lets through, say."""


def hints(sizes: Any) -> Callable[[Any], int]:
    """A function that tells what a size that may be symbolic is for the example inputs.

    It raises `UnknownSize` where no input's shape tells that.
    """
    ask = getattr(sizes, "guarding_hint_or_throw", None) or sizes.size_hint

    def hint(size: Any, **_fallback: Any) -> int:
        if isinstance(size, int) or getattr(size, "is_Integer", False):
            return int(size)
        try:
            return int(ask(size))
        except (RuntimeError, TypeError) as error:
            raise UnknownSize(str(size)) from error

    return hint


def counted_by_inductor(nodes: list[Any], sizes: Any) -> list[int | None]:
    """The bytes that Inductor reckons with for each scheduler node; None where it would guess a size."""

    def of(node: Any) -> int | None:
        try:
            return int(node.get_read_write_buffers_sizes())
        except UnknownSize:
            return None

    guesses = "optimization_hint" if hasattr(sizes, "optimization_hint") else "size_hint"
    with mock.patch.object(sizes, guesses, hints(sizes)):
        return [of(node) for node in nodes]
