"""How much a compile made: what of its code, its calls and its memory can be counted."""

import re

from minicompile.lowering.captured import Capture, Graph, Kernel
from minicompile.lowering.inner_graphs import bytes_moved, called

COUNTS = ("lines", "kernels", "launches", "generated_launches", "library_launches", "bytes", "materialised")


def counts(made: Capture) -> dict[str, int | None]:
    """Count what one compile made, all graphs and directions together.

    Returns:
        By the names in `COUNTS`: lines of generated code, kernels in it, `launches` (calls of kernels, generated ones
        and a library's), bytes that these calls read and write (None where one's are not known), and results of ATen
        nodes that are `materialised` in memory by a generated kernel.
    """
    calls = [called(graph) for graph in made["graphs"]]
    generated, libraries = (sum(one[what] for one in calls) for what in ("kernels", "libraries"))
    sizes = [bytes_moved(graph) for graph in made["graphs"]]
    known = [size for size in sizes if size is not None]
    return {
        "lines": sum(len(code_of(made, graph)) for graph in made["graphs"]),
        "kernels": sum(len(graph["kernels"]) for graph in made["graphs"]),
        "launches": generated + libraries,
        "generated_launches": generated,
        "library_launches": libraries,
        "bytes": sum(known) if len(known) == len(sizes) else None,
        "materialised": sum(node["fate"] == "materialised" for graph in made["graphs"] for node in graph["nodes"]),
    }


def code_of(made: Capture, graph: Graph) -> list[str]:
    """The lines of the code that was generated for a graph."""
    return next(pane["lines"] for pane in made["panes"] if pane["id"] == graph["panes"]["code"])


def text_of(made: Capture, graph: Graph, kernel: Kernel) -> str:
    """A kernel's text without its name and, of Triton, without what is noted for the launch above the function."""
    text = "\n".join(code_of(made, graph)[kernel["first"] - 1 : kernel["last"]])
    start = re.search(rf"^def {re.escape(kernel['name'])}\(", text, re.M)
    heuristics = re.search(r"^@triton_heuristics\.\w+", text, re.M)
    body = text[start.start() :] if start else text
    return f"{heuristics[0] if heuristics else ''}\n{body}".replace(kernel["name"], "")
