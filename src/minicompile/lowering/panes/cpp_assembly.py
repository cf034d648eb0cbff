"""The panes of C++ kernels' machine code, tied to the lines that it was compiled from."""

from minicompile.lowering.captured import Graph
from minicompile.lowering.panes.listings import fitting
from minicompile.lowering.panes.panes import Panes


def with_cpp_assembly(graph: Graph, found: dict[str, list], panes: Panes) -> Graph:
    """Show the instructions of a graph's C++ kernels; returns the graph whose kernels name their `listing`.

    Args:
        graph: as it was built, which stays as it is.
        found: by kernel its instructions, each with its line of the code pane or None.
        panes: gets the panes of assembly, with the links to them.
    """
    kept, kernels = fitting(graph, {name: len(mapped) for name, mapped in found.items()}), []
    for number, kernel in enumerate(graph["kernels"]):
        listing, inside = None, range(kernel["first"], kernel["last"] + 1)
        if kernel["name"] in kept:
            # a line outside of the kernel would tie its instructions to other text of the code pane
            mapped = [(text, line if line in inside else None) for text, line in found[kernel["name"]]]
            listing = panes.add_machine(graph, number, "asm", "asm", mapped)
        kernels.append({**kernel, "listing": listing})
    return {**graph, "kernels": kernels}  # type: ignore[typeddict-item]  # a Kernel with one key more
