"""What became of each ATen node.

A node's fate is where its result is: in memory, in a register, in a library's call, or nowhere.

- `materialised`: a kernel stores its whole result in memory, in a buffer of its own or in another one: `aten.copy_`
  changes its input, zeros are stored where `aten.index_put_` then adds, what is concatenated is stored part by part.
  Of several results, a variance and a mean, kernels store all that are taken.
- `extern call`: a library's kernel or a user's own computes it.
- `inner graph`: graphs within the graph compute it: a region, a branch of torch.cond, a loop.
- `fused away`: it was a buffer until fusion let its consumers use the value at once.
- `inlined`: lowering made it part of its consumers' loops; it never was a buffer.
- `view`: another view of the same memory, or one of several results. A view as another dtype is `inlined` where its
  reader's loop takes the bits for that dtype's.
- `folded`: no code of its own is left; it is an index or a constant in its consumers' code, or nobody reads it.
"""

import re
from collections import defaultdict
from collections.abc import Callable
from math import prod
from typing import Any

import sympy

from minicompile.lowering.captured import DTYPE_VIEW, PART
from minicompile.lowering.inner_graphs import CALLS, graphs_called

CONCATENATION = "ConcatKernel"  # allocates memory, into slices of which other loops store
WRAPPER = "triton_kernel_wrapper"  # in the target of a call of a Triton kernel of the user's
SCATTER = "Scatter"  # a loop that stores where an index says
UNUSED = re.compile(r"^\s*(#.*|del .*|\w+ = .*# reuse.*|\w+ = )")  # what of a wrapper's line uses no memory
TERM = re.compile(r"(?:(?P<step>\d+)\*)?c(?P<axis>\d+)")


def fate(
    node: dict,
    buffers: dict[str, dict],
    extern_nodes: set[str],
    producers: set[str],
    stored: set[str],
    made: set[str],
    in_templates: dict[str, bool],
) -> str:
    """The fate of one ATen node.

    Args:
        node: as in a capture, with `target` and `is_view`.
        buffers: the buffer that Inductor made for that node, by the node's name.
        extern_nodes: nodes that an extern kernel computes.
        producers: nodes that contribute an operation to some kernel's text.
        stored: nodes whose whole result some kernels store in memory.
        made: buffers that some scheduler node makes; the others' makers were dropped, since nobody reads them.
        in_templates: nodes that a template of torch's computes, each with whether its whole result is in memory.
    """
    name, buffer = node["name"], buffers.get(node["name"])
    # the order decides where several hold: a library's call first, then what is surely in memory, the loops last
    if name in extern_nodes:
        return "extern call"
    if node["target"] == PART:
        return "view"
    if name in stored or in_templates.get(name):
        return "materialised"
    if name in in_templates:
        return "fused away"
    if node["is_view"] and name not in producers:
        return "view"
    if buffer is not None and buffer["name"] in made and (buffer["removed"] or name in producers):  # or it were stored
        return "fused away"
    if name in producers:
        return "inlined"
    return "folded" if buffer is None or buffer["name"] not in made else "materialised"


