"""What became of each ATen node's result: in memory, under another name perhaps, or nowhere as a whole.

A capture's fates are about buffers that are exactly a node's result. The same values may be in memory all the same: as
a view, copied into an input that is changed in place, or as what a later operation then changes in place.
"""

from minicompile.explain.annotation.view import KernelView
from minicompile.explain.evidence import Fact, Kind, of_fate, weakest
from minicompile.lowering.captured import PART, Node

COPY, CLONE = "aten.copy_.default", "aten.clone.default"
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
        "became": _fact(view, node),
    }


def parts(view: KernelView, node: Node) -> list[Node]:
    """The results of a node that returns several."""
    return [one for one in view.readers.get(node["name"], ()) if one["target"] == PART]


def in_memory(view: KernelView, node: Node) -> bool:
    """Whether a result is in memory as a whole, under whatever name; of several results, whether all are."""
    if node["size"] is None and (several := parts(view, node)):
        return all(in_memory(view, part) for part in several)
    return any(_is_written(view, one) for one in (node, *_same_values(view, node)))


def evidence_of(view: KernelView, node: Node) -> Kind:
    """What shows whether a node's result is in memory: of several results, and of what it is copied to, all."""
    if node["size"] is None and (several := parts(view, node)):
        return weakest(evidence_of(view, part) for part in several)
    other = None if _is_written(view, node) else _elsewhere(view, node)
    return of_fate(other or node)


def _fact(view: KernelView, node: Node) -> Fact:
    return Fact(_became(view, node), evidence_of(view, node))


def _elsewhere(view: KernelView, node: Node) -> Node | None:
    return next((one for one in _same_values(view, node) if _is_written(view, one)), None)


def _became(view: KernelView, node: Node) -> str:
    if node["size"] is None:
        results = [f"`{part['name']}` {_became(view, part)}" for part in parts(view, node)]
        return "; ".join(results) or view.words("fates.nothing")
    if node["name"] in view.finished:
        return view.words("fates.finished")
    if _is_written(view, node):
        return view.words("fates.materialised")
    if node["fate"] is None:
        return view.words(f"fates.{GIVEN.get(node['op'], 'size')}")
    other = _elsewhere(view, node)
    return view.words("fates.elsewhere", name=other["name"]) if other else view.words(f"fates.{node['fate']}")


def _is_written(view: KernelView, node: Node) -> bool:
    """Whether a kernel stores a result, a library computes it, or its buffer is one that is allocated."""
    buffer = view.buffers.get(node["buffer"] or "")
    is_view_of_it = node["fate"] == "view" and buffer is not None and not buffer["removed"]
    return is_view_of_it or node["fate"] in ("materialised", "extern call", "inner graph")


def _same_values(view: KernelView, node: Node) -> list[Node]:
    """Views of a node's result and what it is copied into, and views of those."""
    direct = [one for one in view.readers.get(node["name"], ()) if one["fate"] == "view" or _copies(view, one, node)]
    return [one for found in direct for one in (found, *_same_values(view, found))]


def _copies(view: KernelView, one: Node, node: Node) -> bool:
    """Whether a node holds another's values, element for element: a copy into place, or a clone that is stored."""
    if one["target"] == COPY:
        return one["inputs"][1:] == [node["name"]]
    return one["target"] == CLONE and one["dtype"] == node["dtype"]
