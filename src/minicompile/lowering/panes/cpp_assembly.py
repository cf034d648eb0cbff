"""The panes of C++ kernels' machine code, tied to the lines that it was compiled from."""

from minicompile.lowering.captured import Graph, Title
from minicompile.lowering.panes.listings import fitting
from minicompile.lowering.panes.panes import Panes


def with_cpp_assembly(graph: Graph, found: dict[str, list]) -> tuple[Graph, Panes]:
    """Show the instructions of a graph's C++ kernels.

    Args:
        graph: as it was built, which stays as it is.
        found: by kernel its instructions, each with its line of the code pane or None.

    Returns:
        The graph whose kernels name their `listing`, and the panes of assembly with the links to them.
    """
    kept = fitting(graph, {name: len(mapped) for name, mapped in found.items()})
    panes, kernels = Panes(), []
    for number, kernel in enumerate(graph["kernels"]):
        listing = None
        if kernel["name"] in kept:
            title: Title = {"code": "asm", "kernel": kernel["name"]}
            mapped = found[kernel["name"]]
            listing = panes.add(
                f"asm.{graph['id']}.{number}", "asm", title, "asm", [text for text, _ in mapped], graph["id"]
            )
            for place, (_, line) in enumerate(mapped, 1):
                # a line outside of the kernel would tie its instructions to other text of the code pane
                inside = line if line and kernel["first"] <= line <= kernel["last"] else None
                panes.link("machine", graph["panes"]["code"], inside, listing, place)
        kernels.append({**kernel, "listing": listing})
    return {**graph, "kernels": kernels}, panes  # type: ignore[typeddict-item]  # a Kernel with one key more
