"""Which kernels' longest texts a capture keeps: those of the kernels that move the most bytes, as many as fit."""

from minicompile.lowering.captured import Graph

MOST_LINES = 6000  # of LLVM IR, and of C++ assembly, in a graph


def fitting(graph: Graph, lengths: dict[str, int], most: int = MOST_LINES) -> set[str]:
    """Names of the kernels whose texts are kept, the largest first: all of them in a small graph.

    Args:
        graph: whose kernels these are; where bytes are symbolic, a kernel counts as moving none.
        lengths: lines of each kernel's text.
        most: lines of all that are kept together; the first is kept whatever its length.
    """
    moved: dict[str, int] = {}
    for call in graph["calls"]:
        moved[call["kernel"]] = moved.get(call["kernel"], 0) + (call["bytes"] or 0)
    kept: set[str] = set()
    total = 0
    for name in sorted(lengths, key=lambda name: -moved.get(name, 0)):
        # on to the smaller ones: a long text does not keep a short one out
        if kept and total + lengths[name] > most:
            continue
        kept.add(name)
        total += lengths[name]
    return kept
