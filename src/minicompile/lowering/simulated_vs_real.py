"""The simulated GPU held against a real one, kernel by kernel: the same text, byte for byte, or what differs and why.

Both captures are of one model and made with the same torch and Triton on one machine, so that whatever differs comes
of the GPU's absence. A kernel's source is Inductor's; TTIR, PTX and machine code are what Triton makes of it with one
configuration, of which the real GPU chose its own by timing and the simulated one took the first.

A real GPU also decides by timing which products it pads. Those decisions are no difference between the two: the
simulated compile is given them (`minicompile.watching.model.clock_choices`).
"""

from collections import Counter
from difflib import unified_diff
from typing import Any

from minicompile.lowering.captured import Capture, Graph
from minilab import LabError

FORMAT = 1
STAGES = ("ttir", "ptx", "sass")
VERSIONS = ("torch", "triton")
DIFF_LINES = 40  # of a kernel's difference, at most


def compare_with_real(simulated: Capture, real: Capture) -> dict:
    """Compare two captures of one model.

    Args:
        simulated, real: captures (schemas/capture.schema.yaml) for the simulated target and for a GPU.

    Returns:
        What schemas/simulated_vs_real.schema.yaml describes.

    Raises:
        LabError: the captures are of different models, or were not made with the same torch and Triton.
    """
    if simulated["model"] != real["model"]:
        raise LabError(
            f"{simulated['model']['name']} and {real['model']['name']} are not captures of one model on the same "
            "inputs; capture both anew."
        )
    versions = [{name: made["environment"]["versions"].get(name) for name in VERSIONS} for made in (simulated, real)]
    if versions[0] != versions[1]:
        raise LabError(
            f"The simulated capture of {real['model']['name']} was made with {versions[0]} and the real one with "
            f"{versions[1]}, so their kernels differ for that; capture both on the machine that has the GPU."
        )
    graphs = [{graph["id"]: graph for graph in made["graphs"]} for made in (simulated, real)]
    both = [
        _graph(_Side(simulated, graphs[0][name]), _Side(real, graphs[1][name]))
        for name in graphs[1]
        if name in graphs[0]
    ]
    lone = sorted(graphs[0].keys() ^ graphs[1].keys())
    return {
        "format": FORMAT,
        "model": real["model"]["name"],
        "device": real["target"]["device"],
        "versions": versions[1],
        "replayed": sum(one["kind"] == "clock" and one["how"] == "replayed" for one in simulated["choices"]),
        "graphs": both,
        "lone_graphs": lone,
        "same": not lone and all(graph["same"] for graph in both),
    }


class _Side:
    """One graph of one capture, with its texts."""

    def __init__(self, capture: Capture, graph: Graph) -> None:
        self.graph = graph
        self.panes = {pane["id"]: pane["lines"] for pane in capture["panes"]}
        self.kernels = {kernel["name"]: kernel for kernel in graph["kernels"]}
        self.targets = Counter(node["target"] for node in graph["nodes"] if node["op"] == "call_function")
        self.library_calls = [call["kernel"] for call in graph["calls"] if call["extern"]]

    def text(self, name: str) -> list[str]:
        kernel = self.kernels[name]
        return self.panes[self.graph["panes"]["code"]][kernel["first"] - 1 : kernel["last"]]


def _graph(simulated: _Side, real: _Side) -> dict:
    pairs = _pairs(simulated, real)
    kernels = [_kernel(simulated, real, *pair) for pair in pairs]
    only = [dict(a.targets - b.targets) for a, b in ((simulated, real), (real, simulated))]
    calls = {"simulated": simulated.library_calls, "real": real.library_calls}
    same_calls = calls["simulated"] == calls["real"]
    found: dict[str, Any] = {
        "id": real.graph["id"],
        "direction": real.graph["direction"],
        "operations_only": {"simulated": only[0], "real": only[1]},
        "library_calls": {"same": same_calls, **({} if same_calls else calls)},
        "kernels": kernels,
        "only": {
            "simulated": [name for name in simulated.kernels if name not in {first for first, _ in pairs}],
            "real": [name for name in real.kernels if name not in {second for _, second in pairs}],
        },
    }
    whole = same_calls and not any(only) and not any(found["only"].values())
    return {**found, "same": whole and all(kernel["source_same"] for kernel in kernels), "why": _reasons(found)}


def _pairs(simulated: _Side, real: _Side) -> list[tuple[str, str]]:
    """(simulated's, real's) names of the kernels that belong together: by their text, then by their name."""
    # names are counted up along the graph, so that one kernel more shifts those of all that follow
    by_text = {"\n".join(simulated.text(name)): name for name in simulated.kernels}
    found = {name: by_text.get("\n".join(real.text(name))) for name in real.kernels}
    # a twin by text is sure, a namesake only likely: it must not take another one's twin
    taken = set(found.values())
    for name, twin in found.items():
        if twin is None and name in simulated.kernels and name not in taken:
            found[name] = name
    return [(twin, name) for name, twin in found.items() if twin]


def _kernel(simulated: _Side, real: _Side, first: str, second: str) -> dict:
    texts = simulated.text(first), real.text(second)
    # above `def` stand decorators and what they say of the device, which may differ where the code does not
    bodies = [text[next((n for n, line in enumerate(text) if line.startswith("def ")), 0) :] for text in texts]
    made = [side.kernels[name]["assembly"] for side, name in ((simulated, first), (real, second))]
    chosen = [one and one["configuration"] for one in made]
    stages = {
        stage: [
            one and side.panes.get(one["panes"][stage] or "") for side, one in zip((simulated, real), made, strict=True)
        ]
        for stage in STAGES
    }
    return {
        "name": second,
        "source_same": texts[0] == texts[1],
        "body_same": bodies[0] == bodies[1],
        "difference": list(unified_diff(*texts, "simulated", "real", lineterm="", n=0))[:DIFF_LINES],
        "configuration": {"simulated": chosen[0], "real": chosen[1], "same": chosen[0] == chosen[1]},
        # a text that one side lacks is neither the same nor another
        **{f"{stage}_same": None if None in both else both[0] == both[1] for stage, both in stages.items()},
    }


def _reasons(graph: dict) -> list[dict]:
    """What differs in a graph and why, each a code with its fields; none where all is the same."""
    reasons: list[dict] = []
    only = {side: targets for side, targets in graph["operations_only"].items() if targets}
    if only:
        reasons.append({"code": f"{'both' if len(only) == 2 else next(iter(only))}_operations", **only})
    if not graph["library_calls"]["same"]:
        reasons.append({"code": "library_calls"})
    other = [kernel["name"] for kernel in graph["kernels"] if not kernel["source_same"]]
    if other:
        headers = all(kernel["body_same"] for kernel in graph["kernels"])
        reasons.append({"code": "headers" if headers else "bodies", "kernels": other})
    tuned = [kernel["name"] for kernel in graph["kernels"] if not kernel["configuration"]["same"]]
    if tuned:
        reasons.append({"code": "configuration", "kernels": tuned})
    # another source or configuration explains another text by itself: only what is left is the compiler's doing
    compiled = [
        kernel["name"]
        for kernel in graph["kernels"]
        if kernel["source_same"]
        and kernel["configuration"]["same"]
        and False in (kernel["ttir_same"], kernel["ptx_same"])
    ]
    if compiled:
        reasons.append({"code": "compiled", "kernels": compiled})
    return reasons