def fates(lowered: dict[str, Any], own: dict[str, list[str]], emitted: Callable[[str, int], bool]) -> dict[str, str]:
    """The fate of each ATen node that computes something, by name.

    Args:
        lowered: one of a `Watched`'s `lowered`.
        own: the ATen nodes of each scheduler node, as `own_aten_nodes` gives them.
        emitted: whether a scheduler node's operation, by its position, has a line in a kernel.
    """
    nodes = lowered["scheduler_nodes"]
    loops = [(node["name"], position, one) for node in nodes for position, one in enumerate(node["operations"])]
    producers = {one["producer"] for name, position, one in loops if emitted(name, position)}
    in_memory = {buffer["name"]: buffer for buffer in lowered["buffers"] if not buffer["removed"]}
    results = _Results(lowered)
    stores = {
        results.of(one, in_memory[one["buffer"]])
        for name, position, one in loops
        if one["stores"] is not None and one["buffer"] in in_memory and emitted(name, position)
    }
    stored = {name for name in stores if name is not None}
    # a node with several results is stored when all are, of which each lies in a buffer of its own
    stored |= {name for name, parts in results.parts.items() if parts <= stored}
    stored |= {  # memory that is allocated as a whole and that others fill
        in_memory[one]["node"]
        for node in nodes if node["kind"] == CONCATENATION
        for one in node["buffers"] if one in in_memory and in_memory[one]["node"]
    }  # fmt: skip
    stored |= set(copies(lowered, emitted))
    # neither's text is Inductor's, so that no line of it can be told to compute one node rather than another
    opaque = [node for node in nodes if node["extern"] or node["user_triton"]]
    extern = {origin for node in opaque if node["kind"] not in CALLS for origin in own[node["name"]]}
    aten = {node["name"]: node for node in lowered["aten"]["nodes"]}
    inner = {graphs_called(node, aten)[0] for node in opaque if node["kind"] in CALLS}
    buffers = {buffer["node"]: buffer for buffer in lowered["buffers"] if buffer["node"]}
    buffers |= {
        name: buffers[part]
        for name, parts in results.parts.items()
        for part in parts
        if part in buffers and buffers[part]["removed"]
    }
    made = {buffer for node in nodes for buffer in node["buffers"]}
    templates = _in_templates(lowered)
    return {
        node["name"]: "inner graph"
        if node["name"] in inner
        else fate(node, buffers, extern, producers, stored, made, templates)
        for node in lowered["aten"]["nodes"]
        if node["op"] == "call_function" and not node["symbolic"]
    }


def _in_templates(lowered: dict[str, Any]) -> dict[str, bool]:
    """The ATen nodes that a template of torch's computes, each with whether all its results that are taken are stored.

    Their kernels have no loops that Inductor made, and so no operations.
    """
    aten = {node["name"]: node for node in lowered["aten"]["nodes"]}
    made_by = {buffer: node for node in lowered["scheduler_nodes"] for buffer in node["buffers"]}
    of_buffers: dict[str, list[dict]] = defaultdict(list)
    from_templates = set()
    for buffer in lowered["buffers"]:
        if buffer["node"] in aten and buffer["name"] in made_by:
            node = aten[buffer["node"]]
            whole = node["inputs"][0] if node["target"] == PART else node["name"]
            of_buffers[whole].append(buffer)
            from_templates |= {whole} if made_by[buffer["name"]]["template"] else set()
    return {name: not any(buffer["removed"] for buffer in of_buffers[name]) for name in from_templates}


def handed_to_none(lowered: dict[str, Any], wrapper: list[str]) -> set[str]:
    """The buffers of templates that no kernel is given and the graph does not return, allocated or not.

    What the template computes, it hands on at once to the loops that were fused to it.

    Args:
        lowered: one of a `Watched`'s `lowered`.
        wrapper: the lines of the code that are in no kernel.
    """
    # what is only allocated, freed or renamed was never written
    uses = [UNUSED.sub("", line) for line in wrapper]
    used = {name for line in uses for name in re.findall(r"\w+", line)}
    return {
        buffer for node in lowered["scheduler_nodes"] if node["template"]
        for buffer in node["buffers"] if buffer not in used
    }  # fmt: skip


def copies(lowered: dict[str, Any], emitted: Callable[[str, int], bool]) -> dict[str, str]:
    """By ATen node whose whole result a loop only copies into memory, the copy: fusion may leave it nowhere else."""
    known = {buffer["name"]: buffer for buffer in lowered["buffers"]}
    found = {}
    for node in lowered["scheduler_nodes"]:
        # a conversion between them would make other numbers, which are no copy
        if [one["operation"] for one in node["operations"]] != ["load", "store"] or not emitted(node["name"], 1):
            continue
        source, copy = (known.get(one["buffer"]) for one in node["operations"])
        if source is None or copy is None or copy["removed"] or source["node"] is None or len(node["reads"]) != 1:
            continue
        lengths = {_product(sizes) for sizes in (source["size"], copy["size"], node["reads"][0]["sizes"])}
        if len(lengths) == 1 and None not in lengths and _one_to_one(node["reads"][0]):
            found[source["node"]] = copy["name"]
    return found


