"""What became of each ATen node: in memory, in a register, in a library's call, or nowhere.

- `materialised`: its result is a buffer in memory.
- `extern call`: a library's kernel or a user's own computes it.
- `fused away`: it was a buffer until fusion let its consumers use the value at once.
- `inlined`: lowering made it part of its consumers' loops; it never was a buffer.
- `view`: another view of the same memory, or one of several results.
- `folded`: no code of its own is left; it is an index or a constant in its consumers' code, or nobody reads it.
"""


def fate(node: dict, buffers: dict[str, dict], extern_nodes: set[str], producers: set[str]) -> str:
    """The fate of one ATen node.

    Args:
        node: as in a capture, with `target` and `is_view`.
        buffers: the buffer whose contents are exactly that node's result, by the node's name.
        extern_nodes: nodes that an extern kernel computes.
        producers: nodes that contribute an operation to some loop body.
    """
    name, buffer = node["name"], buffers.get(node["name"])
    if node["target"] == "operator.getitem" or (node["is_view"] and name not in producers):
        return "view"
    if name in extern_nodes:
        return "extern call"
    if buffer is not None and not buffer["removed"]:
        return "materialised"
    if buffer is not None:
        return "fused away"
    return "inlined" if name in producers else "folded"
