"""The counts and texts about Inductor that the concept pages quote, from the capture of tiny_head as Triton."""

import re

from docs.build.matches import first_group
from minicompile.explain.wording import Wording
from minikernel.measure.cost import softmax_bytes

ITEMSIZE = 4  # of the float32 in which tiny_head is captured


def compiler_facts(capture: dict) -> dict:
    """Collect everything that the pages on the compiler quote.

    Args:
        capture: of `tiny_head` for the simulated H200, as `minicompile.capture` gives it.

    Returns:
        The release of torch, the texts of the panes quoted, counts at each stage, and the bytes that the softmax
        moves as one kernel and as separate operations.
    """
    graph, wording = capture["graphs"][0], Wording()
    panes = {pane["id"]: pane["lines"] for pane in capture["panes"]}
    code = panes[graph["panes"]["code"]]
    kernel = graph["kernels"][0]
    call = next(call for call in graph["calls"] if call["kernel"] == kernel["name"])
    sizes = {name: int(value) for name, value in call["arguments"] if value.isdigit()}
    operations = [node for node in graph["nodes"] if node["op"] == "call_function"]
    rows, cols = sizes["xnumel"], sizes["r0_numel"]
    body = _function(code[kernel["first"] - 1 : kernel["last"]])
    return {
        "release": capture["environment"]["versions"]["torch"].split("+")[0],
        "dynamo": _body(panes["dynamo.0"]),
        "aten": _body(panes[graph["panes"]["aten"]]),
        "operations": [
            {key: node[key] for key in ("target", "lowering")}
            | {"fate": wording.fate(node["fate"]) if node["fate"] else None}
            for node in operations
        ],
        "n_loops_and_calls": len(graph["scheduler_nodes"]),
        "n_launches": len(graph["groups"]),
        "library_calls": [call["kernel"] for call in graph["calls"] if call["extern"]],
        "decisions": [
            {key: made[key] for key in ("first", "second", "shared_buffers", "taken")}
            | {"sentence": wording.fusion_of(made)}
            for made in graph["decisions"]
        ],
        "kernel": kernel["name"],
        "assembly": kernel["assembly"],
        "kernel_code": body,
        "loads": body.count("tl.load("),
        "stores": body.count("tl.store("),
        "exponentials": len(re.findall(r"\bexp2?\(", body)),
        "in_place": "in_out_ptr" in body,
        "index": first_group(r"tl\.load\(\w+ \+ \((.*?)\)", body, kernel["name"]),
        "padding": max(0, int(first_group(r"R0_BLOCK: tl.constexpr = (\d+)", body, kernel["name"])) - cols),
        "rows": rows,
        "cols": cols,
        "removed": [
            {key: buffer[key] for key in ("name", "bytes")} for buffer in graph["buffers"] if buffer["removed"]
        ],
        "fused_bytes": call["bytes"],
        "least_bytes": softmax_bytes(rows, cols, ITEMSIZE),
        "apart": softmax_apart(rows, cols),
    }


def softmax_apart(rows: int, cols: int) -> list[tuple[str, int]]:
    """List the operations of a softmax, each with the bytes that it moves as a kernel of its own."""
    whole, column = rows * cols * ITEMSIZE, rows * ITEMSIZE
    return [
        ("amax", whole + column),
        ("sub", whole + column + whole),
        ("exp", whole + whole),
        ("sum", whole + column),
        ("div", whole + column + whole),
    ]


def _body(lines: list[str]) -> str:
    """Strip a graph's text of comments and blank lines."""
    kept = [line.split("  #")[0].rstrip() for line in lines if not line.strip().startswith("#")]
    return "\n".join(line for line in kept if line)


def _function(lines: list[str]) -> str:
    """Cut a Triton kernel's function out, without the imports and the launcher's settings above it."""
    return "\n".join(line for line in lines[lines.index("@triton.jit") :] if line.strip())