def _one_to_one(read: dict) -> bool:
    """Whether a read's index is a sum of strides that never names an element twice."""
    terms = [TERM.fullmatch(term) for term in read["index"].split(" + ")]
    if not all(terms):
        return False
    steps = {int(match["axis"]): int(match["step"] or 1) for match in terms if match}
    reach = 0
    # from the smallest step: one within what the smaller ones reach together may meet an element a second time
    for axis in sorted(steps, key=steps.__getitem__):
        if steps[axis] <= reach:
            return False
        reach += steps[axis] * (read["sizes"][axis] - 1)
    return all(axis in steps for axis, length in enumerate(read["sizes"]) if length != 1)


def without_stores(lowered: dict[str, Any], emitted: Callable[[str, int], bool]) -> set[str]:
    """The buffers that loops would store and no kernel does: their memory is another's, reused at once, or none."""
    stored: dict[str, bool] = {}
    for node in lowered["scheduler_nodes"]:
        for position, one in enumerate(node["operations"]):
            if one["stores"] is not None:
                stored[one["buffer"]] = stored.get(one["buffer"], False) or emitted(node["name"], position)
    return {buffer for buffer, found in stored.items() if not found}


def contents(lowered: dict[str, Any]) -> list[dict]:
    """The buffers, each with the `node` whose result is stored in it, by what its loop stores where there is one."""
    results = _Results(lowered)
    stores = {
        one["buffer"]: one
        for node in lowered["scheduler_nodes"]
        for one in node["operations"]
        if one["stores"] is not None
    }

    def node_of(buffer: dict) -> str | None:
        store = stores.get(buffer["name"])
        return buffer["node"] if store is None else results.of(store, buffer)

    return [{**buffer, "node": node_of(buffer)} for buffer in lowered["buffers"]]


def attributed(lowered: dict[str, Any]) -> list[dict]:
    """The scheduler nodes, each store with the ATen node of its `result` where no operation is that node's own.

    Bits taken for another dtype's are the work of `aten.view.dtype`, though written among its reader's operations.
    """
    lowered = {**lowered, "scheduler_nodes": _with_bitcasts(lowered)}
    results, nodes = _Results(lowered), lowered["scheduler_nodes"]
    buffers = {buffer["name"]: buffer for buffer in lowered["buffers"]}
    known = {one["producer"] for node in nodes for one in node["operations"]}

    def result(one: dict) -> str | None:
        name = None if one["stores"] is None else results.of(one, buffers[one["buffer"]])
        return None if name in known else name

    return [{**node, "operations": [{**one, "result": result(one)} for one in node["operations"]]} for node in nodes]


def _with_bitcasts(lowered: dict[str, Any]) -> list[dict]:
    """The scheduler nodes, each bitcast produced by the view of its operand that asks for it, where there is one."""
    aten = {node["name"]: node for node in lowered["aten"]["nodes"] if node["op"] == "call_function"}

    def asks(name: str) -> set[str]:
        """The views of another dtype that a node's operands are, perhaps through other views."""
        views = [one for one in aten[name]["inputs"] if one in aten and aten[one]["is_view"]] if name in aten else []
        return {one for one in views if aten[one]["target"] == DTYPE_VIEW}.union(
            *(asks(one) for one in views if aten[one]["target"] != DTYPE_VIEW)
        )

    def attributed_to(one: dict) -> dict:
        # with two such views either may have asked, and to name one would be a guess
        asked = asks(one["producer"]) if one["operation"] == "to_dtype_bitcast" else set()
        return {**one, "producer": next(iter(asked))} if len(asked) == 1 else one

    return [
        {**node, "operations": [attributed_to(one) for one in node["operations"]]}
        for node in lowered["scheduler_nodes"]
    ]


def _unfinished(nodes: list[dict], made: dict[str, set[str]]) -> set[tuple[str, str]]:
    """(buffer, ATen node) where others go on with the node: a mean's sum, to be divided, what a scatter changes.

    Args:
        nodes: scheduler nodes.
        made: by scheduler node that a library computes or that changes memory, the ATen nodes that it stands for.
    """
    continued = set()
    for node in nodes:
        computed = {one["producer"] for one in node["operations"] if one["buffer"] is None}
        continued |= {
            (one["buffer"], one["producer"])
            for one in node["operations"]
            if one["operation"] == "load" and one["producer"] in computed
        }
    changed = {
        (buffer, one)
        for node in nodes
        for buffer in node["changes"]
        for one in {store["producer"] for store in node["operations"] if store["stores"]} | made[node["name"]]
    }
    return continued | changed


