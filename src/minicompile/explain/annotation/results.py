"""What became of each ATen node's result: in memory, under another name perhaps, or nowhere as a whole.

A capture's fates are about buffers that are exactly a node's result. The same values may be in memory all the same: as
a view, copied into an input that is changed in place, or as what a later operation then changes in place.
"""

from minicompile.explain.annotation.view import KernelView
from minicompile.lowering.captured import PART, Node

COPY = "aten.copy_.default"
GIVEN = {"placeholder": "input", "get_attr": "constant"}  # nodes that compute nothing; a kernel may copy what they hold


def operation_record(view: KernelView, node: Node) -> dict:
    """An ATen node with `source` as `file:line` (None without one), its `text`, and in words what it `became`.

    `several` says whether more than one result of it is taken. A node without a size of which none is taken, an
    assertion, has no result to tell of.
    """
    source = view.source(node["name"])
    return {
        **{key: node[key] for key in ("name", "target", "size", "dtype", "bytes")},
        "source": f"{source[0]['file'].rsplit('/', 1)[-1]}:{source[0]['line']}" if source else None,
        "text": source[0]["text"] if source else None,
        "several": bool(parts(view, node)),
        "became": _became(view, node),
    }


def parts(view: KernelView, node: Node) -> list[Node]:
    """The results of a node that returns several."""
    return [one for one in view.readers.get(node["name"], ()) if one["target"] == PART]


def in_memory(view: KernelView, node: Node) -> bool:
    """Whether a result is in memory as a whole, under whatever name; of several results, whether all are."""
    if node["size"] is None and (several := parts(view, node)):
        return all(in_memory(view, part) for part in several)
    return any(_is_written(view, one) for one in (node, *_same_values(view, node)))


def _became(view: KernelView, node: Node) -> str:
    if node["size"] is None:
        results = [f"`{part['name']}` {_became(view, part)}" for part in parts(view, node)]
        return "; ".join(results) or view.words("fates.nothing")
    if _is_written(view, node):
        return view.words("fates.materialised")
    if node["fate"] is None:
        return view.words(f"fates.{GIVEN.get(node['op'], 'size')}")
    other = next((one for one in _same_values(view, node) if _is_written(view, one)), None)
    return view.words("fates.elsewhere", name=other["name"]) if other else view.words(f"fates.{node['fate']}")


def _is_written(view: KernelView, node: Node) -> bool:
    """Whether a kernel stores a result, a library computes it, or its buffer is one that is allocated."""
    buffer = view.buffers.get(node["buffer"] or "")
    is_view_of_it = node["fate"] == "view" and buffer is not None and not buffer["removed"]
    return is_view_of_it or node["fate"] in ("materialised", "extern call", "inner graph")


def _same_values(view: KernelView, node: Node) -> list[Node]:
    """Views of a node's result and what it is copied into, and views of those."""
    direct = [
        one
        for one in view.readers.get(node["name"], ())
        if one["fate"] == "view" or (one["target"] == COPY and one["inputs"][1:] == [node["name"]])
    ]
    return [one for found in direct for one in (found, *_same_values(view, found))]