class _Results:
    """What the stores of a graph put into memory.

    A flip, a lookup or a copy reads its operand at indices of its own: what its loop stores is its result, whoever
    computed the numbers. Where a library's call asks for a layout, a loop of its own node copies what it is handed, and
    so does a scatter's, to change the copy: that, not the call's or the scatter's result, is then what is stored.

    Of an operation with several results that loops compute, each lies by itself: what is stored is one of them, or no
    result yet, a sum of squares say.

    Attributes:
        parts: by the name of such an operation, the nodes that take its results.
    """

    def __init__(self, lowered: dict[str, Any]) -> None:
        nodes = lowered["scheduler_nodes"]
        self._aten = {node["name"]: node for node in lowered["aten"]["nodes"] if node["op"] == "call_function"}
        self._inputs = {name: node["inputs"] for name, node in self._aten.items()}
        targets = {name: node["target"] for name, node in self._aten.items()}
        self._made_for = _made_for(nodes)
        made = {
            node["name"]: _stood_for(node, targets, self._made_for)
            for node in nodes if node["extern"] or node["changes"]
        }  # fmt: skip
        self._unfinished = _unfinished(nodes, made)
        self._called = {one for node in nodes if node["extern"] for one in made[node["name"]]}
        by_calls = {buffer for node in nodes if node["extern"] for buffer in node["buffers"]}
        self._of_calls = {  # loops that copy what a library's call made
            buffer for node in nodes for buffer in node["buffers"]
            if by_calls & {read["buffer"] for read in node["reads"]}
        }  # fmt: skip
        computed = {one["producer"] for node in nodes for one in node["operations"]}
        self.parts: dict[str, set[str]] = defaultdict(set)
        for name, target in targets.items():
            if target == PART and (whole := self._inputs[name][0]) in computed and not self._aten[whole]["is_view"]:
                self.parts[whole].add(name)
        parts = set().union(*self.parts.values())
        self._part_in = {buffer: name for name, buffer in lowered["parts"].items() if name in parts}
        self._scattered = {buffer for node in nodes if node["computes"] == SCATTER for buffer in node["buffers"]}

    def of(self, store: dict, buffer: dict) -> str | None:
        """The ATen node whose whole result a store puts into a buffer."""
        part = self._part_in.get(buffer["name"])
        if part is not None and _holds(buffer, self._aten[part]):
            return part
        loop, value = store["producer"], store["stores"]
        for_call = {loop, value} <= self._called
        handed = self._handed(loop, store["copies"] if for_call or value == loop else value)
        is_part = loop in self._aten and self._aten[loop]["target"] == PART
        whole = self._made_for.get(buffer["name"]) == loop and not is_part
        own_first = value == loop or whole or buffer["name"] in self._scattered
        if for_call:  # what is copied for a call, an input of the graph too, is not the call's own result
            names = [handed] if handed != loop or buffer["name"] in self._of_calls else []
        else:
            names = [loop, handed] if own_first else [handed, loop]
        for name in names:
            if (
                name in self._aten
                and name not in self.parts
                and _holds(buffer, self._aten[name])
                and (buffer["name"], name) not in self._unfinished
            ):
                return name
        return None

    def _handed(self, node: str | None, value: str | None) -> str | None:
        """The operand as which a node has a value: the value itself, or what reads it on the way there."""
        operands = [self._seen(name) for name in self._inputs.get(node, ())]
        on_the_way = (name for name in operands if value in self._before(name))
        return value if value in operands else next(on_the_way, value)

    def _seen(self, name: str) -> str:
        """What a node is a view of."""
        while name in self._aten and self._aten[name]["is_view"]:
            name = self._inputs[name][0]
        return name

    def _before(self, name: str) -> set[str]:
        """All that a node is computed from."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            given = set(self._inputs.get(waiting.pop(), ())) - found
            found |= given
            waiting += given
        return found


def _holds(buffer: dict, node: dict) -> bool:
    """Whether a buffer has room for all of a node's result; a partial result of a split reduction has not."""
    # a size that is not known refutes nothing
    if buffer["size"] is None or node["size"] is None:
        return True
    first, second = (sorted(str(length) for length in one["size"] if length != 1) for one in (buffer, node))
    return first == second or _points(buffer) == _points(node)


def _points(one: dict) -> sympy.Expr:
    """How many elements there are, in symbols where a length is one."""
    return sympy.expand(sympy.prod(sympy.sympify(length) for length in one["size"]))


def _product(sizes: list | None) -> int | None:
    """How many elements there are; None where a length is not known as a number."""
    return prod(sizes) if sizes is not None and all(isinstance(length, int) for length in sizes) else None


def own_aten_nodes(lowered: dict[str, Any]) -> dict[str, list[str]]:
    """By scheduler node, the ATen nodes that it computes: Inductor's `origins` reach back over what others compute."""
    nodes = {node["name"]: node for node in lowered["scheduler_nodes"]}
    targets = {node["name"]: node["target"] for node in lowered["aten"]["nodes"]}
    owners: dict[str, set[str]] = defaultdict(set)
    made_by = {buffer: name for name, node in nodes.items() for buffer in node["buffers"]}
    for name, node in nodes.items():
        for operation in node["operations"]:
            # what a user's kernel is given may be stored as it is asked for, by the loop that computes it
            if WRAPPER not in targets.get(operation["producer"], ""):
                owners[operation["producer"]].add(name)
    parts = [node for node in lowered["aten"]["nodes"] if node["target"] == PART and node["inputs"][0] in owners]
    whole = {node["name"]: node["inputs"][0] for node in parts}
    for buffer in lowered["buffers"]:
        if buffer["node"] and buffer["name"] in made_by:
            owners[whole.get(buffer["node"], buffer["node"])].add(made_by[buffer["name"]])
    found = {}
    for name, node in nodes.items():
        own = {producer for producer, names in owners.items() if producer and name in names}
        own |= {one for one in node["origins"] if one not in owners and WRAPPER not in targets.get(one, "")}
        if node["user_triton"]:
            own = {one for one in node["origins"] if WRAPPER in targets.get(one, "")}
        elif node["extern"]:
            own = _stood_for(node, targets, _made_for(lowered["scheduler_nodes"])) or own
        found[name] = sorted(own) or node["origins"]  # a convolution shares its node with its layout copies
    return _with_inlined(found, nodes, lowered["aten"]["nodes"])


def _with_inlined(own: dict[str, list[str]], nodes: dict[str, dict], aten: list[dict]) -> dict[str, list[str]]:
    """The same with the ATen nodes that Inductor counts to no loop, an index or a copy, in their readers' loops."""
    loops: dict[str, set[str]] = defaultdict(set)
    for name, owned in own.items():
        for one in owned:
            loops[one] |= {name} if nodes[name]["operations"] else set()
    known, readers = {one for owned in own.values() for one in owned}, defaultdict(list)
    for node in aten:
        for given in node["inputs"]:
            readers[given].append(node["name"])
    for node in reversed(aten):  # readers come after what they read
        if node["name"] not in known and node["op"] == "call_function" and not node["symbolic"]:
            loops[node["name"]] = set().union(*(loops[reader] for reader in readers[node["name"]]))
    computing = {node["name"] for node in aten if not node["is_view"] and node["target"] != PART}
    more = {name: {one for one, within in loops.items() if name in within and one in computing} for name in own}
    return {name: sorted({*owned, *more[name]}) for name, owned in own.items()}


def _made_for(nodes: list[dict]) -> dict[str, str | None]:
    """By buffer, the ATen node that Inductor made it for: of a copy that a scatter changes, the scatter."""
    return {buffer: node["origin_node"] for node in nodes for buffer in node["buffers"]}


def _stood_for(node: dict, targets: dict[str, str], made_for: dict[str, str | None]) -> set[str]:
    """The ATen nodes that a library's kernel stands for.

    Those of its own operation, or the one it was made for; else those whose memory it changes in place, as a scatter.
    """
    overload = ".".join((node["overload"] or "").split(".")[:2])
    # `scatter_reduce` becomes `scatter_reduce_`, on a copy
    calls = (f"{overload}.", f"{overload.removesuffix('_')}.")
    if same := {one for one in node["origins"] if overload and targets.get(one, "").startswith(calls)}:
        return same
    if node["origin_node"] in targets:
        return {node["origin_node"]}
    changed = {one for buffer in node["changes"] if (one := made_for.get(buffer))}
    return changed & set(node["origins"]) if node["extern"] else set()
